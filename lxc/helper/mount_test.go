//go:build linux && cgo

package helper

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/hostler-io/hostler/container"
)

// TestMountpointsWithin: the place of a mount within another one is made in what is mounted
// there, unless that is read-only: then it is to be there.
func TestMountpointsWithin(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{"c/rootfs", "outer", "inner"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("outer", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	h := &host{path: dir}
	places := func(readOnly bool) error {
		return mountpoints(h, "c", record{Mounts: []container.Mount{
			{Source: filepath.Join(dir, "link"), Path: "/srv/a", ReadOnly: readOnly}, {Source: filepath.Join(dir, "inner"), Path: "/srv/a/deep/b"},
		}})
	}
	if err := places(true); !errors.Is(err, errFixed) {
		t.Errorf("in what is read-only a place is made: %v", err)
	}
	if err := places(false); err != nil {
		t.Error(err)
	}
	if err := places(true); err != nil {
		t.Errorf("the place is there: %v", err)
	}
	for path, want := range map[string]bool{"outer/deep/b": true, "c/rootfs/srv/a": true, "c/rootfs/srv/a/deep": false} {
		if _, err := os.Stat(filepath.Join(dir, path)); (err == nil) != want {
			t.Errorf("%s is there: %v, want %v", path, err, want)
		}
	}
}
