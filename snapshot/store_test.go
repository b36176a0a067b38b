package snapshot_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/internal/btrfstest"
	"github.com/hostler-io/hostler/internal/tree"
	"github.com/hostler-io/hostler/runner/rundir"
	"github.com/hostler-io/hostler/snapshot"
)

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func newDir(t *testing.T) snapshot.Dir {
	t.Helper()
	top := t.TempDir()
	d := snapshot.Dir{Path: filepath.Join(top, "snapshots"), Tree: filepath.Join(top, "rootfs")}
	must(t, os.Mkdir(d.Tree, 0o755), os.WriteFile(filepath.Join(d.Tree, "f"), []byte("one"), 0o644))
	return d
}

func (w want) check(t *testing.T) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(w.Tree, "f"))
	if err != nil || string(raw) != w.content {
		t.Errorf("the tree holds %q, %v; want %q", raw, err, w.content)
	}
}

type want struct {
	snapshot.Dir
	content string
}

// TestRollback: a rollback brings back what was there, any number of times, and changes
// to the tree do not reach the snapshot.
func TestRollback(t *testing.T) {
	d := newDir(t)
	must(t, d.Create(t.Context(), container.Snapshot{Name: "s1", Key: "k"}))
	for range 2 {
		must(t, os.WriteFile(filepath.Join(d.Tree, "f"), []byte("two"), 0o644), os.WriteFile(filepath.Join(d.Tree, "g"), nil, 0o644))
		must(t, d.Rollback(t.Context(), "s1"))
		want{d, "one"}.check(t)
		if _, err := os.Lstat(filepath.Join(d.Tree, "g")); err == nil {
			t.Error("what came later is there still")
		}
	}
	if left, err := d.Unfinished(); err != nil || len(left) > 0 {
		t.Errorf("it left %q, %v", left, err)
	}
}

// TestRollbackReadOnly: the root of a container on btrfs can make its files read-only. That
// keeps neither a rollback from its end nor a snapshot from its removal.
func TestRollbackReadOnly(t *testing.T) {
	top := btrfstest.Mount(t)
	d := snapshot.Dir{Path: filepath.Join(top, "snapshots"), Tree: filepath.Join(top, "rootfs")}
	must(t, tree.Make(d.Tree, 0o755), os.WriteFile(filepath.Join(d.Tree, "f"), []byte("one"), 0o644), d.Create(t.Context(), container.Snapshot{Name: "s1", Key: "k"}))
	for range 2 {
		must(t, os.WriteFile(filepath.Join(d.Tree, "f"), []byte("two"), 0o644))
		if out, err := exec.CommandContext(t.Context(), "btrfs", "property", "set", d.Tree, "ro", "true").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		must(t, d.Rollback(t.Context(), "s1"))
		want{d, "one"}.check(t)
	}
	must(t, d.Remove("s1"))
	if left, err := os.ReadDir(d.Path); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// TestInterrupted: what is unfinished is no snapshot, and whoever comes next removes it.
func TestInterrupted(t *testing.T) {
	d := newDir(t)
	must(t, d.Create(t.Context(), container.Snapshot{Name: "s1"}))
	for _, left := range []string{".new/tree", ".back/tree", ".gone/tree"} {
		must(t, os.MkdirAll(filepath.Join(d.Path, left), 0o700))
	}
	all, err := d.List()
	if err != nil || len(all) != 1 || all[0].Name != "s1" {
		t.Errorf("there are %+v, %v", all, err)
	}
	must(t, d.Create(t.Context(), container.Snapshot{Name: "s2"}))
	if left, err := d.Unfinished(); err != nil || len(left) > 0 {
		t.Errorf("it left %q, %v", left, err)
	}
	if err := d.Rollback(t.Context(), "s3"); !errors.Is(err, container.ErrNotFound) {
		t.Errorf("rolled back to nothing: %v", err)
	}
	want{d, "one"}.check(t)
}

// TestLongRecord: a snapshot whose record could not be read is not made.
func TestLongRecord(t *testing.T) {
	d := newDir(t)
	s := container.Snapshot{Name: "a", Key: strings.Repeat("k", 70<<10)}
	if err := d.Create(t.Context(), s); !errors.Is(err, rundir.ErrTooLarge) {
		t.Errorf("it is made: %v", err)
	}
	if all, err := d.List(); err != nil || len(all) != 0 {
		t.Errorf("there are %v, %v", all, err)
	}
	if err := d.Create(t.Context(), container.Snapshot{Name: "a"}); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// TestDamaged: a snapshot whose record is damaged is told, is no one to go back to, and
// can be removed.
func TestDamaged(t *testing.T) {
	for name, content := range map[string]string{"empty": "", "cut": `{"name":"s1","ord`, "none": "-", "other": "{}\n"} {
		d := newDir(t)
		must(t, d.Create(t.Context(), container.Snapshot{Name: "s1"}), d.Create(t.Context(), container.Snapshot{Name: "s2"}))
		record := filepath.Join(d.Path, "s1", "snapshot.json")
		must(t, os.Remove(record))
		if content != "-" {
			must(t, os.WriteFile(record, []byte(content), 0o600))
		}
		all, err := d.List()
		if err != nil || len(all) != 2 || !all[0].Damaged || all[0].Name != "s1" || all[1].Damaged {
			t.Errorf("%s: there are %+v, %v", name, all, err)
		}
		if err := d.Rollback(t.Context(), "s1"); err == nil || !strings.Contains(err.Error(), "record") {
			t.Errorf("%s: rolled back to a damaged one: %v", name, err)
		}
		must(t, d.Remove("s1"))
	}
}

// TestTake: snapshots come with their names, times and order, in place of what an earlier attempt
// has left, and are whole: a rollback gives back the files. What cannot be is refused.
func TestTake(t *testing.T) {
	d := newDir(t)
	must(t, d.Create(t.Context(), container.Snapshot{Name: "left"}), os.Mkdir(filepath.Join(d.Path, ".new"), 0o700))
	all := []container.ImageSnapshot{
		{Snapshot: container.Snapshot{Name: "old", Key: "k", Order: 3, MadeMS: 7, Bytes: 99, Shared: true, Scheduled: true}, Files: container.Layer{Path: "first"}},
		{Snapshot: container.Snapshot{Name: "new", Order: 8, MadeMS: 5, Paused: true}, Files: container.Layer{Path: "second"}},
	}
	fill := func(to string, files container.Layer) error {
		return errors.Join(os.Mkdir(to, 0o755), os.WriteFile(filepath.Join(to, "f"), []byte(files.Path), 0o644))
	}
	for range 2 {
		must(t, d.Take(t.Context(), all, fill))
	}
	got, err := d.List()
	must(t, err)
	if want := []container.Snapshot{
		{Name: "old", Key: "k", Order: 3, MadeMS: 7, Entries: 2, Bytes: 5, Scheduled: true}, {Name: "new", Order: 8, MadeMS: 5, Entries: 2, Bytes: 6, Paused: true},
	}; !slices.Equal(got, want) {
		t.Errorf("there are %+v, want %+v", got, want)
	}
	must(t, d.Rollback(t.Context(), "old"))
	want{d, "first"}.check(t)
	must(t, d.Create(t.Context(), container.Snapshot{Name: "next"}))
	if got, err := d.List(); err != nil || got[2].Order != 9 {
		t.Errorf("the next one is %+v, %v", got, err)
	}
	for name, bad := range map[string][]container.ImageSnapshot{
		"in another order": {all[1], all[0]}, "twice the same": {all[0], all[0]}, "without a number": {{Snapshot: container.Snapshot{Name: "a"}}},
		"a name that leads elsewhere": {{Snapshot: container.Snapshot{Name: "../a", Order: 1}}}, "damaged": {{Snapshot: container.Snapshot{Name: "a", Order: 1, Damaged: true}}},
		"too many": make([]container.ImageSnapshot, snapshot.Max+1),
	} {
		if err := d.Take(t.Context(), bad, fill); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	broken := errors.New("broken")
	if err := d.Take(t.Context(), all, func(string, container.Layer) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("what cannot be unpacked: %v", err)
	}
	if left, err := os.ReadDir(d.Path); err != nil || len(left) > 0 {
		t.Errorf("there is left %v, %v", left, err)
	}
}
