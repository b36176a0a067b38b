package certs_test

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/protocol"
)

func TestKeysKnowsWhoOwnsWhat(t *testing.T) {
	f := newFleet(t, 1, 1)
	coordinator, _ := f.withCoordinator()
	alice := newIdentity(t, "alice")
	next := f.chain.Next()
	for person, key := range map[string]*certs.PublicKey{"alice": alice.PublicKey(), "owner0": f.owners[0].PublicKey()} {
		if err := next.AddPersonKey(person, key); err != nil {
			t.Fatal(err)
		}
	}
	f.advance(f.sign(next, f.owners[0]))
	keys := certs.NewKeys(f.chain)
	web1 := newIdentity(t, "web1")
	if err := keys.SetHost("web1", web1.PublicKey()); err != nil {
		t.Fatal(err)
	}
	type owner struct {
		Roles   []protocol.Role
		Host    protocol.HostID
		Person  string
		Revoked bool
	}
	expect := func(name string, id *certs.Identity, want *owner) {
		t.Helper()
		p, ok := keys.Principal(id.Key())
		if ok != (want != nil) {
			t.Errorf("%s: known is %v", name, ok)
		}
		if want == nil || !ok {
			return
		}
		if d := cmp.Diff(*want, owner{p.Roles, p.Host, p.Person, p.Revoked}); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
	host := []protocol.Role{protocol.RoleHost}
	expect("the owner", f.owners[0], &owner{Roles: []protocol.Role{protocol.RoleOwner, protocol.RolePerson}, Person: "owner0"})
	expect("the coordinator", coordinator, &owner{Roles: []protocol.Role{protocol.RoleCoordinator}})
	expect("alice", alice, &owner{Roles: []protocol.Role{protocol.RolePerson}, Person: "alice"})
	expect("web1", web1, &owner{Roles: host, Host: "web1"})
	expect("a stranger", newIdentity(t, "x"), nil)

	if err := keys.SetHost("web2", web1.PublicKey()); !errors.Is(err, certs.ErrKeyTaken) {
		t.Errorf("one key for two hosts: %v", err)
	}
	if err := keys.SetHost("web2", coordinator.PublicKey()); !errors.Is(err, certs.ErrKeyTaken) {
		t.Errorf("the coordinator's key for a host: %v", err)
	}
	// A reinstalled host: the old key is forgotten, and revoked if so said.
	again := newIdentity(t, "web1")
	if err := keys.SetHost("web1", again.PublicKey()); err != nil {
		t.Fatal(err)
	}
	expect("the old web1", web1, nil)
	keys.Revoke(1, web1.Key())
	expect("the old web1, revoked", web1, &owner{Revoked: true})
	expect("the new web1", again, &owner{Roles: host, Host: "web1"})
	keys.Revoke(2, again.Key(), alice.Key())
	expect("web1, revoked", again, &owner{Roles: host, Host: "web1", Revoked: true})
	expect("alice, revoked", alice, &owner{Roles: []protocol.Role{protocol.RolePerson}, Person: "alice", Revoked: true})

	// A new ring without alice: her key is nobody's, but stays revoked.
	next = f.chain.Next()
	next.People = nil
	if newer, err := keys.Advance(f.sign(next, f.owners[0])); err != nil || !newer {
		t.Fatalf("a newer ring: %v, %v", newer, err)
	}
	expect("alice, of the past", alice, &owner{Revoked: true})
	if newer, err := keys.Advance(keys.Chain().From(1)); err != nil || newer {
		t.Errorf("the same rings again: newer is %v, %v", newer, err)
	}
	if _, err := keys.Advance([]byte("x")); !errors.Is(err, certs.ErrRing) || keys.Chain().Ring().Number != 4 {
		t.Errorf("what is no ring: %v", err)
	}
}

func TestRevocationsTravel(t *testing.T) {
	f := newFleet(t, 1, 1)
	coordinator, _ := f.withCoordinator()
	bad, worse := newIdentity(t, "bad"), newIdentity(t, "worse")
	next := f.chain.Next()
	if err := errors.Join(next.AddPersonKey("alice", bad.PublicKey()), next.AddPersonKey("alice", worse.PublicKey())); err != nil {
		t.Fatal(err)
	}
	f.advance(f.sign(next, f.owners[0]))
	here, there := certs.NewKeys(f.chain), certs.NewKeys(f.chain)
	here.Revoke(7, bad.Key(), worse.Key())
	raw, err := here.RevocationList(7).Seal(coordinator)
	if err != nil {
		t.Fatal(err)
	}
	take := func(raw []byte) error {
		said, err := there.OpenRevocations(raw)
		if err == nil {
			there.Revoke(said.Number, said.Keys...)
		}
		return err
	}
	if err := take(raw); err != nil {
		t.Fatal(err)
	}
	if !there.Revoked(bad.Key()) || there.RevokedNumber() != 7 {
		t.Errorf("revoked is %v under number %d", there.Revoked(bad.Key()), there.RevokedNumber())
	}
	// An older list that a broker repeats gives nothing back.
	old, err := certs.NewKeys(f.chain).RevocationList(3).Seal(coordinator)
	if err != nil {
		t.Fatal(err)
	}
	if err := take(old); err != nil || !there.Revoked(bad.Key()) || there.RevokedNumber() != 7 {
		t.Errorf("after an older list: %v, revoked %v, number %d", err, there.Revoked(bad.Key()), there.RevokedNumber())
	}
	for name, c := range map[string]struct {
		list certs.Revocations
		by   *certs.Identity
	}{
		"by an owner":   {here.RevocationList(8), f.owners[0]},
		"by a person":   {here.RevocationList(8), bad},
		"another fleet": {func() certs.Revocations { r := here.RevocationList(8); r.Fleet[0]++; return r }(), coordinator},
		"another type":  {func() certs.Revocations { r := here.RevocationList(8); r.Type = protocol.TypeRoster; return r }(), coordinator},
	} {
		raw, err := c.list.Seal(c.by)
		if err != nil {
			t.Fatal(err)
		}
		if err := take(raw); err == nil || there.RevokedNumber() != 7 {
			t.Errorf("%s: taken", name)
		}
	}
	unsorted := here.RevocationList(8)
	slices.Reverse(unsorted.Keys)
	if _, err := unsorted.Seal(coordinator); err == nil {
		t.Error("a list out of order is signed")
	}
	// Whatever was revoked, the owners keep the ring.
	there.Revoke(9, f.owners[0].Key())
	if newer, err := there.Advance(f.sign(f.chain.Next(), f.owners[0])); err != nil || !newer {
		t.Errorf("a coordinator has locked the owner out: %v", err)
	}
}

// TestListsAreOfRings: however many hosts were revoked, the list of revoked keys can
// be signed. The roster tells which hosts are members.
func TestListsAreOfRings(t *testing.T) {
	f := newFleet(t, 1, 1)
	coordinator, _ := f.withCoordinator()
	keys := certs.NewKeys(f.chain)
	for i := range certs.MaxRevoked + 1 {
		keys.Revoke(uint64(i), protocol.KeyID{byte(i >> 8), byte(i)}) // of hosts
	}
	keys.Revoke(certs.MaxRevoked+2, f.owners[0].Key())
	list := keys.RevocationList(keys.RevokedNumber())
	if _, err := list.Seal(coordinator); err != nil || !slices.Equal(list.Keys, []protocol.KeyID{f.owners[0].Key()}) {
		t.Errorf("the list has %d keys: %v", len(list.Keys), err)
	}
}

// TestReinstated: a new ring alone brings no revoked key back. One that names the
// key does, for ever: no coordinator takes its rights away again.
func TestReinstated(t *testing.T) {
	f := newFleet(t, 1, 1)
	coordinator, _ := f.withCoordinator()
	keys := certs.NewKeys(f.chain)
	owner := f.owners[0].Key()
	keys.Revoke(1, owner, coordinator.Key())
	revoked := func(when string, want bool) {
		t.Helper()
		p, ok := keys.Principal(owner)
		if !ok || p.Revoked != want || !keys.Revoked(coordinator.Key()) {
			t.Errorf("%s: the owner is known: %v, and revoked: %v; the coordinator is revoked: %v", when, ok, p.Revoked, keys.Revoked(coordinator.Key()))
		}
	}
	advance := func(ring certs.Ring) {
		t.Helper()
		if newer, err := keys.Advance(f.sign(ring, f.owners[0])); err != nil || !newer {
			t.Fatalf("ring %d: newer is %v, %v", ring.Number, newer, err)
		}
	}
	advance(keys.Chain().Next())
	revoked("after a ring", true)
	ring := keys.Chain().Next()
	if err := ring.Reinstate(newIdentity(t, "stranger").Key()); !errors.Is(err, certs.ErrRing) {
		t.Errorf("a key that the ring does not name: %v", err)
	}
	for range 2 {
		if err := ring.Reinstate(owner); err != nil {
			t.Fatal(err)
		}
	}
	advance(ring)
	revoked("after the ring that names it", false)
	keys.Revoke(2, owner)
	revoked("after another list", false)
	if advance(keys.Chain().Next()); len(keys.Chain().Ring().Reinstated) != 0 {
		t.Error("the next ring names it again")
	}
	keys.Revoke(3, owner)
	revoked("after the next ring, and another list", false)
}

func TestRosterTravelsInParts(t *testing.T) {
	f := newFleet(t, 1, 1)
	coordinator, _ := f.withCoordinator()
	keys := certs.NewKeys(f.chain)
	empty := keys.Roster(1)
	if len(empty) != 1 || empty[0].Parts != 1 {
		t.Errorf("of no hosts there are %d parts", len(empty))
	}
	const hosts = 700
	want := map[protocol.HostID][]byte{}
	for i := range hosts {
		id := newIdentity(t, "h")
		host := protocol.HostID(fmt.Sprintf("host-%d", i))
		if err := keys.SetHost(host, id.PublicKey()); err != nil {
			t.Fatal(err)
		}
		want[host] = id.Public()
	}
	parts := keys.Roster(2)
	if len(parts) < 2 {
		t.Errorf("%d hosts fit into %d part", hosts, len(parts))
	}
	got := map[protocol.HostID][]byte{}
	for i, part := range append(parts, empty...) {
		raw, err := part.Seal(coordinator)
		if err != nil {
			t.Fatal(err)
		}
		r, err := keys.OpenRoster(raw)
		if err != nil {
			t.Fatal(err)
		}
		if i < len(parts) && (r.Part != i+1 || r.Parts != len(parts) || r.Number != 2) {
			t.Errorf("part %d says %d of %d of number %d", i, r.Part, r.Parts, r.Number)
		}
		for _, h := range r.Hosts {
			got[h.Host] = h.Key
		}
	}
	if len(got) != hosts {
		t.Errorf("%d hosts came, want %d", len(got), hosts)
	}
	for host, key := range want {
		if !bytes.Equal(got[host], key) {
			t.Fatalf("host %s has another key", host)
		}
	}
}

// TestKeysIsSafeForConcurrentUse is for the race detector.
func TestKeysIsSafeForConcurrentUse(t *testing.T) {
	f := newFleet(t, 1, 1)
	coordinator, _ := f.withCoordinator()
	keys := certs.NewKeys(f.chain)
	next := f.sign(f.chain.Next(), f.owners[0])
	web1 := newIdentity(t, "web1")
	var all sync.WaitGroup
	for _, do := range []func(i int){
		func(int) { keys.Principal(coordinator.Key()) },
		func(int) { keys.Principal(web1.Key()) },
		func(int) { keys.Roots(); keys.Chain(); keys.Roster(1) },
		func(int) {
			if err := keys.SetHost("web1", web1.PublicKey()); err != nil {
				t.Error(err)
			}
		},
		func(i int) { keys.Revoke(uint64(i), protocol.KeyID{byte(i)}); keys.RevocationList(1) },
		func(i int) {
			if _, err := keys.Advance(next); err != nil {
				t.Error(err)
			}
		},
	} {
		all.Go(func() {
			for i := range 100 {
				do(i)
			}
		})
	}
	all.Wait()
	if keys.RevokedNumber() != 99 || keys.Chain().Ring().Number != 3 {
		t.Errorf("revocations %d, ring %d", keys.RevokedNumber(), keys.Chain().Ring().Number)
	}
}

func BenchmarkPrincipal(b *testing.B) {
	f := newFleet(b, 1, 1)
	keys := certs.NewKeys(f.chain)
	id := newIdentity(b, "web1")
	if err := keys.SetHost("web1", id.PublicKey()); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := keys.Principal(id.Key()); !ok {
			b.Fatal("unknown")
		}
	}
}

// A coordinator's authority comes and goes with the ring that names it, for
// everybody who holds the keys.
func TestAuthoritiesFollowTheRing(t *testing.T) {
	f := newFleet(t, 1, 1)
	old, ca := f.withCoordinator()
	keys := certs.NewKeys(f.chain)
	root, err := x509.ParseCertificate(ca.Certificate())
	if err != nil {
		t.Fatal(err)
	}
	only := x509.NewCertPool()
	only.AddCert(root)
	if !keys.Roots().Equal(only) {
		t.Error("the authority of the coordinator is not the one in force")
	}
	q, _, _ := f.request()
	next := f.chain.Next()
	if err := errors.Join(next.RemoveCoordinator(old.Key()), next.AddCoordinator(q)); err != nil {
		t.Fatal(err)
	}
	if newer, err := keys.Advance(f.sign(next, f.owners...)); !newer || err != nil {
		t.Fatalf("%v, %v", newer, err)
	}
	if root, err = x509.ParseCertificate(q.TLSCA); err != nil {
		t.Fatal(err)
	}
	only = x509.NewCertPool()
	only.AddCert(root)
	if !keys.Roots().Equal(only) {
		t.Error("the authority of the coordinator that was taken out is in force still, or the new one is not")
	}
	if p, ok := keys.Principal(old.Key()); ok {
		t.Errorf("the coordinator that was taken out may speak as %q", p.Roles)
	}
}
