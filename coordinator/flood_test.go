package coordinator_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler-io/hostler/coordinator/coordtest"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/coordinator/storetest"
	"github.com/hostler-io/hostler/protocol"
)

// A host that says hello without end, each time as if on a new connection, gets
// its share of answers, and the journal its share of events.
func TestHellosWithoutEnd(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		after(10 * time.Second)
		answers := len(f.Published(h.ID, protocol.ChannelReceipt))
		events, err := f.Coordinator().Journal().LastEvent(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for range 200 {
			h.Connect()
			synctest.Wait()
		}
		if n := len(f.Published(h.ID, protocol.ChannelReceipt)) - answers; n > 20 {
			t.Errorf("%d receipts within no time", n)
		}
		after(time.Second)
		now, err := f.Coordinator().Journal().LastEvent(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if now-events > 20 {
			t.Errorf("%d events within a second", now-events)
		}
		// It is heard as soon as it comes to rest.
		after(10 * time.Second)
		h.Auto(coordtest.Succeed(""))
		a := propose(t, f, h)
		want(t, f, a.ID, protocol.StateDone, protocol.ReasonOK)
	})
}

func TestAlertsWithoutEnd(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		for i := range 1100 {
			h.Alert(protocol.Alert{AlertInfo: protocol.AlertInfo{ID: fmt.Sprintf("made/up/%d", i), Severity: "warning", Text: "again", SinceMS: 1}, Raised: true})
			if i%100 == 99 {
				synctest.Wait()
			}
		}
		after(10 * time.Second)
		v, err := f.Coordinator().Members().Host(t.Context(), h.ID)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(v.Inventory.Alerts); n != 1000 {
			t.Errorf("%d alerts are listed, want 1000 at most", n)
		}
	})
}

func TestOldEventsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const kept, more = 100_000, 2500
		store := storetest.NewMem(storetest.Faults{})
		err := store.Update(t.Context(), func(tx core.Tx) error {
			for range kept + more {
				if _, err := tx.Events.Append(core.Event{AtMS: 1, Type: "test", Data: []byte("{}")}); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		f := coordtest.NewOn(t, store)
		after(10 * time.Second)
		first, err := f.Coordinator().Journal().Events(t.Context(), 0, 1)
		if err != nil || len(first) != 1 || first[0].ID != more+1 {
			t.Errorf("the oldest event is %+v, %v, want number %d", first, err, more+1)
		}
	})
}

// TestAThousandWait fills the list of those who wait for a person: the next one
// is turned away for now, and comes in as soon as there is room.
func TestAThousandWait(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, _ *coordtest.Host) {
		for i := range 1000 {
			if err := offer(t, f, protocol.HostID(fmt.Sprintf("new-%d", i)), invite(t, f), nil); err != nil {
				t.Fatal(err)
			}
		}
		code := invite(t, f)
		if err := offer(t, f, "late", code, nil); !errors.Is(err, core.ErrUnavailable) {
			t.Errorf("one more than are kept: %v", err)
		}
		if _, err := f.Coordinator().Members().DenyEnrolment(t.Context(), f.Admin(), "new-7", "not ours"); err != nil {
			t.Fatal(err)
		}
		if err := offer(t, f, "late", code, nil); err != nil {
			t.Errorf("when there is room: %v", err)
		}
		pending, err := f.Coordinator().Members().Enrolments(t.Context(), core.EnrolmentPending)
		if err != nil || len(pending) != 1000 {
			t.Errorf("%d hosts wait, %v, want 1000", len(pending), err)
		}
	})
}
