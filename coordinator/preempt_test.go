package coordinator_test

import (
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler-io/hostler/coordinator/actions"
	"github.com/hostler-io/hostler/coordinator/coordtest"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/stream"
)

func stopNow(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) core.Action {
	t.Helper()
	spec, err := json.Marshal(protocol.Spec{Kind: protocol.KindStopNow, Target: protocol.NewCTID(1, [10]byte{1})})
	if err != nil {
		t.Fatal(err)
	}
	a, err := f.Coordinator().Actions().Propose(t.Context(), f.Admin(), actions.Request{Host: h.ID, Spec: spec})
	if err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	return a
}

// carried returns the action of the next control.
func carried(t *testing.T, h *coordtest.Host) *protocol.OrderItem {
	t.Helper()
	select {
	case c := <-h.Controls():
		if c.Verb != protocol.VerbPreempt || c.Order == nil {
			t.Fatalf("control %+v", c)
		}
		return c.Order
	default:
		t.Fatal("no control reached the host")
	}
	return nil
}

// TestStopNowPassesOrders: orders that wait for their number, or for their receipt,
// keep it no longer than a cancel.
func TestStopNowPassesOrders(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		h.Deaf(func(ch protocol.Channel) bool { return ch == protocol.ChannelOrder })
		for range stream.Window + 5 {
			propose(t, f, h)
		}
		a := stopNow(t, f, h)
		if a.N == 0 { // it is entered with its number, and not looked for among those that wait
			t.Error("it is answered without its number")
		}
		o := carried(t, h)
		if o.Action != a.ID || o.Requester != "admin" || string(o.Spec) != string(a.Spec) {
			t.Errorf("it carries %+v", o)
		}
		h.Report(protocol.Report{Action: a.ID, Digest: a.Digest, Event: protocol.EventSucceed, State: protocol.StateDone, Reason: protocol.ReasonOK, AcceptSeq: h.Accept(), Attempt: 1})
		want(t, f, a.ID, protocol.StateDone, protocol.ReasonOK)
		believed(t, h)
	})
}

// TestStopNowWaitsForItsHost: it has a start budget as orders do, and can be
// cancelled as long as it was not sent.
func TestStopNowWaitsForItsHost(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		h.Goodbye()
		synctest.Wait()
		old, cancelled, sent := stopNow(t, f, h), stopNow(t, f, h), protocol.ActionID{}
		cancel(t, f, cancelled.ID)
		want(t, f, cancelled.ID, protocol.StateCancelled, protocol.ReasonCancelled)
		<-time.After(25 * time.Hour)
		want(t, f, old.ID, protocol.StateCancelled, protocol.ReasonExpired)
		sent = stopNow(t, f, h).ID
		h.Connect()
		synctest.Wait()
		if o := carried(t, h); o.Action != sent {
			t.Errorf("it carries %s, want %s", o.Action, sent)
		}
		if n := len(h.Controls()); n != 0 {
			t.Errorf("%d more controls", n)
		}
	})
}

// TestStopNowIsLostByItsOwnStream: how far the orders have come says nothing about
// an action that came as a control.
func TestStopNowIsLostByItsOwnStream(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		h.Deaf(func(ch protocol.Channel) bool { return ch == protocol.ChannelControl })
		a := stopNow(t, f, h)
		h.Report(protocol.Report{Action: a.ID, Event: protocol.EventTell, HaveOrder: 1000})
		want(t, f, a.ID, protocol.StatePendingSchedule, "")
		h.Report(protocol.Report{Action: a.ID, Event: protocol.EventTell, HaveControl: 1})
		want(t, f, a.ID, protocol.StateLost, protocol.ReasonUnknown)
	})
}

// TestReissue: what a conflict kept from being done is asked for under a new id, and
// under the same new id once.
func TestReissue(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		c := f.Coordinator()
		a := propose(t, f, h)
		order(t, h)
		as := c.Actions().NewActionID()
		if _, err := c.Actions().Reissue(t.Context(), f.Admin(), a.ID, as); !errors.Is(err, core.ErrConflict) {
			t.Errorf("without a conflict: %v", err)
		}
		theirs := coordtest.RunSpec("false")
		h.Report(protocol.Report{
			Action: a.ID, Digest: protocol.Sum(theirs), Spec: theirs, Requester: "root", Event: protocol.EventAccept, State: protocol.StateNew, AcceptSeq: h.Accept(),
		})
		got := want(t, f, a.ID, protocol.StateNew, "")
		if string(got.Spec) != string(theirs) || string(got.Conflict) != string(a.Spec) {
			t.Errorf("here: %s, instead of %s", got.Spec, got.Conflict)
		}
		if _, err := c.Actions().Reissue(t.Context(), f.Admin(), a.ID, a.ID); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("as itself: %v", err)
		}
		for range 2 {
			again, err := c.Actions().Reissue(t.Context(), f.Admin(), a.ID, as)
			if err != nil || again.ID != as || string(again.Spec) != string(a.Spec) || again.Conflict != nil {
				t.Errorf("again: %+v, %v", again, err)
			}
			synctest.Wait()
		}
		if o := order(t, h); o.Item.Action != as || string(o.Item.Spec) != string(a.Spec) {
			t.Errorf("the host is asked for %s: %s", o.Item.Action, o.Item.Spec)
		}
		noOrder(t, h)
	})
}
