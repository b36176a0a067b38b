package backup_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/hostler-io/hostler/backup"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/image/rootfs"
)

// of is the tree of a snapshot with one file.
func of(t testing.TB, s container.Snapshot, content string) backup.Tree {
	t.Helper()
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "f"), []byte(content), 0o600), os.Chown(filepath.Join(dir, "f"), int(ids.First)+7, int(ids.First)+7))
	return backup.Tree{IDs: ids, Of: &s, With: func(do func(string) error) error { return do(dir) }}
}

// TestEarlier: a backup with snapshots travels whole. What is made of it has them as they were,
// each apart from the files of the container, of its volumes and of the others.
func TestEarlier(t *testing.T) {
	me, other := identity(t), identity(t)
	from, to := store(t, me), store(t, other)
	vol := t.TempDir()
	must(t, os.WriteFile(filepath.Join(vol, "row"), nil, 0o600))
	all := []container.Snapshot{{Name: "old", Key: "k", Order: 2, MadeMS: 9, Entries: 1, Scheduled: true}, {Name: "new", Order: 7, MadeMS: 8, Paused: true}}
	shots := []backup.Tree{of(t, all[0], "first"), of(t, all[1], "second")}
	for name, volumes := range map[string][]backup.Tree{"alone": nil, "volumes": {{Name: "data", Root: vol, IDs: ids}}} {
		_, err := from.Create(t.Context(), name, root(t), ids, backup.Manifest{Container: "web", CTID: "ct-1"}, append(volumes, shots...)...)
		must(t, err)
		var wire bytes.Buffer
		_, err = from.Export(t.Context(), name, &wire, me.Sign)
		must(t, err)
		_, err = to.Import(t.Context(), file(t, wire.Bytes()), name, knows(me))
		must(t, err)
		m, img, err := to.Image(t.Context(), name)
		must(t, err)
		var came []container.Snapshot
		for i, s := range img.Snapshots {
			came = append(came, s.Snapshot)
			dir := t.TempDir()
			must(t, rootfs.Unpack(dir, []container.Layer{s.Files}, ids))
			entries, err := os.ReadDir(dir)
			raw, err2 := os.ReadFile(filepath.Join(dir, "f"))
			if must(t, err, err2); len(entries) != 1 || string(raw) != []string{"first", "second"}[i] {
				t.Errorf("%s: snapshot %s has %v, %q", name, s.Snapshot.Name, entries, raw)
			}
		}
		if !reflect.DeepEqual(came, all) || len(m.VolumesIn(img)) != len(volumes) {
			t.Errorf("%s: it has the snapshots %+v, want %+v, and the volumes %v", name, came, all, m.Volumes)
		}
		dir := t.TempDir()
		must(t, rootfs.Unpack(dir, img.Layers, ids))
		if _, err := os.Stat(filepath.Join(dir, "f")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: the container has files of a snapshot: %v", name, err)
		}
		cut := wire.Bytes()[:wire.Len()-1]
		if _, err := to.Import(t.Context(), file(t, cut), "cut", knows(me)); !errors.Is(err, backup.ErrArchive) {
			t.Errorf("%s, cut short: %v", name, err)
		}
		changed := bytes.Clone(wire.Bytes())
		changed[m.Snapshots[1].Files.Offset+9] ^= 1
		if _, err := to.Import(t.Context(), file(t, changed), "changed", knows(me)); !errors.Is(err, backup.ErrArchive) {
			t.Errorf("%s, changed: %v", name, err)
		}
	}
	broken := errors.New("broken")
	if _, err := from.Create(t.Context(), "broken", root(t), ids, backup.Manifest{}, backup.Tree{Of: &all[0], With: func(func(string) error) error { return broken }}); !errors.Is(err, broken) {
		t.Errorf("a snapshot that cannot be read: %v", err)
	}
}

// TestEarlierRefused: a manifest, though it is signed, tells of no snapshots that cannot be.
func TestEarlierRefused(t *testing.T) {
	s := store(t, identity(t))
	for name, all := range map[string][]container.Snapshot{
		"path": {{Name: "../etc", Order: 1}}, "unnamed": {{Order: 1}}, "unnumbered": {{Name: "a"}}, "order": {{Name: "a", Order: 2}, {Name: "b", Order: 1}},
		"twice": {{Name: "a", Order: 1}, {Name: "a", Order: 1}}, "damaged": {{Name: "a", Order: 1, Damaged: true}}, "time": {{Name: "a", Order: 1, MadeMS: -1}},
	} {
		var shots []backup.Tree
		for _, one := range all {
			shots = append(shots, of(t, one, ""))
		}
		_, err := s.Create(t.Context(), name, root(t), ids, backup.Manifest{Container: "web"}, shots...)
		must(t, err)
		if _, err := s.Verify(t.Context(), name); !errors.Is(err, backup.ErrArchive) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
