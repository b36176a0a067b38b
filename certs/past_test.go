package certs_test

import (
	"testing"

	"github.com/hostler-io/hostler/certs"
)

// TestPastForgetsNoCoordinator: what looks back finds who was removed, and who
// obeys does not.
func TestPastForgetsNoCoordinator(t *testing.T) {
	f := newFleet(t, 1, 1)
	old, _ := f.withCoordinator() // in ring 2
	next := f.chain.Next()
	next.Coordinators = []certs.Coordinator{}
	if got := f.chain.RemovedCoordinator(); got != 0 {
		t.Errorf("ring %d has removed a coordinator, and none has", got)
	}
	f.advance(f.sign(next, f.owners...))
	if got := f.chain.RemovedCoordinator(); got != 3 {
		t.Errorf("ring %d has removed the coordinator, want 3", got)
	}
	now, _ := f.withCoordinator() // in ring 4
	keys := certs.NewKeys(f.chain)
	past := keys.Past()
	if _, ok := keys.Principal(old.Key()); ok {
		t.Error("a removed coordinator is known to who obeys")
	}
	for _, id := range []*certs.Identity{old, now} {
		if p, ok := past.Principal(id.Key()); !ok || !p.Can("coordinator") || p.Key == nil {
			t.Errorf("key %s: %+v, %v", id.Key(), p, ok)
		}
	}
	if p, ok := past.Principal(f.owners[0].Key()); !ok || p.Can("coordinator") {
		t.Errorf("an owner: %+v, %v", p, ok)
	}
	if _, ok := past.Principal(newIdentity(t, "stranger").Key()); ok {
		t.Error("a stranger is known")
	}
	for ring, want := range map[uint64][2]bool{1: {}, 2: {true, false}, 3: {}, 4: {false, true}, 5: {}} {
		if got := [2]bool{past.WasCoordinator(ring, old.Key()), past.WasCoordinator(ring, now.Key())}; got != want {
			t.Errorf("ring %d: %v, want %v", ring, got, want)
		}
	}
	if past.Ring() != 4 {
		t.Errorf("ring %d", past.Ring())
	}
}
