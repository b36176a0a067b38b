package containertest

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/hostler-io/hostler/container"
)

// testAdopt: what others have made becomes ours as it is, running or stopped, and foreign
// again when that is taken back. Then it is as any other of ours.
func testAdopt(t *testing.T, f *fixture) {
	r, ok := f.Runtime.(container.Adopter)
	if !ok {
		t.Fatalf("%T is no container.Adopter", f.Runtime)
	}
	name, spec, ours := f.Foreign(t), f.Spec(), f.create(t)
	f.remove(t, name)
	before := f.wantState(t, name, container.StateStopped)
	if before.CTID != "" {
		t.Fatalf("it is no foreign one: %+v", before)
	}
	const file = "hostler-adopt-test"
	f.start(t, name)
	if root := f.root(t, name); root != "" {
		if err := os.WriteFile(filepath.Join(root, file), []byte("theirs"), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	f.stop(t, name)
	for why, c := range map[string]struct {
		name string
		id   container.CTID
		want error
	}{
		"one of ours":           {ours.Name, spec.CTID, container.ErrExists},
		"under the id of ours":  {name, ours.CTID, container.ErrExists},
		"one that is not there": {name + "-x", spec.CTID, container.ErrNotFound},
		"what is a path":        {"../" + name, spec.CTID, container.ErrNotFound},
		"under what is no id":   {name, "../x", nil},
	} {
		if _, err := r.Adopt(f.ctx, c.name, c.id); err == nil || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", why, err, c.want)
		}
	}
	for _, running := range []bool{false, true} {
		state := container.StateStopped
		if running {
			f.start(t, name)
			state = container.StateRunning
		}
		was := f.wantState(t, name, state)
		for range 2 {
			info, err := r.Adopt(f.ctx, name, spec.CTID)
			if err != nil || info.CTID != spec.CTID || info.State != state || info.InitPID != was.InitPID || info.Template == "" || info.Privileged != was.Privileged {
				t.Fatalf("%+v, %v; it was %+v", info, err, was)
			}
		}
		f.wantState(t, name, state)
		if _, err := r.Adopt(f.ctx, name, f.Spec().CTID); !errors.Is(err, container.ErrExists) {
			t.Errorf("adopted under another id: %v", err)
		}
		if err := f.creator.Create(f.ctx, spec); !errors.Is(err, container.ErrExists) {
			t.Errorf("another one of its id: %v", err)
		}
		for _, id := range []container.CTID{f.Spec().CTID, spec.CTID, spec.CTID} {
			if err := r.Disown(f.ctx, name, id); err != nil {
				t.Fatal(err)
			}
		}
		if info := f.wantState(t, name, state); info.CTID != "" || info.InitPID != was.InitPID {
			t.Errorf("foreign again, it is %+v", info)
		}
	}
	if _, err := r.Adopt(f.ctx, name, spec.CTID); err != nil {
		t.Fatal(err)
	}
	made := spec
	made.Name = name
	if u, ok := f.Runtime.(container.Upgrader); ok {
		if _, err := u.PrepareUpgrade(f.ctx, f.ofImage(t, made), "1"); !errors.Is(err, container.ErrUnsupported) {
			t.Errorf("an adopted container was upgraded: %v", err)
		}
	}
	if root := f.root(t, name); root != "" {
		if b, err := os.ReadFile(filepath.Join(root, file)); err != nil || string(b) != "theirs" {
			t.Errorf("its file is %q, %v", b, err)
		}
	}
	f.stop(t, name)
	renamer, ok := f.Runtime.(container.Renamer)
	if !ok {
		t.Fatalf("%T is no container.Renamer", f.Runtime)
	}
	f.remove(t, spec.Name)
	if err := renamer.Rename(f.ctx, name, spec.Name, spec.CTID); err != nil {
		t.Fatal(err)
	}
	f.start(t, spec.Name)
	f.stop(t, spec.Name)
	if err := f.creator.Destroy(f.ctx, spec.Name); err != nil {
		t.Error(err)
	}
}
