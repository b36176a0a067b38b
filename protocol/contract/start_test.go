package contract_test

import (
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/hostler-io/hostler/protocol/contract"
)

// TestNoCycle: whatever is asked for, one after the other, there is an order in which all
// can be started as long as cycles are refused, and what is refused would have left none.
func TestNoCycle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const n = 6
		after := make(map[string][]string)
		startable := func() bool {
			started := make(map[string]bool)
			for range n {
				for i := range n {
					id := strconv.Itoa(i)
					started[id] = !slices.ContainsFunc(after[id], func(o string) bool { return !started[o] })
				}
			}
			for i := range n {
				if !started[strconv.Itoa(i)] {
					return false
				}
			}
			return true
		}
		for range rapid.IntRange(1, 30).Draw(t, "changes") {
			id := strconv.Itoa(rapid.IntRange(0, n-1).Draw(t, "id"))
			list := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) string { return strconv.Itoa(rapid.IntRange(0, n-1).Draw(t, "after")) }), 0, 3).Draw(t, "list")
			way := contract.Cycle(id, list, func(at string) []string { return after[at] })
			before := after[id]
			after[id] = list
			if startable() != (way == nil) {
				t.Fatalf("%s after %v: the way %v, with %v", id, list, way, after)
			}
			if way != nil {
				if way[0] != id || way[len(way)-1] != id || len(way) < 2 {
					t.Fatalf("the way %v does not lead from %s to itself", way, id)
				}
				after[id] = before
			}
		}
	})
}
