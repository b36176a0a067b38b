package main

import (
	"encoding/binary"
	"encoding/json"
	"errors"

	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler-io/hostler/agent/join"
	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/internal/durable"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/enrol"
	"github.com/hostler-io/hostler/protocol/san"
	"github.com/hostler-io/hostler/runner/rundir"
)

// household is a member of a fleet with its state directory, and the keys of
// those who rule it.
type household struct {
	state
	owner, coordinator *certs.Identity
	tls                *certs.TLSKey
	first              join.Record
}

func newHousehold(t *testing.T) *household {
	t.Helper()
	h := &household{state: state(t.TempDir()), tls: must[*certs.TLSKey](t)(certs.NewTLSKey())}
	h.owner = must[*certs.Identity](t)(certs.Generate("owner", time.Now()))
	h.coordinator = must[*certs.Identity](t)(certs.Generate("coordinator", time.Now()))
	ca := must[*certs.Authority](t)(certs.NewAuthority("demo"))
	ring := must[certs.Ring](t)(certs.NewFleet(protocol.FleetID{1}, "demo", "ada", h.owner.PublicKey()))
	if err := ring.AddCoordinator(enrol.CoordinatorRequest{Fleet: ring.Fleet, Key: h.coordinator.Public(), TLSCA: ca.Certificate()}); err != nil {
		t.Fatal(err)
	}
	pin := enrol.PinOf(1, protocol.Sum(must[[]byte](t)(ring.Body())))
	leaf := certs.Leaf{Name: san.Name{Kind: san.Host, ID: "web1"}, Now: time.Now()}
	h.first = join.Record{
		Host: "web1", State: enrol.Approved, Ring: 1, Pin: pin.Digest[:],
		Rings:       [][]byte{must[[]byte](t)(certs.SignRing(ring, h.owner))},
		Certificate: must[[]byte](t)(ca.Issue(must[[]byte](t)(h.tls.Request()), leaf)),
	}
	return h
}

// starts takes up the membership as the agent does when it starts.
func (h *household) starts(t *testing.T) *membership {
	t.Helper()
	r := must[join.Record](t)(h.record())
	return must[*membership](t)(newMembership(r, h.tls, nil, h.keep, slog.New(slog.DiscardHandler)))
}

// list is a list of revocations that the coordinator has signed.
func (h *household) list(t *testing.T, number uint64, keys ...protocol.KeyID) []byte {
	t.Helper()
	slices.SortFunc(keys, func(a, b protocol.KeyID) int { return slices.Compare(a[:], b[:]) })
	r := certs.Revocations{Type: protocol.TypeRevoked, Fleet: protocol.FleetID{1}, Number: number, Keys: keys}
	return must[[]byte](t)(r.Seal(h.coordinator))
}

// invented returns keys that nobody has, none of them twice.
func invented(from, n int) []protocol.KeyID {
	keys := make([]protocol.KeyID, n)
	for i := range keys {
		keys[i][0] = 0xff
		binary.BigEndian.PutUint64(keys[i][8:], uint64(from+i))
	}
	return keys
}

// TestInventedRevocations: a stolen key of a coordinator signs as many lists as
// it likes. The host keeps what they say of keys that its rings have named.
func TestInventedRevocations(t *testing.T) {
	h := newHousehold(t)
	if err := h.keep(h.first); err != nil {
		t.Fatal(err)
	}
	m := h.starts(t)
	before := must[os.FileInfo](t)(os.Stat(h.membership())).Size()
	for i := range 3 {
		if err := m.Revoke(t.Context(), h.list(t, uint64(i+1), invented(i*certs.MaxRevoked, certs.MaxRevoked)...)); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(must[join.Record](t)(h.record()).Revoked); n != 0 {
		t.Errorf("%d invented keys are kept", n)
	}
	if after := must[os.FileInfo](t)(os.Stat(h.membership())).Size(); after > before+100 {
		t.Errorf("the enrolment has grown from %d to %d bytes", before, after)
	}
	if m.keys.Revoked(invented(0, 1)[0]) {
		t.Error("an invented key is held in memory")
	}
	if err := m.Revoke(t.Context(), h.list(t, 4, append(invented(0, 10), h.owner.Key())...)); err != nil {
		t.Fatal(err)
	}
	if kept := must[join.Record](t)(h.record()).Revoked; !slices.Equal(kept, []protocol.KeyID{h.owner.Key()}) {
		t.Errorf("%d keys are kept as revoked, want the one that a ring names", len(kept))
	}
	if !h.starts(t).keys.Revoked(h.owner.Key()) {
		t.Error("after a restart, a revoked key of the ring is good again")
	}
}

// TestRevokedBeforeItsRing: a list may come before the ring that names its key.
func TestRevokedBeforeItsRing(t *testing.T) {
	h := newHousehold(t)
	if err := h.keep(h.first); err != nil {
		t.Fatal(err)
	}
	m := h.starts(t)
	alice := must[*certs.Identity](t)(certs.Generate("alice", time.Now()))
	if err := m.Revoke(t.Context(), h.list(t, 1, append(invented(0, 10), alice.Key())...)); err != nil {
		t.Fatal(err)
	}
	next := m.keys.Chain().Next()
	if err := next.AddPersonKey("alice", alice.PublicKey()); err != nil {
		t.Fatal(err)
	}
	ring := must[[]byte](t)(certs.SignRing(next, h.owner))
	full := errors.New("no space left on device")
	m.keep = func(join.Record) error { return full }
	if err := m.Advance(t.Context(), ring); !errors.Is(err, full) || m.Ring() != 1 {
		t.Errorf("a ring that could not be kept: %v, and ring %d is in force", err, m.Ring())
	}
	m.keep = h.keep
	if err := m.Advance(t.Context(), ring); err != nil {
		t.Fatal(err)
	}
	for when, m := range map[string]*membership{"now": m, "after a restart": h.starts(t)} {
		if p, ok := m.Keyring().Principal(alice.Key()); !ok || !p.Revoked {
			t.Errorf("%s: the key is known: %v, and revoked: %v", when, ok, p.Revoked)
		}
	}
	if kept := must[join.Record](t)(h.record()).Revoked; !slices.Equal(kept, []protocol.KeyID{alice.Key()}) {
		t.Errorf("%d keys are kept as revoked, want the one that a ring names", len(kept))
	}
}

// TestListOfAStolenKey: what a stolen key of a coordinator has revoked is revoked
// until the owners name the keys, and the list says nothing of the ring that removes
// the stolen key.
func TestListOfAStolenKey(t *testing.T) {
	h := newHousehold(t)
	if err := h.keep(h.first); err != nil {
		t.Fatal(err)
	}
	m := h.starts(t)
	honest := must[*certs.Identity](t)(certs.Generate("coordinator", time.Now()))
	if err := m.Revoke(t.Context(), h.list(t, protocol.MaxInteger, h.owner.Key(), honest.Key())); err != nil {
		t.Fatal(err)
	}
	advance := func(change func(*certs.Ring) error) {
		t.Helper()
		next := m.keys.Chain().Next()
		if err := change(&next); err != nil {
			t.Fatal(err)
		}
		if err := m.Advance(t.Context(), must[[]byte](t)(certs.SignRing(next, h.owner))); err != nil {
			t.Fatal(err)
		}
	}
	revoked := func(when string, owner bool) {
		t.Helper()
		for name, m := range map[string]*membership{when: m, when + ", after a restart": h.starts(t)} {
			if m.keys.Revoked(h.owner.Key()) != owner || m.keys.Revoked(honest.Key()) {
				t.Errorf("%s: the owner is revoked: %v, want %v; the next coordinator is: %v", name, m.keys.Revoked(h.owner.Key()), owner, m.keys.Revoked(honest.Key()))
			}
		}
	}
	advance(func(r *certs.Ring) error {
		r.Coordinators[0].Key = honest.PublicKey().Bytes()
		return nil
	})
	revoked("without the stolen key", true)
	advance(func(r *certs.Ring) error { return r.Reinstate(h.owner.Key()) })
	revoked("reinstated", false)
	if kept := must[join.Record](t)(h.record()).Revoked; len(kept) != 0 {
		t.Errorf("%d keys are kept as revoked", len(kept))
	}
}

// TestGrownEnrolment: an enrolment that an agent of before let grow beyond what is
// read starts again, and is small from then on.
func TestGrownEnrolment(t *testing.T) {
	h := newHousehold(t)
	r := h.first
	r.RevokedNumber, r.Revoked = 79, append(invented(0, 79*certs.MaxRevoked), h.owner.Key())
	b := must[[]byte](t)(json.Marshal(r))
	if err := os.WriteFile(h.membership(), rundir.AppendSum(b), 0o600); err != nil {
		t.Fatal(err)
	}
	if len(b) <= maxRecord {
		t.Fatalf("%d bytes are not too many", len(b))
	}
	m := h.starts(t)
	if !m.keys.Revoked(h.owner.Key()) || m.keys.RevokedNumber() != 79 {
		t.Errorf("the key of the ring is revoked: %v, by list %d", m.keys.Revoked(h.owner.Key()), m.keys.RevokedNumber())
	}
	kept := must[[]byte](t)(durable.ReadFile(h.membership(), maxRecord))
	if len(kept) > 64<<10 {
		t.Errorf("%d bytes are kept", len(kept))
	}
	if r := must[join.Record](t)(h.record()); !slices.Equal(r.Revoked, []protocol.KeyID{h.owner.Key()}) {
		t.Errorf("%d keys are kept as revoked, want that of the ring", len(r.Revoked))
	}
}

// TestTooLargeAnEnrolment: what could not be read again is not written.
func TestTooLargeAnEnrolment(t *testing.T) {
	h := newHousehold(t)
	if err := h.keep(h.first); err != nil {
		t.Fatal(err)
	}
	before := must[[]byte](t)(os.ReadFile(h.membership()))
	r := h.first
	r.Reason = strings.Repeat("x", maxRecord)
	if err := h.keep(r); !errors.Is(err, durable.ErrTooLarge) {
		t.Errorf("it is kept: %v, want %v", err, durable.ErrTooLarge)
	}
	if after := must[[]byte](t)(os.ReadFile(h.membership())); !slices.Equal(before, after) {
		t.Error("the refused enrolment has changed the one that is kept")
	}
}
