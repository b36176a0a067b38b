//go:build linux && cgo

package lxc_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/container/containertest"
	"github.com/hostler-io/hostler/image"
	"github.com/hostler-io/hostler/image/imagetest"
	"github.com/hostler-io/hostler/image/rootfs"
	"github.com/hostler-io/hostler/internal/layers"
	"github.com/hostler-io/hostler/internal/podmantest"
	"github.com/hostler-io/hostler/lxc"
)

// sharing is a machine whose containers share the files of their image, and such an image:
// the system that the template of busybox makes.
func sharing(t *testing.T) (m *machine, ref string) {
	t.Helper()
	if err := layers.Probe(filepath.Join(t.TempDir(), "probe")); err != nil {
		t.Fatal("this test needs a kernel of 5.19 or later and a file system with mapped ids, and no overlay below: ", err)
	}
	registry := podmantest.Registry(t)
	images, err := image.Open(image.Config{Dir: t.TempDir(), Registries: image.Registries{Insecure: []string{registry}}})
	if err != nil {
		t.Fatal(err)
	}
	m = newMachine(t, func(c *lxc.Config) { c.Images, c.Share = images, true })
	made := m.create(t)
	info, err := m.Inspect(t.Context(), made.Name)
	if err != nil {
		t.Fatal(err)
	}
	var layer bytes.Buffer
	if _, err := rootfs.Archive(t.Context(), filepath.Join(m.cfg.LXCPath, made.Name, "rootfs"), info.IDs, &layer); err != nil {
		t.Fatal(err)
	}
	if err := m.Destroy(t.Context(), made.Name); err != nil {
		t.Fatal(err)
	}
	return m, imagetest.Make(t, imagetest.Config{}, layer.Bytes()).Push(t, registry, "site/system", "1")
}

// TestNotShared: over an overlay, which the kernel puts below no other one, and where the
// settings do not say so, a container of an image has a copy of all files, and the host says why.
func TestNotShared(t *testing.T) {
	dir, err := os.MkdirTemp("", "hlt")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // what cannot be removed is mounted, and was told
	below := filepath.Join(dir, "below")
	for _, sub := range []string{"lower", "upper", "work"} {
		if err := os.MkdirAll(filepath.Join(below, sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	over := filepath.Join(dir, "over")
	if err := errors.Join(os.Chmod(dir, 0o711), os.Mkdir(over, 0o755), unix.Mount("overlay", over, "overlay", 0, fmt.Sprintf("lowerdir=%s/lower,upperdir=%s/upper,workdir=%s/work", below, below, below))); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(over, 0); err != nil {
			t.Error(err)
		}
	})
	m, ref := sharing(t)
	for name, change := range map[string]func(*lxc.Config){
		"over an overlay": func(c *lxc.Config) { c.LXCPath, c.LockDir = filepath.Join(over, "lxc"), filepath.Join(dir, "ct") },
		"not set":         func(c *lxc.Config) { c.Share = false },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := m.cfg
			change(&cfg)
			r, err := lxc.New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			if err := r.Probe(t.Context()); err != nil || r.Alone() == "" {
				t.Errorf("the host: %v, %q", err, r.Alone())
			}
			spec := m.specs()
			spec.Template = ref
			if err := r.Create(t.Context(), spec); err != nil {
				t.Fatal(err)
			}
			info, err := r.Inspect(t.Context(), spec.Name)
			if err != nil || info.Shared {
				t.Errorf("it is %+v, %v", info, err)
			}
			if _, err := os.Stat(filepath.Join(cfg.LXCPath, spec.Name, "rootfs/bin/busybox")); err != nil {
				t.Error(err)
			}
			if err := r.Destroy(t.Context(), spec.Name); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestConformanceShared is TestConformance of containers that share the files of their image.
func TestConformanceShared(t *testing.T) {
	containertest.Run(t, func(t *testing.T) containertest.Subject {
		m, ref := sharing(t)
		return containertest.Subject{
			Runtime: m.Runtime,
			Spec: func() container.CreateSpec {
				spec := m.specs()
				spec.Template = ref
				return spec
			},
			Kill:    func(t *testing.T, name string) { killInit(t, m, name) },
			Print:   func(t *testing.T, name, line string) { printTo(t, m, name, line) },
			Foreign: func(t *testing.T) string { return m.foreign(t) },
		}
	})
}

// trees are the files of images that containers of a machine share.
func (m *machine) trees(t *testing.T) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(m.cfg.LXCPath, ".hostler-trees"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// read returns what a container has in a file, seen from the host without its mounts.
func (m *machine) read(t *testing.T, name, file string) string {
	t.Helper()
	var b []byte
	err := m.WithTree(t.Context(), name, func(root string) (err error) {
		b, err = os.ReadFile(filepath.Join(root, file))
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return "none"
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestShared follows containers of one image through what can be done with them: the image is
// there once, each has what it changed and nothing of the others, and the files of the
// image go with the last of them.
func TestShared(t *testing.T) {
	m, ref := sharing(t)
	ctx := t.Context()
	must := func(errs ...error) {
		t.Helper()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	}
	wants := func(name, file, want string) {
		t.Helper()
		if got := m.read(t, name, file); got != want {
			t.Errorf("%s has %q in %s, want %q", name, got, file, want)
		}
	}
	var specs []container.CreateSpec
	for range 2 {
		spec := m.specs()
		spec.Template = ref
		must(m.Create(ctx, spec))
		specs = append(specs, spec)
	}
	a, b := specs[0], specs[1]
	if trees := m.trees(t); len(trees) != 1 {
		t.Fatalf("of one image there are the trees %q", trees)
	}
	must(m.Probe(ctx))
	if alone := m.Alone(); alone != "" {
		t.Errorf("they are alone: %q", alone)
	}
	for _, s := range specs {
		info := m.start(t, s.Name)
		inside := fmt.Sprintf("/proc/%d/root/", info.InitPID)
		must(os.WriteFile(inside+"etc/mine", []byte(s.Name), 0o644), os.Remove(inside+"etc/passwd"))
		wants(s.Name, "etc/mine", s.Name)
		wants(s.Name, "etc/passwd", "none")
		wants(s.Name, "etc/hostname", s.Name+"\n")
	}
	must(m.Snapshot(ctx, a.Name, container.Snapshot{Name: "first", Key: "k"}))
	_, err := m.Stop(ctx, a.Name, 0)
	must(err)
	wants(a.Name, "etc/mine", a.Name) // stopped, it is the same
	wants(a.Name, "etc/passwd", "none")

	c := m.specs()
	_, err = m.Clone(ctx, a.Name, c)
	must(err)
	wants(c.Name, "etc/mine", a.Name)
	wants(c.Name, "etc/passwd", "none")
	wants(c.Name, "etc/hostname", c.Name+"\n")
	info := m.start(t, c.Name)
	if i, err := os.Stat(fmt.Sprintf("/proc/%d/root/etc/mine", info.InitPID)); err != nil || !i.Mode().IsRegular() {
		t.Errorf("the clone: %v, %v", i, err)
	}

	must(m.WithTree(ctx, a.Name, func(root string) error {
		return errors.Join(os.WriteFile(filepath.Join(root, "etc/mine"), []byte("later"), 0o644), os.Remove(filepath.Join(root, "etc/group")))
	}))
	wants(a.Name, "etc/mine", "later")
	wants(a.Name, "etc/group", "none")
	must(m.WithSnapshot(ctx, a.Name, "first", func(root string) error { // all files, also those of the image
		mine, err := os.ReadFile(filepath.Join(root, "etc/mine"))
		_, gone := os.Stat(filepath.Join(root, "etc/passwd"))
		var group, of unix.Stat_t
		err = errors.Join(err, unix.Stat(filepath.Join(root, "etc/group"), &group), unix.Stat(filepath.Join(root, "etc/mine"), &of))
		if string(mine) != a.Name || !errors.Is(gone, fs.ErrNotExist) || group.Uid < m.firstID() || of.Uid == group.Uid {
			t.Errorf("at the snapshot it had %q, %v, and files of the users %d and %d", mine, gone, group.Uid, of.Uid)
		}
		return err
	}))
	if err := m.WithSnapshot(ctx, a.Name, "nosuch", nil); !errors.Is(err, container.ErrNotFound) {
		t.Errorf("of no snapshot: %v", err)
	}
	must(m.Rollback(ctx, a.Name, "first"))
	wants(a.Name, "etc/mine", a.Name)
	if m.read(t, a.Name, "etc/group") == "none" {
		t.Error("the rollback has not brought back what was removed")
	}
	must(m.Rename(ctx, a.Name, a.Name+"-r", a.CTID))
	wants(a.Name+"-r", "etc/hostname", a.Name+"-r\n")
	m.start(t, a.Name+"-r")
	wants(b.Name, "etc/mine", b.Name)

	mounts, err := os.ReadFile("/proc/self/mountinfo")
	must(err)
	if strings.Contains(string(mounts), m.cfg.LXCPath) {
		t.Errorf("the host sees mounts of containers:\n%s", mounts)
	}
	if debris, err := m.Debris(ctx, false); err != nil || len(debris) > 0 {
		t.Errorf("debris: %v, %v", debris, err)
	}
	for i, name := range []string{b.Name, c.Name, a.Name + "-r"} {
		if n := len(m.trees(t)); n != 1 {
			t.Errorf("there are %d trees before the removal of container %d", n, i+1)
		}
		_, err := m.Stop(ctx, name, 0)
		must(err, m.Destroy(ctx, name))
	}
	if trees := m.trees(t); len(trees) > 0 {
		t.Errorf("the last container is gone, and there is %q", trees)
	}
}
