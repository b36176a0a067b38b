package lxc

import (
	"context"
	"errors"
	"maps"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/lxc/internal/wire"
	"github.com/hostler-io/hostler/runner/rundir"
)

func TestInits(t *testing.T) {
	var m inits
	cmd := exec.Command("/bin/sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	defer cmd.Wait()
	defer cmd.Process.Kill()
	ticks, err := rundir.StartTicks(pid)
	if err != nil {
		t.Fatal(err)
	}

	m.learn("web", pid, 0)
	if _, ok := m.alive("web"); ok {
		t.Error("a process that is younger than the question was taken for what was told")
	}
	later := (time.Duration(ticks) + 2) * 10 * time.Millisecond
	m.learn("web", pid, later)
	if got, ok := m.alive("web"); !ok || got.pid != pid || got.ticks != ticks {
		t.Errorf("alive = %v, %t; want %d", got, ok, pid)
	}
	if _, ok := m.alive("db"); ok {
		t.Error("another container has the same init")
	}

	// The pid has passed to another process.
	m.known["web"] = initProcess{pid, ticks - 1}
	if _, ok := m.alive("web"); ok {
		t.Error("a process that started at another time is taken for the init")
	}
	m.learn("web", pid, later)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if _, ok := m.alive("web"); ok {
		t.Error("an init that has ended is alive")
	}
}

// onlyInit answers inspect with a container whose init is the process that has
// started this one: what is younger than the question is not remembered.
type onlyInit struct{ asked int }

func (h *onlyInit) operations() []container.Operation { return nil }

func (h *onlyInit) close() {}

func (h *onlyInit) file() (string, error) { return "/helper", nil }

func (h *onlyInit) call(context.Context, string, wire.Request) (wire.Answer, error) {
	h.asked++
	return wire.Answer{Infos: []container.Info{{Name: "web", State: container.StateRunning, InitPID: os.Getppid()}}}, nil
}

// youngInit answers inspect, so many times, with the number of a process that has begun only
// after the question, as when an init ends and its number is given to another process. Then
// it answers with an older one.
type youngInit struct {
	onlyInit
	t     *testing.T
	young int
}

func (h *youngInit) call(ctx context.Context, op string, req wire.Request) (wire.Answer, error) {
	if h.asked >= h.young {
		return h.onlyInit.call(ctx, op, req)
	}
	h.asked++
	cmd := exec.Command("/bin/sleep", "1000")
	if err := cmd.Start(); err != nil {
		return wire.Answer{}, err
	}
	h.t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return wire.Answer{Infos: []container.Info{{Name: "web", State: container.StateRunning, InitPID: cmd.Process.Pid}}}, nil
}

// TestFilesAreOfTheContainer: a process that is younger than the question for the
// container's first process is not taken for it. Its root directory may be the host's.
func TestFilesAreOfTheContainer(t *testing.T) {
	ask := func(young int) (container.Files, error) {
		h := &youngInit{t: t, young: young}
		r := &Runtime{helper: h, cfg: Config{Helper: "/helper", LXCPath: "/lxc", LockDir: "/locks", Deadlines: Deadlines{Query: time.Minute}}}
		return r.Files(t.Context(), "web")
	}
	if f, err := ask(1000); !errors.Is(err, container.ErrNotRunning) {
		t.Errorf("with another process each time: %+v, %v", f, err)
	}
	ticks, err := rundir.StartTicks(os.Getppid())
	if err != nil {
		t.Fatal(err)
	}
	if f, err := ask(1); err != nil || f.InitPID != os.Getppid() || f.InitTicks != ticks {
		t.Errorf("after one restart: %+v, %v; want process %d of %d", f, err, os.Getppid(), ticks)
	}
}

func TestExecAsksOnce(t *testing.T) {
	h := &onlyInit{}
	r := &Runtime{helper: h, cfg: Config{Helper: "/helper", LXCPath: "/lxc", LockDir: "/locks", Deadlines: Deadlines{Query: time.Minute}}}
	first, err := r.Exec(t.Context(), "web")
	if err != nil {
		t.Fatal(err)
	}
	second, err := r.Exec(t.Context(), "web")
	if err != nil || !maps.Equal(first.Target, second.Target) || h.asked != 1 {
		t.Errorf("Exec = %v, then %v, %v, by %d questions; want the same target by one", first, second, err, h.asked)
	}
}
