package containertest

import (
	"errors"
	"testing"

	"github.com/hostler-io/hostler/container"
)

// testSnapshot: snapshots appear in their order, of what runs and of what is stopped; one
// that is asked for again by the same key is there; what runs is not rolled back; all of
// them go with their container.
func testSnapshot(t *testing.T, f *fixture) {
	r, ok := f.Runtime.(container.Snapshotter)
	if !ok {
		t.Fatalf("%T is no container.Snapshotter", f.Runtime)
	}
	spec := f.create(t)
	names := func(want ...string) {
		t.Helper()
		all, err := r.Snapshots(f.ctx, spec.Name)
		if err != nil || len(all) != len(want) {
			t.Fatalf("there are %+v, %v; want %q", all, err, want)
		}
		for i, s := range all {
			if s.Name != want[i] || s.Damaged || s.Order == 0 || s.MadeMS != 7 || i > 0 && s.Order <= all[i-1].Order {
				t.Errorf("snapshot %d is %+v, want %s", i, s, want[i])
			}
		}
	}
	names()
	make := func(name, key string) error {
		return r.Snapshot(f.ctx, spec.Name, container.Snapshot{Name: name, Key: key, MadeMS: 7})
	}
	if err := errors.Join(make("z", "1"), make("z", "1")); err != nil {
		t.Fatal(err)
	}
	f.start(t, spec.Name)
	if err := make("a", "2"); err != nil {
		t.Fatal(err)
	}
	names("z", "a")
	if err := make("a", "3"); !errors.Is(err, container.ErrExists) {
		t.Errorf("a name that is taken: %v", err)
	}
	for _, name := range []string{"", ".", "..", "../x", "a/b", "a\x00b", "--help", ".new"} {
		if err := make(name, "4"); err == nil {
			t.Errorf("a snapshot is called %q", name)
		}
		if err := r.Rollback(f.ctx, spec.Name, name); err == nil {
			t.Errorf("rolled back to %q", name)
		}
		if err := r.DropSnapshot(f.ctx, spec.Name, name); err == nil {
			t.Errorf("dropped %q", name)
		}
	}
	if err := r.Rollback(f.ctx, spec.Name, "z"); !errors.Is(err, container.ErrBusy) {
		t.Errorf("what runs is rolled back: %v", err)
	}
	f.stop(t, spec.Name)
	if err := r.Rollback(f.ctx, spec.Name, "nosuch"); !errors.Is(err, container.ErrNotFound) {
		t.Errorf("rolled back to nothing: %v", err)
	}
	for range 2 {
		if err := r.Rollback(f.ctx, spec.Name, "a"); err != nil {
			t.Fatal(err)
		}
		f.start(t, spec.Name)
		f.stop(t, spec.Name)
	}
	if err := r.DropSnapshot(f.ctx, spec.Name, "z"); err != nil {
		t.Fatal(err)
	}
	if err := r.DropSnapshot(f.ctx, spec.Name, "z"); !errors.Is(err, container.ErrNotFound) {
		t.Errorf("dropped twice: %v", err)
	}
	names("a")
	if err := r.Snapshot(f.ctx, f.Spec().Name, container.Snapshot{Name: "x"}); !errors.Is(err, container.ErrNotFound) {
		t.Errorf("a snapshot of nothing: %v", err)
	}
}
