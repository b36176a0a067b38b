//go:build integration

package integration

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// watchDir returns what can be read whenever something in a directory changes, for
// as long as a test is patient.
func watchDir(t testing.TB, dir string) *os.File {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		t.Fatalf("inotify: %v", err)
	}
	watch := os.NewFile(uintptr(fd), "inotify")
	const mask = unix.IN_CREATE | unix.IN_MODIFY | unix.IN_MOVED_TO | unix.IN_DELETE
	if _, err := unix.InotifyAddWatch(fd, dir, mask); err != nil {
		t.Fatalf("inotify: %s: %v", dir, err)
	}
	if err := watch.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return watch
}

// fileUntil waits until ok accepts the content of a file, empty while there is
// none. It looks whenever something in its directory changes, which must be
// there.
func fileUntil(t testing.TB, path, what string, ok func(content string) bool) string {
	t.Helper()
	watch := watchDir(t, filepath.Dir(path))
	defer watch.Close()
	events := make([]byte, 4096)
	for {
		b, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		if ok(string(b)) {
			return string(b)
		}
		if _, err := watch.Read(events); err != nil {
			t.Fatalf("waited in vain: %s (%v); %s holds:\n%.4000s", what, err, path, b)
		}
	}
}

// write makes a file of the test's own.
func write(t testing.TB, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func mkdir(t testing.TB, path string) {
	t.Helper()
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
}

func read(t testing.TB, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// gone checks that there is nothing at a path.
func gone(t testing.TB, path string) {
	t.Helper()
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is still there (%v)", path, err)
	}
}

// entries are the names in a directory.
func entries(t testing.TB, dir string) []string {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	names := make([]string, len(list))
	for i, e := range list {
		names[i] = e.Name()
	}
	return names
}

// entriesOf are the names in a directory, none if it is not there.
func entriesOf(t testing.TB, dir string) []string {
	t.Helper()
	all, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	var names []string
	for _, e := range all {
		names = append(names, e.Name())
	}
	return names
}
