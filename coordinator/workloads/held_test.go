package workloads

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/unique"
)

// TestHeldBy: whatever comes and goes, each host has its own workloads, in the order of ids.
func TestHeldBy(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	held, on := make(heldBy), make(map[*workload]protocol.HostID)
	for i := range 500 {
		if len(on) > 0 && r.IntN(3) == 0 {
			for w := range on {
				held.remove(w)
				delete(on, w)
				break
			}
			continue
		}
		w := &workload{Workload: core.Workload{Workload: unique.Workload{CTID: protocol.CTID{byte(r.IntN(256)), 14: byte(i >> 8), 15: byte(i)}, Host: protocol.HostID([]string{"a", "b", "c"}[r.IntN(3)])}}}
		held.add(w)
		on[w] = w.Host
		total := 0
		for host, all := range held {
			total += len(all)
			if !slices.IsSortedFunc(all, func(a, b *workload) int { return byID(a.CTID, b.CTID) }) {
				t.Fatalf("those of host %s are in no order", host)
			}
			for _, w := range all {
				if on[w] != host {
					t.Fatalf("host %s has a workload of %q", host, on[w])
				}
			}
		}
		if total != len(on) {
			t.Fatalf("there are %d workloads, and hosts have %d", len(on), total)
		}
	}
}
