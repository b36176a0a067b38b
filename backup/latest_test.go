package backup_test

import (
	"bytes"
	"errors"
	"os"
	"testing"

	"github.com/hostler-io/hostler/backup"
	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/protocol"
)

// anyKey believes what one of several keys has signed.
type anyKey []*certs.PublicKey

func (a anyKey) Verify(sig, body []byte) error {
	err := errors.New("no key")
	for _, k := range a {
		if err = k.Verify(sig, body); err == nil {
			return nil
		}
	}
	return err
}

// vouched signs with a word.
type vouched struct{ *certs.Identity }

func (v vouched) Sign(body []byte) ([]byte, error) { return []byte("vouched"), nil }

// TestLatest: of the backups that hosts have made of a unique container in one directory the
// newest is that of the highest epoch, whatever clocks said, and then the last one. What no
// host has signed that counts is passed over.
func TestLatest(t *testing.T) {
	dir := t.TempDir()
	targets := backup.Targets{"away": {Dir: dir + "/none"}, "nas": {Dir: dir}}
	a, b, c := identity(t), identity(t), identity(t)
	const db = container.CTID("0199f3aa-0000-7000-8000-000000000001")
	made := func(id *certs.Identity, name string, ct container.CTID, counter uint64, ms int64) {
		t.Helper()
		s, err := store(t, id).At(targets, "nas")
		must(t, err)
		_, err = s.Create(t.Context(), name, root(t), ids, backup.Manifest{Container: "db", CTID: ct, Runtime: container.KindLXC, Made: ms, Epoch: protocol.Epoch{Counter: counter}})
		must(t, err)
	}
	latest := func(keys ...*certs.PublicKey) (string, error) {
		s := store(t, c)
		s.Key = anyKey(keys)
		at, found, err := s.Latest(t.Context(), targets, db)
		if err == nil && at.Target() != "nas" {
			t.Errorf("it is at %q", at.Target())
		}
		return found.Name, err
	}
	if _, err := latest(a.PublicKey()); !errors.Is(err, container.ErrNotFound) {
		t.Errorf("without one: %v", err)
	}
	made(a, "a1", db, 1, 9000)
	made(a, "a2", db, 1, 8000) // its clock has fallen back
	made(b, "b1", db, 2, 100)
	made(c, "c1", db, 9, 9999)
	made(a, "other", "0199f3aa-0000-7000-8000-000000000002", 3, 9999)
	for what, x := range map[string]struct {
		keys []*certs.PublicKey
		want string
	}{
		"of both":      {[]*certs.PublicKey{a.PublicKey(), b.PublicKey()}, "b1"},
		"of the first": {[]*certs.PublicKey{a.PublicKey()}, "a2"},
	} {
		if got, err := latest(x.keys...); got != x.want || err != nil {
			t.Errorf("%s: %q, %v, want %q", what, got, err, x.want)
		}
	}
}

// TestVouchedIfUnique: backups of unique containers alone are signed for other hosts.
func TestVouchedIfUnique(t *testing.T) {
	s := store(t, identity(t))
	s.Vouched = vouched{}
	for name, m := range map[string]backup.Manifest{"plain": {Container: "web"}, "unique": {Container: "db", Epoch: protocol.Epoch{Counter: 1}}} {
		_, err := s.Create(t.Context(), name, root(t), ids, m)
		must(t, err)
		raw, err := os.ReadFile(s.Dir + "/" + name + ".hostler-backup")
		must(t, err)
		if got := bytes.Contains(raw, []byte("vouched")); got != (name == "unique") {
			t.Errorf("%s: vouched for: %t", name, got)
		}
	}
}
