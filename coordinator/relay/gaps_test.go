package relay

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/protocol"
)

// TestCreditWaitsForTheDisk: the host may forget what it is not asked for any
// more, so it is asked for what was written and is not durable.
func TestCreditWaitsForTheDisk(t *testing.T) {
	o := &output{begun: true, followers: map[*reader]int64{{}: 3000}}
	o.held.Have, o.next.Have = 1000, 3000
	if offset, window := o.wants(); offset != 1000 || window != protocol.ChunkWindow {
		t.Errorf("the host is asked for %d bytes from %d on", window, offset)
	}
}

func TestGone(t *testing.T) {
	var gone []core.Range
	for _, r := range []core.Range{{From: 10, To: 20}, {From: 40, To: 50}, {From: 45, To: 60}, {From: 20, To: 21}, {From: 0, To: 1}} {
		gone = withGone(gone, r)
	}
	if diff := cmp.Diff([]core.Range{{From: 0, To: 1}, {From: 10, To: 21}, {From: 40, To: 60}}, gone); diff != "" {
		t.Error(diff)
	}
	s := core.OutputState{Have: 70, TailFrom: 90, TailTo: 95, Gone: gone}
	for offset, want := range map[int64][2]int64{0: {0, 1}, 1: {10, 0}, 10: {10, 21}, 21: {40, 0}, 59: {59, 60}, 60: {70, 0}, 70: {70, 0}, 92: {95, 0}, 95: {95, 0}} {
		if until, next := s.Readable(offset); until != want[0] || next != want[1] {
			t.Errorf("from %d on: up to %d, gone up to %d, want %v", offset, until, next, want)
		}
	}
	for n := range int64(maxGone) {
		gone = withGone(gone, core.Range{From: 100 + 10*n, To: 105 + 10*n})
	}
	if len(gone) != maxGone || gone[0] != (core.Range{From: 0, To: 105}) {
		t.Errorf("%v", gone)
	}
}
