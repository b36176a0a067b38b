package containertest

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/hostler-io/hostler/container"
)

// testClone: a copy of what runs and of what is stopped has its files and an identity of
// its own, and neither has anything to do with the other from then on.
func testClone(t *testing.T, f *fixture) {
	cloner, ok := f.Runtime.(container.Cloner)
	if !ok {
		t.Fatalf("%T is no container.Cloner", f.Runtime)
	}
	source := f.create(t)
	const file = "hostler-clone-test"
	write := func(name, text string) {
		t.Helper()
		if root := f.root(t, name); root != "" {
			if err := os.WriteFile(filepath.Join(root, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	wants := func(name, want string) {
		t.Helper()
		if root := f.root(t, name); root != "" {
			if got, err := os.ReadFile(filepath.Join(root, file)); err != nil || string(got) != want {
				t.Errorf("in %s: %q, %v, want %q", name, got, err, want)
			}
		}
	}
	before := f.start(t, source.Name)
	write(source.Name, "of the source")
	spec := f.Spec()
	f.remove(t, spec.Name)
	for why, c := range map[string]struct {
		from string
		name string
		want error
	}{
		"of one that is not there":    {source.Name + "-x", spec.Name, container.ErrNotFound},
		"by a name that is taken":     {source.Name, source.Name, container.ErrExists},
		"of what is no name":          {"../" + source.Name, spec.Name, container.ErrNotFound},
		"by a name that is a path":    {source.Name, "../" + spec.Name, nil},
		"by a name that is an option": {source.Name, "--" + spec.Name, nil},
	} {
		bad := spec
		bad.Name = c.name
		if _, err := cloner.Clone(f.ctx, c.from, bad); err == nil || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: %v", why, err)
		}
	}
	var told container.Info
	for range 2 {
		var err error
		if told, err = cloner.Clone(f.ctx, source.Name, spec); err != nil {
			t.Fatal(err)
		}
	}
	clone := f.wantState(t, spec.Name, container.StateStopped)
	if told.Name != "" && !reflect.DeepEqual(told, clone) {
		t.Errorf("the clone was told to be %+v, and is %+v", told, clone)
	}
	if clone.CTID != spec.CTID || clone.MAC != spec.Network.MAC || clone.Template != before.Template || clone.Privileged != before.Privileged {
		t.Errorf("the clone of %+v is %+v", before, clone)
	}
	f.start(t, spec.Name)
	wants(spec.Name, "of the source")
	write(source.Name, "changed")
	wants(spec.Name, "of the source")
	f.stop(t, source.Name)
	if err := f.creator.Destroy(f.ctx, source.Name); err != nil {
		t.Error(err)
	}
	f.wantState(t, spec.Name, container.StateRunning)
	f.stop(t, spec.Name)
}

// root is where the files of a container that runs are; empty if its runtime has none.
func (f *fixture) root(t *testing.T, name string) string {
	t.Helper()
	r, ok := f.Runtime.(container.Filer)
	if !ok {
		return ""
	}
	files, err := r.Files(f.ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	return files.Root
}

// testRehost: the name that a container calls itself can be changed while it is stopped.
func testRehost(t *testing.T, f *fixture) {
	r, ok := f.Runtime.(container.Rehoster)
	if !ok {
		return // podman decides it when it makes a container
	}
	spec := f.create(t)
	f.start(t, spec.Name)
	if err := r.Rehost(f.ctx, spec.Name, "other", spec.CTID); !errors.Is(err, container.ErrBusy) {
		t.Errorf("of one that runs: %v", err)
	}
	f.stop(t, spec.Name)
	for _, to := range []string{"other", "other", ""} {
		if err := r.Rehost(f.ctx, spec.Name, to, spec.CTID); err != nil {
			t.Fatal(err)
		}
		f.start(t, spec.Name)
		f.stop(t, spec.Name)
	}
	if err := r.Rehost(f.ctx, spec.Name, "other", f.Spec().CTID); !errors.Is(err, container.ErrNotFound) {
		t.Errorf("of another's name: %v", err)
	}
}
