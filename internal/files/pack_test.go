package files_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/internal/files"
)

// TestPackOpensNoPipe packs a directory whose owner swaps a file and a directory for
// pipes all the time. A pipe stands for every device: opening one may restart the host.
func TestPackOpensNoPipe(t *testing.T) {
	dir, away := t.TempDir(), t.TempDir()
	for _, name := range []string{"file", "dir"} {
		if err := unix.Mkfifo(filepath.Join(away, name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(dir, "file"), "text")
	if err := os.Mkdir(filepath.Join(dir, "dir"), 0o755); err != nil {
		t.Fatal(err)
	}
	events, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(events)
	for _, name := range []string{"file", "dir"} {
		if _, err := unix.InotifyAddWatch(events, filepath.Join(away, name), unix.IN_OPEN); err != nil {
			t.Fatal(err)
		}
	}
	quit := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-quit:
				return
			default:
			}
			for _, name := range []string{"file", "dir"} {
				_ = unix.Renameat2(unix.AT_FDCWD, filepath.Join(dir, name), unix.AT_FDCWD, filepath.Join(away, name), unix.RENAME_EXCHANGE) // the race is the point
			}
		}
	})
	packed := 0
	done := make(chan struct{})
	go func() {
		defer close(done)
		for begun, i := time.Now(), 0; i < 3000 || packed == 0 && time.Since(begun) < 2*time.Minute; i++ {
			root, err := os.OpenRoot(dir)
			if err != nil {
				t.Error(err)
				return
			}
			p := files.NewPacker(io.Discard)
			p.Skipped = func(string, error) {}
			p.Packed = func(string, int64, [32]byte) { packed++ }
			err = errors.Join(p.Dir(t.Context(), "d", root), root.Close())
			if err != nil {
				t.Error(err)
				return
			}
		}
	}()
	select {
	case <-done:
	case <-time.After(3 * time.Minute):
		t.Error("a pipe is waited for")
	}
	close(quit)
	wg.Wait()
	if n, err := unix.Read(events, make([]byte, 4096)); n > 0 || err != unix.EAGAIN {
		t.Errorf("a pipe was opened: %v", err)
	}
	if packed == 0 {
		t.Error("nothing was packed at all: the race was never won by us")
	}
}
