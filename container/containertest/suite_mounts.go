package containertest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/hostler-io/hostler/container"
)

// testMounts: what is mounted is there while the container runs, and is not changed if it is
// read-only. No clone has it, and it does not go with the container.
func testMounts(t *testing.T, f *fixture) {
	dir := t.TempDir()
	for _, d := range []string{dir, filepath.Dir(dir)} { // users of the container pass through
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	data, file := filepath.Join(dir, "data"), filepath.Join(dir, "file")
	if err := os.Mkdir(data, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(data, "kept"), file} {
		if err := os.WriteFile(path, []byte("of the host"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	spec := f.Spec()
	within := filepath.Join(dir, "within")
	for _, d := range []string{within, filepath.Join(data, "a/within")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for path, text := range map[string]string{filepath.Join(within, "kept"): "within", filepath.Join(data, "one"): ""} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	// What is mounted within something that is mounted has its place there.
	spec.Mounts = []container.Mount{
		{Source: data, Path: "/srv/deep/data"}, {Source: within, Path: "/srv/deep/data/a/within"}, {Source: file, Path: "/srv/deep/data/one"},
		{Source: file, Path: "/srv/file", ReadOnly: true}, {Source: file, Path: "/etc/resolv.conf", ReadOnly: true, Optional: true},
	}
	f.remove(t, spec.Name)
	if err := f.creator.Create(f.ctx, spec); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		info := f.start(t, spec.Name)
		if _, ok := f.Runtime.(container.Filer); ok {
			root := fmt.Sprintf("/proc/%d/root", info.InitPID)
			for path, want := range map[string]string{
				"srv/deep/data/kept": "of the host", "srv/file": "of the host", "etc/resolv.conf": "of the host", "srv/deep/data/one": "of the host", "srv/deep/data/a/within/kept": "within",
			} {
				if b, err := os.ReadFile(filepath.Join(root, path)); err != nil || string(b) != want {
					t.Errorf("%s is %q, %v; want %q", path, b, err, want)
				}
			}
			if err := os.WriteFile(filepath.Join(root, "srv/file"), nil, 0o644); !errors.Is(err, syscall.EROFS) {
				t.Errorf("what is read-only is written: %v", err)
			}
		}
		f.stop(t, spec.Name)
	}
	copied := f.Spec()
	f.remove(t, copied.Name)
	if _, err := f.Runtime.(container.Cloner).Clone(f.ctx, spec.Name, copied); err != nil {
		t.Fatal(err)
	}
	if info := f.start(t, copied.Name); f.root(t, copied.Name) != "" {
		if _, err := os.Stat(fmt.Sprintf("/proc/%d/root/srv/deep/data/kept", info.InitPID)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("a clone has what is mounted: %v", err)
		}
	}
	if err := f.creator.Destroy(f.ctx, spec.Name); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(data, "kept")); err != nil || string(b) != "of the host" {
		t.Errorf("after the container is gone: %q, %v", b, err)
	}
}
