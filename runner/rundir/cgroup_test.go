package rundir

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
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
	l := Leaf(filepath.Join(root, "hostler."+name+".1"))
	if err := os.Mkdir(string(l), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(l.Kill(), l.WaitEmpty(context.Background()), l.Remove()); err != nil {
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
	if err := l.WaitEmpty(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); !strings.Contains(err.Error(), "killed") {
		t.Errorf("command: %v, want killed", err)
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
	if err := l.WaitEmpty(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestLeafSignalMissesNobody: a process that is forked while its leaf is signalled
// has the signal as its siblings have.
func TestLeafSignalMissesNobody(t *testing.T) {
	l := testLeaf(t, "rundir-forks")
	for range 5 {
		cmd := start(t, l, "/bin/sh", "-c", "while :; do sleep 1000 & done")
		for deadline := time.Now().Add(10 * time.Second); ; {
			pids, err := processes(string(l))
			if err != nil || time.Now().After(deadline) {
				t.Fatalf("%d processes, %v", len(pids), err)
			}
			if len(pids) > 100 {
				break
			}
		}
		if err := l.Signal(unix.SIGTERM, unix.SIGCONT); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		err := l.WaitEmpty(ctx)
		cancel()
		if err != nil {
			left, _ := processes(string(l))
			t.Fatalf("%d processes are left: %v", len(left), err)
		}
		_ = cmd.Wait() // "signal: terminated"
	}
}

func TestLeafWaitEmptyHonoursContext(t *testing.T) {
	l := testLeaf(t, "rundir-wait")
	cmd := start(t, l, "/bin/sleep", "1000")
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	go cancel(cause)
	if err := l.WaitEmpty(ctx); !errors.Is(err, cause) {
		t.Errorf("got %v, want %v", err, cause)
	}
	if err := l.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
}

func TestLeafGoneIsEmpty(t *testing.T) {
	l := Leaf("/sys/fs/cgroup/hostler.absent.1")
	left, err := l.Populated()
	if left || err != nil {
		t.Errorf("Populated = %v, %v", left, err)
	}
	if err := errors.Join(l.Kill(), l.Signal(unix.SIGTERM), l.WaitEmpty(t.Context()), l.Remove()); err != nil {
		t.Error(err)
	}
}
