package core

import (
	"fmt"
	"time"

	"github.com/hostler-io/hostler/protocol"
)

// maxAhead is how far the clock of a person may be ahead of ours. Hosts keep the newest
// date that a person has signed and count nothing before it, so one signature from the
// future would outlaw those of the present.
const maxAhead = time.Hour

// SignedToday refuses what a person has signed in the future; lifeMS is the present, see
// [Base.LifeMS].
func SignedToday(issuedMS, lifeMS int64) error {
	if issuedMS <= lifeMS+maxAhead.Milliseconds() {
		return nil
	}
	when := func(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339) }
	return fmt.Errorf("it was signed at %s, and here it is %s: set the clock of the machine that signs, and sign again", when(issuedMS), when(lifeMS))
}

// OrderItem returns what an order says of an action.
func OrderItem(a *Action) protocol.OrderItem {
	it := protocol.OrderItem{Action: a.ID, Spec: a.Spec, Requester: a.Requester, CreatedMS: a.CreatedMS}
	for _, g := range a.Approvals {
		it.Approvals = append(it.Approvals, g.Signed)
	}
	return it
}
