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
// container; a damaged newest backup is an error, and no older one is taken for it.
func TestLatestOfHolders(t *testing.T) {
	const db = container.CTID("0199f3aa-0000-7000-8000-000000000001")
	nas, files := t.TempDir(), t.TempDir()
	made := func(host string, counter uint64) {
		t.Helper()
		s, err := backup.Store{Dir: t.TempDir(), Signer: named(host), Key: named(host)}.At(backup.Targets{"nas": {Dir: nas}}, "nas")
		if err != nil {
			t.Fatal(err)
		}
		m := backup.Manifest{Container: "db", CTID: db, Runtime: container.KindLXC, Made: 7, Epoch: protocol.Epoch{Counter: counter}}
		if _, err := s.Create(t.Context(), host, files, container.IDRange{}, m); err != nil {
			t.Fatal(err)
		}
	}
	made("edge-01", 1)
	made("edge-02", 2)
	made("edge-09", 9)
	b := Backups{
		Open: func() (backup.Store, error) {
			return backup.Store{Dir: t.TempDir(), Signer: named("edge-03"), Key: named("edge-03")}, nil
		},
		Trust: func() (func(_, sig []byte) (string, error), error) {
			return func(_, sig []byte) (string, error) { return string(sig), nil }, nil
		},
		Targets: []string{"nas=" + nas},
	}
	hosts := []protocol.HostID{"edge-01", "edge-02"}
	found, img, err := b.Latest(t.Context(), db, hosts)
	if err != nil || found.Name != "nas:edge-02" || found.Host != "edge-02" || found.MadeMS != 7 || found.Kind != container.KindLXC || len(img.Layers) != 1 {
		t.Errorf("%+v, %+v, %v", found, img, err)
	}
	if _, _, err := b.Latest(t.Context(), db, []protocol.HostID{"edge-04"}); !errors.Is(err, container.ErrNotFound) {
		t.Errorf("of a host that has made none: %v", err)
	}
	path := filepath.Join(nas, "edge-02.hostler-backup")
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append([]byte{raw[0] ^ 1}, bytes.Clone(raw[1:])...), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := b.Latest(t.Context(), db, hosts); err == nil || !strings.Contains(err.Error(), "its archive was changed") {
		t.Errorf("of a damaged one: %v", err)
	}
}
