package limiter

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/internal/btrfstest"
	"github.com/hostler-io/hostler/internal/tree"
	"github.com/hostler-io/hostler/protocol/limit"
)

// within returns the number of a thread that has made dir its root directory by chroot. The
// thread ends at the end of the test.
func within(t *testing.T, dir string) int {
	t.Helper()
	type begun struct {
		id  int
		err error
	}
	at, end, left := make(chan begun), make(chan struct{}), make(chan error, 1)
	fd, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		runtime.LockOSThread() // for good: the thread ends with what it shares with no other
		err := unix.Unshare(unix.CLONE_FS)
		if err == nil {
			err = unix.Chroot(dir)
		}
		at <- begun{unix.Gettid(), err}
		<-end
		// The file system can be unmounted only when no thread has it as its root directory.
		left <- errors.Join(unix.Fchdir(fd), unix.Chroot("."), unix.Close(fd))
	}()
	t.Cleanup(func() {
		close(end)
		if err := <-left; err != nil {
			t.Error(err)
		}
	})
	b := <-at
	if b.err != nil {
		t.Fatal(b.err)
	}
	return b.id
}

// TestDiskOfItsOwn: the limit of disk is that of the files that the host has made for the
// container. A first process that has entered a subvolume of the host, which is mounted in the
// container, has no other one limited or looked at.
func TestDiskOfItsOwn(t *testing.T) {
	top := btrfstest.Mount(t)
	lxc, home := filepath.Join(top, "lxc"), filepath.Join(top, "home")
	root := filepath.Join(lxc, "web", "rootfs")
	if err := errors.Join(os.MkdirAll(filepath.Dir(root), 0o755), tree.Make(root, 0o755), tree.Make(home, 0o755)); err != nil {
		t.Fatal(err)
	}
	l, _ := New(lxc)
	init := within(t, home)
	has := func(dir string, want int64) {
		t.Helper()
		if most, err := tree.Most(dir); err != nil || most != want {
			t.Errorf("%s may have %d bytes, %v; want %d", dir, most, err, want)
		}
	}
	if err := l.Limit("lxc", "web", init, limit.Limits{limit.Disk: "64MiB"}, false); err != nil {
		t.Fatal(err)
	}
	has(root, 64<<20)
	has(home, 0)
	if err := tree.Limit(home, 32<<20); err != nil {
		t.Fatal(err)
	}
	if all, err := l.Effective("lxc", "web", init); err != nil || all[limit.Disk] != "64MiB" {
		t.Errorf("the limits are %v, %v", all, err)
	}
	if used, most := l.Disk("lxc", "web"); used > 1<<20 || most != 64<<20 {
		t.Errorf("its files have %d of %d bytes", used, most)
	}
	if err := l.Limit("lxc", "web", init, limit.Limits{limit.Disk: limit.None}, false); err != nil {
		t.Fatal(err)
	}
	has(root, 0)
	has(home, 32<<20)

	for _, other := range [][2]string{{"podman", "web"}, {"lxc", "../lxc/web"}} {
		if err := l.Limit(other[0], other[1], init, limit.Limits{limit.Disk: "64MiB"}, false); !errors.Is(err, container.ErrUnsupported) {
			t.Errorf("limiting %v: %v", other, err)
		}
		if all, err := l.Effective(other[0], other[1], init); err != nil || all[limit.Disk] != "" {
			t.Errorf("of %v: %v, %v", other, all, err)
		}
		if used, most := l.Disk(other[0], other[1]); used != 0 || most != 0 {
			t.Errorf("files of %v have %d of %d bytes", other, used, most)
		}
	}
	has(root, 0)
}
