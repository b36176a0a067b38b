package backups

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/backup"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/protocol"
)

// named signs with the name of a host.
type named string

func (n named) Sign([]byte) ([]byte, error) { return []byte(n), nil }
func (n named) Verify(sig, _ []byte) error {
	if string(sig) != string(n) {
		return errors.New("another host has signed it")
	}
	return nil
}

// TestLatestOfHolders: of the hosts that share a target those count that have held the
// container, up to the epoch that each host has had: the stolen key of an earlier host makes no
// backup that counts as newer than those of later hosts. A damaged newest backup is an error, and
// no older one is taken in its place.
func TestLatestOfHolders(t *testing.T) {
	const db = container.CTID("0199f3aa-0000-7000-8000-000000000001")
	nas, files := t.TempDir(), t.TempDir()
	made := func(host, name string, counter uint64) {
		t.Helper()
		s, err := backup.Store{Dir: t.TempDir(), Signer: named(host), Key: named(host)}.At(backup.Targets{"nas": {Dir: nas}}, "nas")
		if err != nil {
			t.Fatal(err)
		}
		m := backup.Manifest{Container: "db", CTID: db, Runtime: container.KindLXC, Made: 7, Epoch: protocol.Epoch{Counter: counter}}
		if _, err := s.Create(t.Context(), name, files, container.IDRange{}, m); err != nil {
			t.Fatal(err)
		}
	}
	made("edge-01", "one", 1)
	made("edge-02", "two", 2)
	made("edge-09", "nine", 9)
	b := Backups{
		Open: func() (backup.Store, error) {
			return backup.Store{Dir: t.TempDir(), Signer: named("edge-03"), Key: named("edge-03")}, nil
		},
		Trust: func() (func(_, sig []byte) (string, error), error) {
			return func(_, sig []byte) (string, error) { return string(sig), nil }, nil
		},
		Targets: []string{"nas=" + nas},
	}
	held := &protocol.CreateArgs{Restore: []protocol.HostID{"edge-01", "edge-02"}}
	found, img, err := b.Latest(t.Context(), db, held)
	if err != nil || found.Name != "nas:two" || found.Host != "edge-02" || found.MadeMS != 7 || found.Kind != container.KindLXC || len(img.Layers) != 1 {
		t.Errorf("%+v, %+v, %v", found, img, err)
	}
	made("edge-01", "stolen", 1<<53-1)
	if found, _, err := b.Latest(t.Context(), db, held); err != nil || found.Name != "nas:stolen" {
		t.Errorf("by a coordinator that tells no epochs: %+v, %v", found, err)
	}
	held.Epochs = []protocol.Epoch{{Counter: 1}, {Counter: 2}}
	if found, _, err := b.Latest(t.Context(), db, held); err != nil || found.Name != "nas:two" || found.Host != "edge-02" {
		t.Errorf("by a coordinator that tells the epochs of hosts: %+v, %v", found, err)
	}
	none := &protocol.CreateArgs{Restore: []protocol.HostID{"edge-04"}}
	if _, _, err := b.Latest(t.Context(), db, none); !errors.Is(err, container.ErrNotFound) {
		t.Errorf("of a host that has made none: %v", err)
	}
	path := filepath.Join(nas, "two.hostler-backup")
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append([]byte{raw[0] ^ 1}, bytes.Clone(raw[1:])...), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := b.Latest(t.Context(), db, held); err == nil || !strings.Contains(err.Error(), "its archive was changed") {
		t.Errorf("of a damaged one: %v", err)
	}
}
