package actions

import (
	"testing"

	"github.com/hostler-io/hostler/protocol"
)

// TestMaxOpen: what stops a container at once has room beyond all others, and no more
// than a host has containers.
func TestMaxOpen(t *testing.T) {
	a := &Actions{cfg: Config{MaxOpen: 3}}
	for _, k := range protocol.Kinds() {
		info, _ := protocol.KindOf(k)
		want := 3
		if info.Lane == protocol.LanePreempt {
			want = 1003
		}
		if got := a.maxOpen(&protocol.Spec{Kind: k}); got != want {
			t.Errorf("%s is taken while there are less than %d, want %d", k, got, want)
		}
	}
}
