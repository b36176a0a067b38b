package containertest

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/container"
)

// testPromote: an image is made of what runs, and of what is stopped, and harms neither;
// a container of it has the files, but for what was the first one's alone; it says how
// that was kept until its name is taken away.
func testPromote(t *testing.T, f *fixture) {
	r, ok := f.Runtime.(container.Promoter)
	if !ok {
		t.Fatalf("%T is no container.Promoter", f.Runtime)
	}
	spec := f.create(t)
	before := f.start(t, spec.Name)
	if root := f.root(t, spec.Name); root != "" {
		err := os.MkdirAll(filepath.Join(root, "etc/ssh"), 0o755)
		for _, name := range []string{"kept", "etc/ssh/ssh_host_key"} {
			err = errors.Join(err, os.WriteFile(filepath.Join(root, name), []byte("of the source"), 0o600))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	ref := container.LocalImage + strings.ToLower(spec.Name) + ":1"
	p := container.Promotion{Reference: ref, Key: "1", Kept: []byte(`{"labels":["a=\"b\" $c"]}`)}
	for why, c := range map[string]struct {
		name string
		want error
	}{"what is not there": {spec.Name + "-x", container.ErrNotFound}, "what is a path": {"../" + spec.Name, container.ErrNotFound}} {
		if err := r.Promote(f.ctx, c.name, p); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", why, err)
		}
	}
	if _, err := r.Kept(f.ctx, ref); !errors.Is(err, container.ErrNotFound) {
		t.Errorf("of an image that is not there: %v", err)
	}
	for range 2 {
		if err := r.Promote(f.ctx, spec.Name, p); err != nil {
			t.Fatal(err)
		}
	}
	other := p
	other.Key = "2"
	if err := r.Promote(f.ctx, spec.Name, other); !errors.Is(err, container.ErrExists) {
		t.Errorf("a name that is taken: %v", err)
	}
	if now := f.wantState(t, spec.Name, container.StateRunning); now.InitPID != before.InitPID {
		t.Error("the container has another first process")
	}
	f.stop(t, spec.Name)
	other.Reference = strings.TrimSuffix(ref, "1") + "2"
	if err := r.Promote(f.ctx, spec.Name, other); err != nil {
		t.Fatal(err)
	}
	if kept, err := r.Kept(f.ctx, ref); err != nil || string(kept) != string(p.Kept) {
		t.Errorf("it was kept as %s, %v", kept, err)
	}
	for _, ref := range []string{ref, other.Reference} {
		again := f.Spec()
		f.remove(t, again.Name)
		again.Template, again.Pull = ref, container.PullAlways // no registry is asked for such an image
		if err := f.creator.Create(f.ctx, again); err != nil {
			t.Fatal(err)
		}
		if err := r.Forget(f.ctx, ref); err != nil {
			t.Error(err)
		}
		if info := f.start(t, again.Name); info.CTID != again.CTID || info.MAC != again.Network.MAC {
			t.Errorf("the container of the image is %+v, want %+v", info, again)
		}
		if root := f.root(t, again.Name); root != "" {
			if text, err := os.ReadFile(filepath.Join(root, "kept")); err != nil || string(text) != "of the source" {
				t.Errorf("%q, %v", text, err)
			}
		}
		f.stop(t, again.Name)
		if err := r.Forget(f.ctx, ref); !errors.Is(err, container.ErrNotFound) {
			t.Errorf("forgotten twice: %v", err)
		}
	}
}
