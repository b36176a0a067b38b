package queue_test

import (
	"slices"
	"testing"

	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/protocol"
)

// TestRules: the newest rules of alerts stay, and of one store of the coordinator an older
// set never takes their place; another store, which only the owners can bring, begins anew.
func TestRules(t *testing.T) {
	q := create(t)
	if r, err := queue.Rules(t.Context(), q); err != nil || r.Number != 0 {
		t.Fatalf("before any came: %+v, %v", r, err)
	}
	keep := func(number, want uint64) {
		t.Helper()
		at := down(t, q, protocol.StreamControl)
		kept, err := queue.KeepRules(t.Context(), q, at, protocol.AlertRules{Number: number, Rules: []string{"host load=4"}})
		if err != nil || kept.Number != want {
			t.Fatalf("number %d: %+v is in force, want %d; %v", number, kept, want, err)
		}
		if r, err := queue.Rules(t.Context(), q); err != nil || r.Number != want || !slices.Equal(r.Rules, kept.Rules) {
			t.Errorf("number %d: on the disk is %+v, %v", number, r, err)
		}
		if now := down(t, q, protocol.StreamControl); now.N != at.N+1 {
			t.Errorf("number %d: the next item is %d, want %d", number, now.N, at.N+1)
		}
	}
	keep(7, 7)
	keep(6, 7)
	keep(protocol.MaxInteger, protocol.MaxInteger) // of a thief
	keep(8, protocol.MaxInteger)
	if err := q.SawTerm(t.Context(), protocol.Term{Ring: 2, Counter: 1}, protocol.StoreID{3}, nil); err != nil {
		t.Fatal(err)
	}
	keep(9, 9)
}
