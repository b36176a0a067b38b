package spread

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// wished reports whether the wish is noted of a directory; of one whose file system
// knows no such notes it never is.
func wished(t *testing.T, dir string) bool {
	t.Helper()
	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	flags, err := unix.IoctlGetUint32(int(f.Fd()), unix.FS_IOC_GETFLAGS)
	return err == nil && flags&topDir != 0
}

// TestChildren: file systems that know the wish note it, once and again, and what is
// made in the directory does not pass it on. On others nothing happens.
func TestChildren(t *testing.T) {
	dir := t.TempDir()
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		Children(dir)
		if want := fs.Type == unix.EXT4_SUPER_MAGIC; wished(t, dir) != want {
			t.Fatalf("it is noted: %v, want %v", !want, want)
		}
	}
	child := filepath.Join(dir, "child")
	if err := os.Mkdir(child, 0o700); err != nil {
		t.Fatal(err)
	}
	if wished(t, child) {
		t.Error("it is noted of the child")
	}
}

// TestNothingToSpread: there is no directory, or a link to one.
func TestNothingToSpread(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	Children(link)
	Children(filepath.Join(dir, "absent"))
	if wished(t, dir) {
		t.Error("it is noted of what the link leads to")
	}
}
