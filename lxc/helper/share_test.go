//go:build linux && cgo

package helper

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/runner/rundir"
)

// TestTrees: what a record names stays, wherever the record lies; all else goes, also what
// was cut short, but not while a process works on it or a record cannot be read.
func TestTrees(t *testing.T) {
	dir := t.TempDir()
	h := &host{path: filepath.Join(dir, "lxc"), locks: filepath.Join(dir, "ct"), start: time.Now(), patience: time.Second, timeout: time.Minute}
	h.trees = filepath.Join(h.path, ".hostler-trees")
	must(t, os.MkdirAll(h.locks, 0o700))
	name := func(c string) string { return strings.Repeat(c, 64) }
	id := func(c string) container.CTID { return container.CTID("01890a5d-ac96-774b-bcce-b30209" + c) }
	for i, at := range []string{"web", stagingPrefix + string(id("9a9001")), filepath.Join(besidePrefix+string(id("9a9002")), "db"), "doomed"} {
		must(t, os.MkdirAll(h.dir(at), 0o755))
		state := []recordState{recordReady, recordCreating, recordCreating, recordDestroying}[i]
		must(t, writeRecord(h.dir(at), record{CTID: id("9a900" + string(rune('0'+i))), Template: "x", State: state, Tree: name(string(rune('a' + i)))}))
	}
	must(t, errors.Join(os.MkdirAll(h.dir("foreign"), 0o755), os.WriteFile(h.dir("file"), nil, 0o600)))
	trees := func() (left []string) {
		entries, err := os.ReadDir(h.trees)
		must(t, err)
		for _, e := range entries {
			left = append(left, e.Name())
		}
		return left
	}
	used := []string{name("a"), name("b"), name("c"), name("d")}
	for _, tree := range slices.Concat(used, []string{name("e"), halfTree + name("f"), halfTree + name("a")}) {
		must(t, os.MkdirAll(filepath.Join(h.trees, tree, "bin"), 0o755))
	}

	damaged := filepath.Join(h.dir("web"), recordFile)
	whole, err := os.ReadFile(damaged)
	must(t, errors.Join(err, os.WriteFile(damaged, []byte("{}"), 0o600)))
	before := trees()
	must(t, sharing{h}.sweepTrees())
	if left := trees(); !slices.Equal(left, before) {
		t.Errorf("while a record cannot be read, %q became %q", before, left)
	}
	must(t, os.WriteFile(damaged, whole, 0o600))
	l, err := lock(h.locks, treeLock+name("e"), time.Second)
	must(t, errors.Join(err, sharing{h}.sweepTrees()))
	if left := trees(); !slices.Equal(left, append(slices.Clone(used), name("e"))) {
		t.Errorf("while a process works on one there are %q", left)
	}
	l.release()
	if all := (survey{h, true}).unusedTrees(); len(all) != 1 || all[0].Object != filepath.Join(h.trees, name("e")) || !all[0].Repaired {
		t.Errorf("unused is %+v", all)
	}
	if left := trees(); !slices.Equal(left, used) {
		t.Errorf("in the end there are %q, want %q", left, used)
	}
}

// TestSharedRecord: a helper that knows nothing of shared files does not take a container with
// them for one without.
func TestSharedRecord(t *testing.T) {
	dir := t.TempDir()
	const id = container.CTID("01890a5d-ac96-774b-bcce-b302099a9001")
	for version, r := range map[string]record{`"Version":1`: {CTID: id, State: recordReady}, `"Version":2`: {CTID: id, State: recordReady, Tree: strings.Repeat("a", 64)}} {
		must(t, writeRecord(dir, r))
		raw, err := rundir.ReadCapped(filepath.Join(dir, recordFile), maxRecord)
		if must(t, err); !strings.Contains(string(raw), version) {
			t.Errorf("the record is %s, want %s", raw, version)
		}
		if got, err := readRecord(dir); err != nil || got.Tree != r.Tree {
			t.Errorf("read is %+v, %v", got, err)
		}
	}
	must(t, writeRecord(dir, record{CTID: id, State: recordReady, Tree: "../../etc"}))
	if _, err := readRecord(dir); err == nil {
		t.Error("a record may share what is no tree")
	}
}

// TestSharable: containers of an image share its files, and a container that is made from a
// backup has its own, also when it moves to this host with its identity.
func TestSharable(t *testing.T) {
	dir := t.TempDir()
	h := &host{path: filepath.Join(dir, "lxc"), locks: filepath.Join(dir, "ct"), start: time.Now(), patience: time.Second, timeout: time.Minute, share: true}
	must(t, os.MkdirAll(h.locks, 0o700))
	if why := (sharing{h}).alone(); why != "" {
		t.Fatal(why)
	}
	for name, c := range map[string]struct {
		img        container.Image
		privileged bool
		want       bool
	}{
		"image":      {img: container.Image{Layers: []container.Layer{{DiffID: "sha256:1"}}}, want: true},
		"privileged": {img: container.Image{Layers: []container.Layer{{DiffID: "sha256:1"}}}, privileged: true},
		"unknown":    {img: container.Image{Layers: []container.Layer{{}}}},
		"restored":   {img: container.Image{Copy: true, Layers: []container.Layer{{DiffID: "sha256:1", Plain: true}}}},
		"moved":      {img: container.Image{Layers: []container.Layer{{DiffID: "sha256:1", Plain: true}}}},
	} {
		if got := (sharing{h}).sharable(container.CreateSpec{Privileged: c.privileged}, &c.img); (got != "") != c.want {
			t.Errorf("%s: its tree is %q", name, got)
		}
	}
}
