package backup_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/hostler-io/hostler/backup"
	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/image/rootfs"
)

// knows trusts the key of one host.
func knows(id *certs.Identity) backup.Trust {
	return func(manifest, signature []byte) (string, error) {
		return "edge-01", id.PublicKey().Verify(signature, manifest)
	}
}

func file(t testing.TB, b []byte) *os.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "archive")
	must(t, os.WriteFile(path, b, 0o600))
	f, err := os.Open(path)
	must(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// TestTravel: a backup with a volume that another host takes is one of its own then, with
// the files of the container and of the volume apart.
func TestTravel(t *testing.T) {
	me, other := identity(t), identity(t)
	from, to := store(t, me), store(t, other)
	vol := t.TempDir()
	must(t, os.WriteFile(filepath.Join(vol, "row"), []byte("one"), 0o600), os.Chown(filepath.Join(vol, "row"), int(ids.First)+5, int(ids.First)+5))
	_, err := from.Create(t.Context(), "b1", root(t), ids, backup.Manifest{Container: "web", CTID: "ct-1", Scheduled: true}, backup.Tree{Name: "data", Root: vol, IDs: ids})
	must(t, err)
	var wire bytes.Buffer
	_, err = from.Export(t.Context(), "b1", &wire, me.Sign)
	must(t, err)
	var b backup.Backup
	for range 2 { // once more is the same
		b, err = to.Import(t.Context(), file(t, wire.Bytes()), "came", knows(me))
		must(t, err)
	}
	if b.From != "edge-01" || b.Scheduled || b.Verified.IsZero() || b.CTID != "ct-1" {
		t.Errorf("it came as %+v", b)
	}
	m, img, err := to.Image(t.Context(), "came")
	must(t, err)
	dir, data := t.TempDir(), t.TempDir()
	must(t, rootfs.Unpack(dir, img.Layers, container.IDRange{}), rootfs.Unpack(data, []container.Layer{m.VolumesIn(img)["data"]}, container.IDRange{}))
	raw, err := os.ReadFile(filepath.Join(data, "row"))
	_, err2 := os.Stat(filepath.Join(dir, "etc/file"))
	_, none := os.Stat(filepath.Join(dir, "row"))
	if must(t, err, err2); string(raw) != "one" || !errors.Is(none, os.ErrNotExist) {
		t.Errorf("the volume holds %q, and the container %v", raw, none)
	}
	if _, err := to.Create(t.Context(), "mine", root(t), ids, backup.Manifest{CTID: "ct-1"}); err != nil {
		t.Error(err)
	}
	if _, err := to.Import(t.Context(), file(t, wire.Bytes()), "mine", knows(me)); !errors.Is(err, container.ErrExists) {
		t.Errorf("another one of that name: %v", err)
	}
}

// TestForeign: of what is changed, cut short, or signed by a stranger nothing is written.
func TestForeign(t *testing.T) {
	me, to := identity(t), store(t, identity(t))
	from := store(t, me)
	_, err := from.Create(t.Context(), "b1", root(t), ids, backup.Manifest{Container: "web"})
	must(t, err)
	var wire bytes.Buffer
	_, err = from.Export(t.Context(), "b1", &wire, me.Sign)
	must(t, err)
	raw := wire.Bytes()
	change := func(at int) []byte {
		b := bytes.Clone(raw)
		b[at] ^= 1
		return b
	}
	stored, err := os.ReadFile(filepath.Join(from.Dir, "b1.hostler-backup"))
	must(t, err)
	for name, b := range map[string][]byte{
		"empty": {}, "cut": raw[:len(raw)-1], "half": raw[:len(raw)/2], "archive": change(100), "manifest": change(bytes.Index(raw, []byte(`"web"`)) + 1), "stored": stored,
	} {
		if _, err := to.Import(t.Context(), file(t, b), "b", knows(me)); !errors.Is(err, backup.ErrArchive) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := to.Import(t.Context(), file(t, raw), "b", knows(identity(t))); !errors.Is(err, backup.ErrArchive) {
		t.Errorf("of a stranger: %v", err)
	}
	for i, made := range []int64{-1, 1 << 60} { // a list of backups could not tell of it
		name := fmt.Sprintf("at-%d", i)
		_, err := from.Create(t.Context(), name, root(t), ids, backup.Manifest{Container: "web", Made: made})
		must(t, err)
		var odd bytes.Buffer
		_, err = from.Export(t.Context(), name, &odd, me.Sign)
		must(t, err)
		if _, err := to.Import(t.Context(), file(t, odd.Bytes()), "b", knows(me)); !errors.Is(err, backup.ErrArchive) {
			t.Errorf("made at %d: %v", made, err)
		}
	}
	if all, err := os.ReadDir(to.Dir); len(all) > 0 {
		t.Errorf("there are %v, %v", all, err)
	}
	must(t, os.WriteFile(filepath.Join(from.Dir, "b1.hostler-backup"), append(append([]byte{}, stored[:100]...), append([]byte{stored[100] ^ 1}, stored[101:]...)...), 0o600))
	wire.Reset()
	if _, err := from.Export(t.Context(), "b1", &wire, me.Sign); !errors.Is(err, backup.ErrArchive) {
		t.Errorf("a damaged one goes: %v", err)
	}
	if _, err := to.Import(t.Context(), file(t, wire.Bytes()), "b", knows(me)); !errors.Is(err, backup.ErrArchive) {
		t.Errorf("a damaged one is taken: %v", err)
	}
}
