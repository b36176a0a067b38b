package storetest

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/fence"
)

// testFences puts, replaces and removes fences.
func testFences(t *testing.T, s core.Store) {
	want := func(what string, want ...fence.Op) {
		t.Helper()
		var got []fence.Op
		view(t, s, func(tx core.Tx) error { return values(tx.Fences.List, &got) })
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	put := func(o fence.Op) {
		t.Helper()
		update(t, s, func(tx core.Tx) error { return tx.Fences.Put(o) })
	}
	first := fence.Op{ID: "1", Host: "a", State: fence.Sending, Steps: []fence.Step{{Level: 1, Device: "x"}}, Log: []fence.Line{{AtMS: 1, Text: "off"}}}
	second := fence.Op{ID: "2", Host: "b", State: fence.Done, Proof: "it is off", Signed: []byte("x")}
	want("an empty store")
	put(second)
	put(first)
	want("two", first, second)
	first.State = fence.Failed
	put(first)
	want("one was replaced", first, second)
	for _, id := range []string{"2", "9"} {
		update(t, s, func(tx core.Tx) error { return tx.Fences.Remove(id) })
	}
	want("one was removed", first)
}
