//go:build linux && cgo

package lxc_test

import (
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/image/imagetest"
	"github.com/hostler-io/hostler/internal/btrfstest"
	"github.com/hostler-io/hostler/internal/tree"
)

// subvolume reports whether a directory is the root of a subvolume, by its number.
func subvolume(t *testing.T, dir string) bool {
	t.Helper()
	st, err := os.Lstat(dir)
	if err != nil {
		t.Fatal(err)
	}
	return st.Sys().(*syscall.Stat_t).Ino == 256
}

// TestBtrfs: where the directory of the containers lies on btrfs, the files of each are a
// subvolume, and so are a snapshot, what a rollback puts back, and a clone, whose files
// belong to its own users. All of it goes with the containers.
func TestBtrfs(t *testing.T) {
	t.Setenv("TMPDIR", btrfstest.Mount(t))
	m, registry := withImages(t, true) // which it does not: it would have no snapshots of one moment, and no limit of disk
	img := imagetest.Make(t, imagetest.Config{Cmd: []string{"/bin/sh", "-c", "exec sleep 1000000"}}, busybox(t))
	spec := m.specs()
	spec.Template = img.Push(t, registry, "site/web", "1")
	at := func(name string) string { return filepath.Join(m.cfg.LXCPath, name, "rootfs") }
	if err := m.Create(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	m.start(t, spec.Name)
	if can := container.Abilities(m.Runtime); !slices.Contains(can, "subvolumes") {
		t.Errorf("its abilities are %q", can)
	}
	note := filepath.Join(at(spec.Name), "note")
	write := func(s string) {
		t.Helper()
		if err := os.WriteFile(note, []byte(s), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("before")
	if err := m.Snapshot(t.Context(), spec.Name, container.Snapshot{Name: "one", Key: "1"}); err != nil {
		t.Fatal(err)
	}
	write("after")
	all, err := m.Snapshots(t.Context(), spec.Name)
	if err != nil || len(all) != 1 || !all[0].Shared || all[0].Entries < 10 {
		t.Fatalf("snapshots: %+v, %v", all, err)
	}
	if _, err := m.Stop(t.Context(), spec.Name, 0); err != nil {
		t.Fatal(err)
	}
	if err := m.Rollback(t.Context(), spec.Name, "one"); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(note); err != nil || string(got) != "before" {
		t.Errorf("after the rollback the note is %q, %v", got, err)
	}
	// A system in the container may have made subvolumes of its own.
	if err := tree.Make(filepath.Join(at(spec.Name), "inner"), 0o755); err != nil {
		t.Fatal(err)
	}
	clone := m.specs()
	if _, err := m.Clone(t.Context(), spec.Name, clone); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(at(clone.Name), "inner")); err != nil {
		t.Fatal(err)
	}
	again := m.specs()
	if _, err := m.Clone(t.Context(), clone.Name, again); err != nil {
		t.Fatal(err)
	}
	m.start(t, again.Name)
	if of, to := owner(t, filepath.Join(at(spec.Name), "bin/busybox")), owner(t, filepath.Join(at(again.Name), "bin/busybox")); of == to || to < m.firstID() {
		t.Errorf("files of the container belong to %d, of its clone to %d", of, to)
	}
	for _, dir := range []string{at(spec.Name), at(clone.Name), at(again.Name)} {
		if !subvolume(t, dir) {
			t.Errorf("%s is a directory like any other", dir)
		}
	}
	for _, name := range []string{spec.Name, clone.Name, again.Name} {
		if _, err := m.Stop(t.Context(), name, 0); err != nil {
			t.Fatal(err)
		}
		if err := m.Destroy(t.Context(), name); err != nil {
			t.Errorf("destroy: %v", err)
		}
	}
	if left, err := os.ReadDir(m.cfg.LXCPath); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
