package volume_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/internal/btrfstest"
	"github.com/hostler-io/hostler/volume"
)

func ownerOf(t *testing.T, path string) uint32 {
	t.Helper()
	i, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	return i.Sys().(*syscall.Stat_t).Uid
}

// TestOwn: the files of a volume belong to the container that is about to start, with all
// their bits, wherever an interruption has left them; links are not followed.
func TestOwn(t *testing.T) {
	s := &volume.Store{Dir: filepath.Join(t.TempDir(), "volumes")}
	data, err := s.Ensure("data", 7)
	if err != nil {
		t.Fatal(err)
	}
	outside := filepath.Join(t.TempDir(), "outside")
	for _, path := range []string{filepath.Join(data, "f"), filepath.Join(data, "tool"), outside} {
		if err := os.WriteFile(path, []byte("x"), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	capability := []byte{1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
	if err := errors.Join(os.Chown(filepath.Join(data, "f"), 33, 34), os.Chmod(filepath.Join(data, "tool"), 0o755|fs.ModeSetuid),
		os.Symlink(outside, filepath.Join(data, "link")), os.Link(filepath.Join(data, "f"), filepath.Join(data, "g")), unix.Setxattr(filepath.Join(data, "tool"), "security.capability", capability, 0)); err != nil {
		t.Fatal(err)
	}
	first, second := container.IDRange{First: 1 << 20, Count: 1 << 16}, container.IDRange{First: 2 << 20, Count: 1 << 16}
	for _, ids := range []container.IDRange{first, first, second, {}, second} {
		cut, cancel := context.WithCancel(t.Context())
		cancel()
		_ = s.Own(cut, "data", first) // which ends on its way
		if err := s.Own(t.Context(), "data", ids); err != nil {
			t.Fatal(err)
		}
		for path, want := range map[string]uint32{"f": ids.First + 33, "g": ids.First + 33, "tool": ids.First, "link": ids.First, ".": ids.First} {
			if got := ownerOf(t, filepath.Join(data, path)); got != want {
				t.Errorf("with %v, %s belongs to %d, want %d", ids, path, got, want)
			}
		}
		if i, err := os.Stat(filepath.Join(data, "tool")); err != nil || i.Mode()&fs.ModeSetuid == 0 {
			t.Errorf("with %v its mode is %v, %v", ids, i, err)
		}
		if n, err := unix.Getxattr(filepath.Join(data, "tool"), "security.capability", nil); err != nil || n == 0 {
			t.Errorf("with %v its capability is gone: %v", ids, err)
		}
		if got := ownerOf(t, outside); got != 0 {
			t.Errorf("a link was followed: what is outside belongs to %d", got)
		}
	}
	all, err := s.List()
	if err != nil || len(all) != 1 || all[0] != (volume.Volume{Name: "data", MadeMS: 7, IDs: second}) {
		t.Errorf("there are %+v, %v", all, err)
	}
}

// TestRemoveReadOnly: a volume on btrfs is removed even if the root of its container has made a
// read-only subvolume in it. A volume that stays would keep all others from being made.
func TestRemoveReadOnly(t *testing.T) {
	s := &volume.Store{Dir: filepath.Join(btrfstest.Mount(t), "volumes")}
	data, err := s.Ensure("data", 7)
	if err != nil {
		t.Fatal(err)
	}
	inner := filepath.Join(data, "inner")
	for _, argv := range [][]string{{"btrfs", "subvolume", "create", inner}, {"mkdir", filepath.Join(inner, "x")}, {"btrfs", "property", "set", inner, "ro", "true"}} {
		if out, err := exec.CommandContext(t.Context(), argv[0], argv[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%q: %v: %s", argv, err, out)
		}
	}
	if err := s.Remove("data"); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(s.Dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// TestInterrupted: what interrupted operations have left is swept, and nothing else.
func TestInterrupted(t *testing.T) {
	s := &volume.Store{Dir: t.TempDir()}
	for _, dir := range []string{".new-data/data", ".gone-old/data", "foreign", ".notes"} {
		if err := os.MkdirAll(filepath.Join(s.Dir, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if _, err := s.Ensure("data", 1); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Remove("data"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"data", "../x", "", ".notes", "-x"} {
		if err := s.Remove(name); !errors.Is(err, container.ErrNotFound) {
			t.Errorf("%q: %v", name, err)
		}
	}
	entries, err := os.ReadDir(s.Dir)
	if err != nil || len(entries) != 2 || entries[0].Name() != ".notes" || entries[1].Name() != "foreign" {
		t.Errorf("there are %v, %v", entries, err)
	}
}
