package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/agent"
	"github.com/hostler-io/hostler/agent/commands"
	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/internal/builttest"
	"github.com/hostler-io/hostler/internal/clock"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/runner"
	"github.com/hostler-io/hostler/runner/rundir"
)

// rig is an agent alone, with the real runner and the real supervisor.
type rig struct {
	t          *testing.T
	dir        string
	supervisor string
	boot       string
	agent      *agent.Agent
	down       func()
	later      atomic.Int64 // ms by which its boot clock is ahead
}

func newRig(t *testing.T) *rig {
	dir := t.TempDir()
	r := &rig{t: t, dir: dir, supervisor: builttest.Program(t, "hostler-run")}
	var err error
	if r.boot, err = runner.Boot(); err != nil {
		t.Fatal(err)
	}
	q, err := queue.Create(t.Context(), queue.Config{Path: filepath.Join(dir, "queue.db")}, protocol.StoreID{1})
	if err != nil {
		t.Fatal(err)
	}
	r.start(q)
	t.Cleanup(func() { r.down() })
	return r
}

func (r *rig) start(q *queue.Queue) {
	r.t.Helper()
	runs, err := runner.New(runner.Config{Root: filepath.Join(r.dir, "runs")})
	if err != nil {
		r.t.Fatal(err)
	}
	supervisors := commands.NewSupervisors(runs, r.boot)
	r.agent, err = agent.New(agent.Config{Host: host, Fleet: fleet, FleetName: fleetName, Queue: q,
		Commands: supervisors, RunDirs: supervisors, Supervisor: []string{r.supervisor}, Boot: r.boot,
		CheckEvery: time.Second, BootMS: func() int64 { return clock.BootMS() + r.later.Load() }})
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.agent.Run(ctx) }() // waited for by down
	r.down = func() {
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			r.t.Errorf("Run returned %v", err)
		}
		if err := errors.Join(runs.Close(), q.Close()); err != nil {
			r.t.Error(err)
		}
	}
}

func (r *rig) restart() {
	r.t.Helper()
	r.down()
	q, err := queue.Open(context.Background(), queue.Config{Path: filepath.Join(r.dir, "queue.db")})
	if err != nil {
		r.t.Fatal(err)
	}
	r.start(q)
}

func (r *rig) propose(argv ...string) protocol.ActionID {
	r.t.Helper()
	b, err := json.Marshal(protocol.Spec{Kind: protocol.KindRun, Args: protocol.Command(argv...)})
	if err != nil {
		r.t.Fatal(err)
	}
	act, err := r.agent.Propose(r.t.Context(), protocol.ActionID{}, b, "root")
	if err != nil {
		r.t.Fatal(err)
	}
	return act.ID
}

func (r *rig) wait(id protocol.ActionID) agent.Action {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 2*time.Minute)
	defer cancel()
	act, err := r.agent.WaitAction(ctx, id)
	if err != nil {
		r.t.Fatalf("action %s: %v", id, err)
	}
	return act
}

// first reads the first line of a command that runs.
func (r *rig) first(id protocol.ActionID) string {
	r.t.Helper()
	out, err := r.agent.Output(r.t.Context(), id, agent.LocalRoot, protocol.Stdout, 0, true, false)
	if err != nil {
		r.t.Fatal(err)
	}
	defer out.Close()
	buf := make([]byte, 100)
	n, err := out.Read(buf)
	if err != nil {
		r.t.Fatal(err)
	}
	return strings.TrimSpace(string(buf[:n]))
}

func TestRealCommands(t *testing.T) {
	r := newRig(t)
	good := r.propose("/bin/sh", "-c", "echo out; echo err >&2; exit 0")
	bad := r.propose("/bin/sh", "-c", "exit 7")
	missing := r.propose("/no/such/program")
	hangs := r.propose("/bin/sh", "-c", "echo ready; sleep 600")

	if act := r.wait(good); act.State != protocol.StateDone || act.Output[0].Bytes != 4 || act.Output[1].Bytes != 4 {
		t.Errorf("good: %+v", act)
	}
	out, err := r.agent.Output(t.Context(), good, agent.LocalRoot, protocol.Stderr, 1, false, false)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if text, err := io.ReadAll(out); err != nil || string(text) != "rr\n" {
		t.Errorf("stderr from 1: %q, %v", text, err)
	}
	if act := r.wait(bad); act.Reason != protocol.ReasonExit || act.Exit.Code != 7 {
		t.Errorf("bad: %+v", act)
	}
	if act := r.wait(missing); act.Reason != protocol.ReasonNoStart || act.Exit == nil || act.Exit.Code != 127 {
		t.Errorf("missing: %+v", act)
	}
	if got := r.first(hangs); got != "ready" {
		t.Errorf("first line %q", got)
	}
	if _, err := r.agent.CancelLocal(t.Context(), hangs); err != nil {
		t.Error(err)
	}
	if act := r.wait(hangs); act.State != protocol.StateCancelled {
		t.Errorf("cancelled: %+v", act)
	}
}

func TestRealRestart(t *testing.T) {
	r := newRig(t)
	fifo := filepath.Join(r.dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	lives := r.propose("/bin/sh", "-c", "echo begun; read line <"+fifo+"; echo $line")
	dies := r.propose("/bin/sh", "-c", "echo begun; sleep 600")
	for _, id := range []protocol.ActionID{lives, dies} {
		if got := r.first(id); got != "begun" {
			t.Fatalf("first line %q", got)
		}
	}
	holder, err := rundir.Dir(filepath.Join(r.dir, "runs", dies.String(), "1")).Holder()
	if err != nil {
		t.Fatal(err)
	}
	r.restart()
	if err := syscall.Kill(holder.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if act := r.wait(dies); act.Reason != protocol.ReasonInterrupted {
		t.Errorf("its supervisor was killed: %+v", act)
	}
	if err := os.WriteFile(fifo, []byte("hello\n"), 0); err != nil {
		t.Fatal(err)
	}
	if act := r.wait(lives); act.State != protocol.StateDone || act.Attempt != 1 || act.Output[0].Bytes != int64(len("begun\nhello\n")) {
		t.Errorf("it outlived the agent: %+v", act)
	}
}

// diskFull returns what fills the disk as seen by this process, by a limit on the
// size of files, and empties it, as the end of the test does.
func diskFull(t *testing.T) func(on bool) {
	signal.Ignore(syscall.SIGXFSZ)
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
	full := func(on bool) {
		t.Helper()
		l := limit
		if on {
			l.Cur = 1
		}
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &l); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(func() {
		full(false)
		signal.Reset(syscall.SIGXFSZ)
	})
	return full
}

// TestDiskFull: nothing new is taken, what runs goes on, no end is forgotten, and
// nobody has to restart anything afterwards.
func TestDiskFull(t *testing.T) {
	full := diskFull(t)
	in(t, nil, func(t *testing.T, w *world) {
		w.coord.order(actionID(1), command("sleep", "10s"))
		w.coord.order(actionID(2), creation(1, true))
		w.pass(time.Second)
		full(true)
		w.coord.order(actionID(3), command("true"))
		if err := w.lxc.Enter("ct-1", container.StateStopped); err != nil {
			t.Fatal(err)
		}
		w.pass(30 * time.Second)
		if got := w.state(1); got != container.StateRunning {
			t.Errorf("a container that should run is %v", got)
		}
		s, err := w.agent.Status(t.Context())
		if err != nil || s.Degraded == "" || s.Running != 1 {
			t.Errorf("status %+v, %v", s, err)
		}
		if _, err := w.agent.Propose(t.Context(), protocol.ActionID{}, []byte(`{"kind":"host.ping"}`), "root"); !errors.Is(err, agent.ErrDisk) {
			t.Errorf("a local action: %v, want ErrDisk", err)
		}
		w.expect(actionID(1), "start RUNNING")
		w.expect(actionID(3))
		w.coord.see(func() {
			if w.coord.leases < 2 {
				t.Errorf("only %d leases", w.coord.leases)
			}
			if w.coord.acked[protocol.StreamOrder] != 2 {
				t.Errorf("receipted %d orders, 2 are durable", w.coord.acked[protocol.StreamOrder])
			}
		})
		full(false)
		w.pass(30 * time.Second)
		w.expect(actionID(1), "start RUNNING", "succeed DONE ok")
		w.expect(actionID(3), "succeed DONE ok")
		if s, err := w.agent.Status(t.Context()); err != nil || s.Degraded != "" {
			t.Errorf("status %+v, %v", s, err)
		}
		if w.cmds.begun != 2 {
			t.Errorf("%d commands began, want 2", w.cmds.begun)
		}
	})
}

// TestExpireOnFullDisk: what expires while the disk is full waits with its end, once,
// and everything else goes on.
func TestExpireOnFullDisk(t *testing.T) {
	full := diskFull(t)
	in(t, func(c *agent.Config) { c.HostRuns = 1 }, func(t *testing.T, w *world) {
		w.coord.order(actionID(1), command("sleep", "10m"))
		w.pass(time.Second)
		w.coord.order(actionID(2), command("true"))
		w.pass(time.Second)
		w.expect(actionID(2), "accept NEW")
		full(true)
		w.pass(time.Minute + 10*time.Second) // orders of tests are good for a minute
		w.expect(actionID(2), "accept NEW")
		full(false)
		w.pass(time.Minute)
		w.expect(actionID(2), "accept NEW", "expire CANCELLED expired")
	})
}

// TestSpentReserveIsDegraded: an end that took the space set aside for it is told,
// and nothing new is accepted until that space is there again, restarted or not.
func TestSpentReserveIsDegraded(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=8m"); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(dir, unix.MNT_DETACH)
	t.Setenv("TMPDIR", dir)
	filler := filepath.Join(dir, "filler")
	in(t, nil, func(t *testing.T, w *world) {
		for n := range byte(10) {
			w.coord.order(actionID(n+1), command("sleep", "10s"))
		}
		w.pass(time.Second)
		f, err := os.Create(filler)
		if err != nil {
			t.Fatal(err)
		}
		for err == nil {
			_, err = f.Write(make([]byte, 4096))
		}
		f.Close()
		degraded := func(want bool) {
			t.Helper()
			if s, err := w.agent.Status(t.Context()); err != nil || (s.Degraded != "") != want {
				t.Errorf("status %+v, %v", s, err)
			}
		}
		w.pass(30 * time.Second)
		for n := range byte(10) {
			w.expect(actionID(n+1), "start RUNNING", "succeed DONE ok")
		}
		degraded(true)
		w.coord.order(actionID(20), command("true"))
		if _, err := w.agent.Propose(t.Context(), protocol.ActionID{}, []byte(`{"kind":"host.ping"}`), "root"); !errors.Is(err, agent.ErrDisk) {
			t.Errorf("a local action in the space for ends: %v, want ErrDisk", err)
		}
		w.pass(5 * time.Second)
		w.expect(actionID(20))
		w.coord.see(func() {
			if n := w.coord.acked[protocol.StreamOrder]; n != 10 {
				t.Errorf("%d orders were receipted, 10 had space", n)
			}
		})
		w.restart()
		w.pass(time.Second)
		degraded(true)
		if err := os.Remove(filler); err != nil {
			t.Fatal(err)
		}
		w.pass(5 * time.Second)
		degraded(false)
		w.pass(time.Minute)
		w.expect(actionID(20), "succeed DONE ok")
	})
}

// TestRebootOnFullDisk: a host that comes back with a full disk has its containers
// back, and has recorded that it came.
func TestRebootOnFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=8m"); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(dir, unix.MNT_DETACH)
	t.Setenv("TMPDIR", dir)
	in(t, nil, func(t *testing.T, w *world) {
		w.coord.order(actionID(1), creation(1, true))
		w.pass(time.Second)
		w.line.breaks(true)
		w.down()
		if err := w.lxc.Enter("ct-1", container.StateStopped); err != nil {
			t.Fatal(err)
		}
		q, err := queue.Open(context.Background(), queue.Config{Path: w.path})
		if err != nil {
			t.Fatal(err)
		}
		f, err := os.Create(filepath.Join(dir, "filler"))
		if err != nil {
			t.Fatal(err)
		}
		for err == nil {
			_, err = f.Write(make([]byte, 4096))
		}
		f.Close()
		w.boot = "boot-2"
		w.run(q)
		w.pass(5 * time.Second)
		if got := w.state(1); got != container.StateRunning {
			t.Errorf("a container that ran is %v", got)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if s, err := w.agent.Status(ctx); err != nil || s.Degraded == "" {
			t.Errorf("status %+v, %v", s, err)
		}
		// The starts of agent and container stand in the audit log: they took the space
		// that is set aside. No order is accepted, because its record has no place.
		var log strings.Builder
		if _, _, err := w.queue.Audit().Export(t.Context(), func(line []byte) error { log.Write(line); return nil }); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{`"boot":"boot-2"`, `"verb":"container.correct-start"`} {
			if strings.Count(log.String(), want) != 1 {
				t.Errorf("want one record with %s in\n%s", want, log.String())
			}
		}
		w.line.breaks(false)
		w.coord.order(actionID(2), protocol.Spec{Kind: protocol.KindPing})
		w.pass(10 * time.Second)
		if _, err := w.queue.Action(t.Context(), actionID(2)); !errors.Is(err, queue.ErrUnknown) {
			t.Errorf("an order was accepted without its record: %v", err)
		}
		if err := os.Remove(f.Name()); err != nil {
			t.Fatal(err)
		}
		w.pass(time.Minute)
		w.expect(actionID(2), "succeed DONE ok")
	})
}
