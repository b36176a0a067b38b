package containertest

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/container"
)

// testUpgrade: what a container becomes is made beside it while it runs; the exchange and
// the way back may each be done again, leave it all that is its own, and show nobody a
// second container.
func testUpgrade(t *testing.T, f *fixture) {
	r, ok := f.Runtime.(container.Upgrader)
	if !ok {
		t.Fatalf("%T is no container.Upgrader", f.Runtime)
	}
	spec := f.create(t)
	before := f.start(t, spec.Name)
	f.leave(t, spec.Name, "old")
	next := f.ofImage(t, spec)
	ref := next.Template
	f.refusesUpgrades(t, r, next)
	prepare := func() {
		t.Helper()
		if same, err := r.PrepareUpgrade(f.ctx, next, "1"); err != nil || same {
			t.Fatalf("prepared: %v, %v", same, err)
		}
		f.alone(t, spec)
	}
	exchange := func(to bool, file, without string) container.Info {
		t.Helper()
		for range 2 {
			if err := r.Exchange(f.ctx, spec.Name, spec.CTID, "1", to); err != nil {
				t.Fatal(err)
			}
			f.alone(t, spec)
		}
		now := f.start(t, spec.Name)
		f.has(t, spec.Name, file, without)
		return now
	}
	prepare()
	prepare()
	if now := f.wantState(t, spec.Name, container.StateRunning); now.InitPID != before.InitPID {
		t.Error("the container has another first process")
	}
	if err := r.Exchange(f.ctx, spec.Name, spec.CTID, "1", false); err != nil {
		t.Errorf("back to what is in place: %v", err)
	}
	if err := r.Exchange(f.ctx, spec.Name, spec.CTID, "1", true); !errors.Is(err, container.ErrBusy) {
		t.Errorf("the files of what runs are exchanged: %v", err)
	}
	f.stop(t, spec.Name)
	now := exchange(true, "new", "old")
	if now.Template != ref || now.CTID != before.CTID || now.MAC != before.MAC || now.Privileged != before.Privileged || now.IDs != before.IDs || !reflect.DeepEqual(now.Addresses, before.Addresses) {
		t.Errorf("it became %+v of %+v", now, before)
	}
	if err := r.Exchange(f.ctx, spec.Name, spec.CTID, "1", false); !errors.Is(err, container.ErrBusy) {
		t.Errorf("the files of what runs are put back: %v", err)
	}
	f.stop(t, spec.Name)
	if now := exchange(false, "old", "new"); now.Template != before.Template || now.IDs != before.IDs {
		t.Errorf("it is %+v again, want %+v", now, before)
	}
	f.stop(t, spec.Name)
	exchange(true, "new", "old")
	for range 2 {
		if err := r.EndUpgrade(f.ctx, spec.Name, spec.CTID); err != nil {
			t.Fatal(err)
		}
	}
	if same, err := r.PrepareUpgrade(f.ctx, next, "2"); err != nil || !same {
		t.Errorf("the image that it is of: %v, %v", same, err)
	}
	f.stop(t, spec.Name)
	next.Template = strings.TrimSuffix(ref, "1") + "2"
	if err := f.Runtime.(container.Promoter).Promote(f.ctx, spec.Name, container.Promotion{Reference: next.Template, Key: "2"}); err != nil {
		t.Fatal(err)
	}
	prepare()
	// What lies beside a container goes with it.
	if err := f.creator.Destroy(f.ctx, spec.Name); err != nil {
		t.Fatal(err)
	}
	if err := f.creator.Create(f.ctx, spec); err != nil {
		t.Fatal(err)
	}
	if err := r.Exchange(f.ctx, spec.Name, spec.CTID, "1", false); err != nil {
		t.Errorf("nothing lies beside a new container: %v", err)
	}
	f.start(t, spec.Name)
	f.has(t, spec.Name, "", "new")
	f.stop(t, spec.Name)
}

// ofImage has a container be of another image, which has a file new.
func (f *fixture) ofImage(t *testing.T, spec container.CreateSpec) container.CreateSpec {
	t.Helper()
	source := f.create(t)
	f.start(t, source.Name)
	f.leave(t, source.Name, "new")
	f.stop(t, source.Name)
	spec.Template = container.LocalImage + strings.ToLower(spec.Name) + "-next:1"
	r := f.Runtime.(container.Promoter)
	if err := r.Promote(f.ctx, source.Name, container.Promotion{Reference: spec.Template, Key: "1"}); err != nil {
		t.Fatal(err)
	}
	return spec
}

// refusesUpgrades asks for what cannot be.
func (f *fixture) refusesUpgrades(t *testing.T, r container.Upgrader, next container.CreateSpec) {
	t.Helper()
	other, away := next, next
	other.CTID, away.Name = f.Spec().CTID, next.Name+"-x"
	for why, spec := range map[string]container.CreateSpec{"another id": other, "what is not there": away} {
		if _, err := r.PrepareUpgrade(f.ctx, spec, "1"); !errors.Is(err, container.ErrNotFound) {
			t.Errorf("an upgrade of %s: %v", why, err)
		}
	}
}

// alone checks that a container is listed once.
func (f *fixture) alone(t *testing.T, spec container.CreateSpec) {
	t.Helper()
	all, err := f.Runtime.List(f.ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range all {
		if (i.CTID == spec.CTID) != (i.Name == spec.Name) || i.Name != spec.Name && strings.Contains(i.Name, string(spec.CTID)) {
			t.Errorf("there is %+v", i)
		}
	}
}

// leave makes a file in a container that runs.
func (f *fixture) leave(t *testing.T, name, file string) {
	t.Helper()
	if root := f.root(t, name); root != "" {
		if err := os.WriteFile(filepath.Join(root, "hostler-"+file), []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// has checks that a container that runs has one file of leave, and another one not.
func (f *fixture) has(t *testing.T, name, file, without string) {
	t.Helper()
	root := f.root(t, name)
	if root == "" {
		return
	}
	if _, err := os.Stat(filepath.Join(root, "hostler-"+without)); err == nil {
		t.Errorf("it has %s", without)
	}
	if file == "" {
		return
	}
	if text, err := os.ReadFile(filepath.Join(root, "hostler-"+file)); err != nil || string(text) != file {
		t.Errorf("it has no %s: %q, %v", file, text, err)
	}
}
