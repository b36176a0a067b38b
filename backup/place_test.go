package backup

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestPlaceOnNFS: where no rename leaves alone what is there, a backup has its name all the
// same, and replaces none.
func TestPlaceOnNFS(t *testing.T) {
	nfs := func(from, to string) error { return &os.LinkError{Op: "rename", Old: from, New: to, Err: unix.EINVAL} }
	for name, rename := range map[string]func(from, to string) error{"local": renameNew, "NFS": nfs} {
		dir := t.TempDir()
		from, to := filepath.Join(dir, unfinished+"b"), filepath.Join(dir, "b"+suffix)
		write := func(text string) {
			t.Helper()
			if err := os.WriteFile(from, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write("first")
		if err := place(from, to, rename); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Lstat(from); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: the first name is there still: %v", name, err)
		}
		write("second")
		if err := place(from, to, rename); !errors.Is(err, fs.ErrExist) {
			t.Errorf("%s: over a backup that is there: %v, want %v", name, err, fs.ErrExist)
		}
		if b, err := os.ReadFile(to); string(b) != "first" {
			t.Errorf("%s: the backup is %q, %v", name, b, err)
		}
		broken := errors.New("broken")
		if err := place(from, to+"2", func(string, string) error { return broken }); !errors.Is(err, broken) {
			t.Errorf("%s: what fails otherwise is %v", name, err)
		}
	}
}

// TestDebrisIsOpenForWriting: NFS locks nothing else for one process alone.
func TestDebrisIsOpenForWriting(t *testing.T) {
	path := filepath.Join(t.TempDir(), unfinished+"b")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := openDebris(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if how, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0); err != nil || how&unix.O_ACCMODE != unix.O_RDWR {
		t.Errorf("it is open by the flags %#o, %v", how, err)
	}
}
