package rundir

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// testLeaf makes a leaf at the root of the machine's cgroup2 tree. The tests
// need root and a cgroup2 tree, as the program does.
func testLeaf(t *testing.T, name string) Leaf {
	t.Helper()
	root := "/sys/fs/cgroup"
	if _, err := os.Stat(root + "/cgroup.procs"); err != nil {
		root = "/sys/fs/cgroup/unified"
	}
	l := Leaf(filepath.Join(root, fmt.Sprintf("hostler.%s-%d.1", name, os.Getpid())))
	if err := os.Mkdir(string(l), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(l.End(context.Background()), l.Remove()); err != nil {
			t.Error(err)
		}
	})
	return l
}

func start(t *testing.T, l Leaf, argv ...string) *exec.Cmd {
	t.Helper()
	dir, err := os.Open(string(l))
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd())}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd
}

func TestLeafKill(t *testing.T) {
	l := testLeaf(t, "rundir-kill")
	cmd := start(t, l, "/bin/sleep", "1000")
	if left, err := l.Populated(); err != nil || !left {
		t.Fatalf("Populated = %v, %v, want true", left, err)
	}
	if err := l.Remove(); !errors.Is(err, unix.EBUSY) {
		t.Errorf("Remove of a populated leaf: %v, want EBUSY", err)
	}
	if err := l.Kill(); err != nil {
		t.Fatal(err)
	}
	awaitEmpty(t, l)
	if err := cmd.Wait(); !strings.Contains(err.Error(), "killed") {
		t.Errorf("command: %v, want killed", err)
	}
}

// awaitEmpty waits until nothing lives in a leaf.
func awaitEmpty(t *testing.T, l Leaf) {
	t.Helper()
	if empty, err := l.WaitEmpty(2 * time.Minute); err != nil || !empty {
		left, _ := processes(string(l))
		t.Fatalf("%d processes are left: %v", len(left), err)
	}
}

func TestLeafSignalReachesChildCgroups(t *testing.T) {
	l := testLeaf(t, "rundir-signal")
	below := l + "/a"
	if err := os.Mkdir(string(below), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := start(t, below, "/bin/sleep", "1000")
	if err := l.Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); !strings.Contains(err.Error(), "terminated") {
		t.Errorf("command: %v, want terminated", err)
	}
	awaitEmpty(t, l)
}

// TestLeafSignalMissesNobody: a process that is forked while its leaf is signalled
// has the signal as its siblings have.
func TestLeafSignalMissesNobody(t *testing.T) {
	l := testLeaf(t, "rundir-forks")
	for range 5 {
		cmd := start(t, l, "/bin/sh", "-c", "while :; do sleep 1000 & done")
		for deadline := time.Now().Add(2 * time.Minute); ; {
			pids, err := processes(string(l))
			if err != nil || time.Now().After(deadline) {
				t.Fatalf("%d processes, %v", len(pids), err)
			}
			if len(pids) > 100 {
				break
			}
		}
		if err := l.signal(2*time.Minute, unix.SIGTERM, unix.SIGCONT); err != nil {
			t.Fatal(err)
		}
		awaitEmpty(t, l)
		_ = cmd.Wait() // "signal: terminated"
	}
}

// TestLeafEndMissesNobody ends leaves in which somebody is always being forked: by
// one who lives on, and by ones who end at once.
func TestLeafEndMissesNobody(t *testing.T) {
	relay := filepath.Join(t.TempDir(), "relay")
	if err := os.WriteFile(relay, []byte("#!/bin/sh\n\"$0\" &\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for i := range 30 {
		// A new one each time: some kernels (6.18) kill at once who is cloned into
		// a leaf that was killed before.
		l := testLeaf(t, "rundir-end"+strconv.Itoa(i))
		cmds := []*exec.Cmd{start(t, l, relay), start(t, l, "/bin/sh", "-c", "while :; do sleep 1000 & done")}
		for deadline := time.Now().Add(2 * time.Minute); ; {
			pids, err := processes(string(l))
			if err != nil || time.Now().After(deadline) {
				t.Fatalf("%d processes, %v", len(pids), err)
			}
			if len(pids) > 10+i {
				break
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		err := l.End(ctx)
		cancel()
		if err != nil {
			left, _ := processes(string(l))
			t.Fatalf("%d processes are left: %v", len(left), err)
		}
		for _, cmd := range cmds {
			_ = cmd.Wait() // "signal: killed", or it has ended
		}
	}
}

// TestLeafEndKillsAgain: of a leaf whose first two kills end nobody.
func TestLeafEndKillsAgain(t *testing.T) {
	dir := t.TempDir()
	events := filepath.Join(dir, "cgroup.events")
	if err := errors.Join(os.WriteFile(events, []byte("populated 1\n"), 0o600), unix.Mkfifo(filepath.Join(dir, "cgroup.kill"), 0o600)); err != nil {
		t.Fatal(err)
	}
	kills, err := os.OpenFile(filepath.Join(dir, "cgroup.kill"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer kills.Close()
	go func() {
		if _, err := io.ReadFull(kills, make([]byte, 3)); err == nil {
			_ = os.WriteFile(events, []byte("populated 0\n"), 0o600)
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := Leaf(dir).End(ctx); err != nil {
		t.Error(err)
	}
}

func TestLeafEndHonoursContext(t *testing.T) {
	l := testLeaf(t, "rundir-end-wait")
	cmd := start(t, l, "/bin/sleep", "1000")
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	if err := l.End(ctx); err != nil && !errors.Is(err, cause) {
		t.Errorf("got %v, want %v, or nothing if all had ended", err, cause)
	}
	_ = cmd.Wait()
}

func TestLeafWaitEmpty(t *testing.T) {
	l := testLeaf(t, "rundir-wait-for")
	cmd := start(t, l, "/bin/sleep", "1000")
	for _, d := range []time.Duration{0, time.Millisecond} {
		if empty, err := l.WaitEmpty(d); empty || err != nil {
			t.Errorf("for %v: %v, %v", d, empty, err)
		}
	}
	ended := make(chan error, 1)
	go func() {
		ended <- l.EndFully()
		_ = cmd.Wait()
	}()
	if empty, err := l.WaitEmpty(-1); !empty || err != nil {
		t.Errorf("for ever: %v, %v", empty, err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if empty, err := l.WaitEmpty(0); !empty || err != nil {
		t.Errorf("of an empty one: %v, %v", empty, err)
	}
}

func TestLeafGoneIsEmpty(t *testing.T) {
	l := Leaf("/sys/fs/cgroup/hostler.absent.1")
	left, err := l.Populated()
	if left || err != nil {
		t.Errorf("Populated = %v, %v", left, err)
	}
	if err := errors.Join(l.Kill(), l.Signal(unix.SIGTERM), l.End(t.Context()), l.Remove()); err != nil {
		t.Error(err)
	}
}

// TestGlances: the first looks come soon and ever later, none after its time, and in
// the end only events count.
func TestGlances(t *testing.T) {
	for _, left := range []time.Duration{forEver, time.Hour} {
		var g glance
		var got []time.Duration
		for len(got) < 10 {
			got = append(got, g.next(left))
		}
		want := []time.Duration{200, 400, 800, 1600, 3200, 6400, 12800}
		for i := range want {
			want[i] *= time.Microsecond
		}
		if want = append(want, left, left, left); !slices.Equal(got, want) {
			t.Errorf("with %v left: %v, want %v", left, got, want)
		}
	}
	var g glance
	for range 3 {
		if got := g.next(time.Microsecond); got != time.Microsecond {
			t.Errorf("with a microsecond left: %v", got)
		}
	}
}
