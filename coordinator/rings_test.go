package coordinator_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/hostler-io/hostler/coordinator/coordtest"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/coordinator/journal"
	"github.com/hostler-io/hostler/protocol"
)

// A running coordinator takes a ring, tells its hosts at once, and goes on.
func TestTakeRings(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		c := f.Coordinator()
		h.Auto(coordtest.Succeed(""))
		ring := f.Trust.NextRing(true)
		if _, err := c.TakeRings(t.Context(), core.Actor{Name: "eve", Role: core.RoleApprover}, ring); !errors.Is(err, core.ErrDenied) {
			t.Errorf("from an approver: %v", err)
		}
		forged, err := protocol.Seal(coordtest.NewKey("thief"), []byte(`{"hostler":"ring/1","number":2}`), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.TakeRings(t.Context(), f.Admin(), forged); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("a ring that no owner signed: %v", err)
		}
		term := c.Term()
		for range 2 { // the second time it is nothing new
			number, err := c.TakeRings(t.Context(), f.Admin(), ring)
			if err != nil || number != 2 {
				t.Fatalf("ring %d, %v", number, err)
			}
		}
		synctest.Wait()
		if said := f.Published("", protocol.ChannelRing); len(said) != 1 || !said[0].Retained || string(said[0].Payload) != string(ring) {
			t.Errorf("%d rings were published: %+v", len(said), said)
		}
		a := propose(t, f, h)
		want(t, f, a.ID, protocol.StateDone, protocol.ReasonOK)
		if c.Term() != term {
			t.Errorf("the term went from %s to %s without a start", term, c.Term())
		}
		believed(t, h)
	})
}

// TestRingIsRecordedWhoeverWaits: a ring that is in force stands in the audit log and
// among the events, even if whoever gave it is gone before.
func TestRingIsRecordedWhoeverWaits(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, _ *coordtest.Host) {
		c := f.Coordinator()
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		number, err := c.TakeRings(gone, f.Admin(), f.Trust.NextRing(true))
		if err != nil || number != 2 {
			t.Errorf("ring %d, %v", number, err)
		}
		rows, _, err := c.Journal().Audit(t.Context(), journal.Filter{Verb: "ring.take", Limit: 10})
		if err != nil || len(rows) != 1 {
			t.Errorf("records %+v, %v", rows, err)
		}
		events, err := c.Journal().Events(t.Context(), 0, 100)
		if err != nil || !slices.ContainsFunc(events, func(e core.Event) bool { return e.Type == "ring.taken" }) {
			t.Errorf("events %+v, %v", events, err)
		}
	})
}

// A coordinator that the owners took out says so and ends.
func TestRemovedCoordinatorEnds(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, _ *coordtest.Host) {
		if _, err := f.Coordinator().TakeRings(t.Context(), f.Admin(), f.Trust.NextRing(false)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := f.Ended(); !errors.Is(err, core.ErrRemoved) {
			t.Errorf("it ended with %v", err)
		}
		if said := f.Published("", protocol.ChannelRing); len(said) != 1 {
			t.Errorf("its hosts were told by %d messages", len(said))
		}
	})
}
