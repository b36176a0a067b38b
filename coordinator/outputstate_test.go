package coordinator

import (
	"testing"

	"github.com/google/go-cmp/cmp"

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
	var gone []Range
	for _, r := range []Range{{10, 20}, {40, 50}, {45, 60}, {20, 21}, {0, 1}} {
		gone = withGone(gone, r)
	}
	if diff := cmp.Diff([]Range{{0, 1}, {10, 21}, {40, 60}}, gone); diff != "" {
		t.Error(diff)
	}
	s := OutputState{Have: 70, TailFrom: 90, TailTo: 95, Gone: gone}
	for offset, want := range map[int64][2]int64{0: {0, 1}, 1: {10, 0}, 10: {10, 21}, 21: {40, 0}, 59: {59, 60}, 60: {70, 0}, 70: {70, 0}, 92: {95, 0}, 95: {95, 0}} {
		if until, next := s.readable(offset); until != want[0] || next != want[1] {
			t.Errorf("from %d on: up to %d, gone up to %d, want %v", offset, until, next, want)
		}
	}
	for n := range int64(maxGone) {
		gone = withGone(gone, Range{100 + 10*n, 105 + 10*n})
	}
	if len(gone) != maxGone || gone[0] != (Range{0, 105}) {
		t.Errorf("%v", gone)
	}
}
