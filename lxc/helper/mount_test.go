//go:build linux && cgo

package helper

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
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

// TestOptional: what is optional is mounted where the container has a file of its own or
// nothing, and left out where it has a link, which is not followed.
func TestOptional(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{"c/rootfs/etc", "c/rootfs/run", "outside"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	source := filepath.Join(dir, "source")
	if err := os.WriteFile(source, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	h, place := &host{path: dir}, filepath.Join(dir, "c/rootfs/etc/resolv.conf")
	all := func() []setting {
		return optional(h, "c", record{Mounts: []container.Mount{{Source: source, Path: "/etc/resolv.conf", ReadOnly: true, Optional: true}}})
	}
	want := []setting{{mountEntry, source + " etc/resolv.conf none bind,ro 0 0"}}
	for range 2 { // its place is missing, and is there
		if got := all(); !slices.Equal(got, want) {
			t.Errorf("a container with a place of its own has %q, want %q", got, want)
		}
	}
	for _, to := range []string{filepath.Join(dir, "outside/planted"), "../run/stub.conf"} {
		if err := errors.Join(os.Remove(place), os.Symlink(to, place)); err != nil {
			t.Fatal(err)
		}
		if got := all(); len(got) > 0 {
			t.Errorf("over a link to %s is mounted %q", to, got)
		}
	}
	if err := os.RemoveAll(filepath.Join(dir, "c/rootfs/etc")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(dir, "outside"), filepath.Join(dir, "c/rootfs/etc")); err != nil {
		t.Fatal(err)
	}
	if got := all(); len(got) > 0 {
		t.Errorf("below a link is mounted %q", got)
	}
	if left, err := os.ReadDir(filepath.Join(dir, "outside")); err != nil || len(left) > 0 {
		t.Errorf("outside of the container there is %v, %v", left, err)
	}
	if got := mounting([]container.Mount{{Source: source, Path: "/etc/resolv.conf", Optional: true}}); len(got) > 0 {
		t.Errorf("the configuration has %q for good", got)
	}
}
