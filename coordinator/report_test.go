package coordinator_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler-io/hostler/coordinator/actions"
	"github.com/hostler-io/hostler/coordinator/coordtest"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/coordinator/storetest"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/san"
	"strings"
	"sync/atomic"
)

func TestReportsTakeEffectOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		a := propose(t, f, h)
		o := order(t, h)
		// No receipt comes through, so the host sends both reports again and
		// again.
		h.Deaf(func(ch protocol.Channel) bool { return ch == protocol.ChannelReceipt })
		h.Report(o.Started(h))
		h.Report(o.Done())
		h.Alert(protocol.Alert{AlertInfo: protocol.AlertInfo{ID: "disk/full", Severity: "warning", Text: "full", SinceMS: 1}, Raised: true})
		after(time.Minute)
		want(t, f, a.ID, protocol.StateDone, protocol.ReasonOK)
		events, err := f.Coordinator().Journal().Events(t.Context(), 0, 100)
		if err != nil {
			t.Fatal(err)
		}
		n := make(map[string]int)
		for _, e := range events {
			n[e.Type]++
		}
		if n["action.state"] != 3 || n["alert.raised"] != 1 {
			t.Errorf("events %v, want 3 changes of state (scheduled, running, done) and 1 alert", n)
		}
	})
}

func TestBrokenReportBlocksNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		a := propose(t, f, h)
		o := order(t, h)
		h.ReportBytes([]byte(`{"action":"nonsense"}`))
		h.Report(o.Started(h))
		h.Report(o.Done())
		want(t, f, a.ID, protocol.StateDone, protocol.ReasonOK)
		if n := f.Coordinator().Stats().Refused[protocol.ErrPayload]; n != 1 {
			t.Errorf("%d refusals were counted, want 1", n)
		}
	})
}

func TestReportOfAnotherHost(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		thief := f.AddHost("edge-66")
		thief.Connect()
		a := propose(t, f, h)
		o := order(t, h)
		thief.Report(o.Started(thief))
		thief.Report(o.Done())
		want(t, f, a.ID, protocol.StatePendingSchedule, "")
	})
}

// tell answers what the host is asked: its record, or that it has none.
func tell(t *testing.T, h *coordtest.Host, id protocol.ActionID, r protocol.Report) {
	t.Helper()
	synctest.Wait()
	for len(h.Controls()) > 0 {
		c := <-h.Controls()
		for _, asked := range c.IDs {
			if asked == id {
				r.Action, r.Event = id, protocol.EventTell
				h.Report(r)
				return
			}
		}
	}
	t.Fatalf("the host was not asked about action %s", id)
}

func TestLostNeedsAnAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		a := propose(t, f, h)
		o := order(t, h)
		h.Silence()
		after(30 * time.Hour) // past its start budget: no clock makes LOST
		want(t, f, a.ID, protocol.StatePendingSchedule, "")
		h.Connect()
		tell(t, h, a.ID, protocol.Report{HaveOrder: o.Header.N})
		want(t, f, a.ID, protocol.StateLost, protocol.ReasonUnknown)
		// Late evidence corrects it, once.
		h.Report(o.Started(h))
		h.Report(o.Done())
		if got := want(t, f, a.ID, protocol.StateDone, protocol.ReasonOK); !got.Corrected {
			t.Error("the correction is not visible")
		}
		believed(t, h)
	})
}

func TestUnknownBeforeOrderArrivedIsNotLost(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		a := propose(t, f, h)
		o := order(t, h)
		h.Report(protocol.Report{Action: a.ID, Event: protocol.EventTell, HaveOrder: o.Header.N - 1})
		want(t, f, a.ID, protocol.StatePendingSchedule, "")
	})
}

// TestUnknownWithoutANumberIsNotLost: what waits here for its host cannot be
// known there, whatever the host has.
func TestUnknownWithoutANumberIsNotLost(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		h.Silence()
		after(2 * time.Minute)
		a := propose(t, f, h)
		h.Report(protocol.Report{Action: a.ID, Event: protocol.EventTell, HaveOrder: 100})
		if got := want(t, f, a.ID, protocol.StatePendingSchedule, ""); got.N != 0 {
			t.Fatalf("it was given number %d for a host that is silent", got.N)
		}
		h.Connect()
		if o := order(t, h); o.Item.Action != a.ID {
			t.Errorf("ordered: %s", o.Item.Action)
		}
	})
}

func TestAnswerTellsOfALaterAttempt(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		a := propose(t, f, h)
		o := order(t, h)
		h.Report(o.Started(h))
		want(t, f, a.ID, protocol.StateRunning, "")
		h.Report(protocol.Report{Action: a.ID, Digest: o.Digest(), Event: protocol.EventTell, State: protocol.StateRunning, Attempt: 2})
		if got := want(t, f, a.ID, protocol.StateRunning, ""); got.Attempt != 2 {
			t.Errorf("attempt %d, the host tells of 2", got.Attempt)
		}
	})
}

func TestLateAnswerAboutWhatEndedBlocksNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		a := propose(t, f, h)
		o := order(t, h)
		h.Report(o.Started(h))
		h.Report(o.Done())
		want(t, f, a.ID, protocol.StateDone, protocol.ReasonOK)
		// Asked before the end was known, answered after the record was
		// forgotten.
		h.Report(protocol.Report{Action: a.ID, Event: protocol.EventTell, HaveOrder: 1})
		b := propose(t, f, h)
		o = order(t, h)
		h.Report(o.Started(h))
		h.Report(o.Done())
		want(t, f, b.ID, protocol.StateDone, protocol.ReasonOK)
		want(t, f, a.ID, protocol.StateDone, protocol.ReasonOK)
	})
}

func TestConflictOfWhatHasEndedIsKeptOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		a := propose(t, f, h)
		o := order(t, h)
		h.Report(o.Started(h))
		h.Report(o.Done())
		spec := coordtest.RunSpec("something", "else")
		other := protocol.Report{
			Action: a.ID, Spec: spec, Digest: protocol.Sum(spec), Event: protocol.EventTell, State: protocol.StateDone, Reason: protocol.ReasonOK, Attempt: 1,
		}
		h.Report(other)
		h.Report(other)
		if got := want(t, f, a.ID, protocol.StateDone, protocol.ReasonOK); got.Digest != other.Digest || string(got.Conflict) != string(a.Spec) {
			t.Errorf("kept: spec %s, instead of %s", got.Spec, got.Conflict)
		}
		events, err := f.Coordinator().Journal().Events(t.Context(), 0, 100)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, e := range events {
			if e.Type == "ACTION_CONFLICT" {
				n++
			}
		}
		if n != 1 {
			t.Errorf("the conflict was told %d times, want once", n)
		}
	})
}

func TestHostsRecordWinsConflict(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		a := propose(t, f, h)
		o := order(t, h)
		other := coordtest.RunSpec("something", "else")
		r := o.Started(h)
		r.Digest, r.Spec, r.Requester = protocol.Sum(other), other, "root"
		h.Report(r)
		got := want(t, f, a.ID, protocol.StateRunning, "")
		if got.Requester != "host:edge-07/root" {
			t.Errorf("what the host has was asked for by %s", got.Requester)
		}
		if string(got.Spec) != string(other) || got.Digest != protocol.Sum(other) || string(got.Conflict) != string(a.Spec) {
			t.Errorf("after the conflict it is %q, was %q", got.Spec, got.Conflict)
		}
	})
}

func TestActionOfTheHostItself(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		spec := coordtest.RunSpec("uptime")
		id := protocol.NewActionID(time.Now().UnixMilli(), [10]byte{7})
		h.Report(protocol.Report{
			Action: id, Digest: protocol.Sum(spec), Spec: spec, Requester: "root", Event: protocol.EventStart, State: protocol.StateRunning, AcceptSeq: h.Accept(), Attempt: 1,
		})
		got := want(t, f, id, protocol.StateRunning, "")
		if got.Requester != "host:edge-07/root" || got.Kind != protocol.KindRun {
			t.Errorf("taken over as %+v", got)
		}
	})
}

// TestIntentComesLater: a report about what nobody here asked for may come before the
// answer that tells what it is and whose.
func TestIntentComesLater(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		spec := coordtest.RunSpec("uptime")
		r := protocol.Report{
			Action: protocol.NewActionID(time.Now().UnixMilli(), [10]byte{7}), Digest: protocol.Sum(spec), Event: protocol.EventStart,
			State: protocol.StateRunning, AcceptSeq: h.Accept(), Attempt: 1,
		}
		h.Report(r)
		if got := want(t, f, r.Action, protocol.StateRunning, ""); len(got.Spec) > 0 || got.Requester != "host:edge-07" {
			t.Errorf("taken over as %+v", got)
		}
		r.Spec, r.Requester = spec, "ann"
		h.Report(r)
		if got := want(t, f, r.Action, protocol.StateRunning, ""); string(got.Spec) != string(spec) || got.Kind != protocol.KindRun || got.Requester != "host:edge-07/ann" {
			t.Errorf("learnt as %+v", got)
		}
	})
}

func TestRestartInTheMiddle(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		sent := propose(t, f, h)
		o := order(t, h)
		h.Report(o.Started(h))
		synctest.Wait()
		// Of the second one no acknowledgement comes back.
		h.Deaf(func(ch protocol.Channel) bool { return ch == protocol.ChannelOrder })
		unacked := propose(t, f, h)
		f.Stop()
		h.Report(o.Done()) // nobody hears this yet
		synctest.Wait()
		f.Restart()
		h.Deaf(nil)
		h.Auto(coordtest.Succeed(""))
		after(10 * time.Second)
		want(t, f, sent.ID, protocol.StateDone, protocol.ReasonOK)
		want(t, f, unacked.ID, protocol.StateDone, protocol.ReasonOK)
		if c := f.Coordinator().Term().Counter; c != 2 {
			t.Errorf("the second start is of term %d", c)
		}
		third := propose(t, f, h)
		want(t, f, third.ID, protocol.StateDone, protocol.ReasonOK)
		believed(t, h)
	})
}

func TestOrdersSurviveLoss(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		h.Deaf(func(ch protocol.Channel) bool { return ch == protocol.ChannelOrder })
		h.Auto(coordtest.Succeed(""))
		var all []protocol.ActionID
		for range 100 { // more than one window
			all = append(all, propose(t, f, h).ID)
		}
		h.Deaf(nil)
		after(2 * time.Minute)
		for _, id := range all {
			want(t, f, id, protocol.StateDone, protocol.ReasonOK)
		}
		believed(t, h)
	})
}

func TestExpiry(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		h.Goodbye()
		synctest.Wait()
		a := propose(t, f, h)
		after(24*time.Hour - time.Minute)
		want(t, f, a.ID, protocol.StatePendingSchedule, "")
		after(2 * time.Minute)
		want(t, f, a.ID, protocol.StateCancelled, protocol.ReasonExpired)
		h.Connect()
		noOrder(t, h)
	})
}

func TestBudgetCountsDown(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		h.Deaf(func(ch protocol.Channel) bool { return ch == protocol.ChannelOrder })
		propose(t, f, h)
		h.Break()
		after(25 * time.Hour)
		h.Deaf(nil)
		h.Connect()
		if o := order(t, h); o.Header.LeftMS != 0 {
			t.Errorf("an order given up has %d ms left, want none", o.Header.LeftMS)
		}
	})
}

func TestRevokedHost(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		a := propose(t, f, h)
		o := order(t, h)
		h.Report(o.Started(h))
		synctest.Wait()
		following := f.Coordinator().Actions().Follow(a.ID)
		defer following.Close()
		if err := f.Coordinator().Members().Revoke(t.Context(), f.Admin(), h.ID, "stolen"); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		if got, err := following.Wait(t.Context(), a, time.Minute); err != nil || got.State != protocol.StateLost || time.Since(begin) > 0 {
			t.Errorf("who waits is told %s after %v, %v; want LOST at once", got.State, time.Since(begin), err)
		}
		want(t, f, a.ID, protocol.StateLost, protocol.ReasonRemoved)
		h.Report(o.Done())
		want(t, f, a.ID, protocol.StateLost, protocol.ReasonRemoved)
		if cut := f.Cut(); len(cut) != 1 || cut[0] != (san.Name{Kind: san.Host, ID: "edge-07"}) {
			t.Errorf("cut: %v", cut)
		}
		_, err := f.Coordinator().Actions().Propose(t.Context(), f.Admin(), actions.Request{Host: h.ID, Spec: coordtest.RunSpec("true")})
		if !errors.Is(err, core.ErrDenied) {
			t.Errorf("an action for a revoked host: %v", err)
		}
		f.Restart()
		h.Connect()
		synctest.Wait()
		if n := f.Coordinator().Stats().Refused[protocol.ErrRevokedKey]; n == 0 {
			t.Error("its key is believed again after a restart")
		}
	})
}

func TestConnectivity(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		is := func(want core.Connectivity) {
			t.Helper()
			synctest.Wait()
			v, err := f.Coordinator().Members().Host(t.Context(), h.ID)
			if err != nil || v.Connectivity != want {
				t.Errorf("host is %s, %v, want %s", v.Connectivity, err, want)
			}
		}
		is(core.Online)
		h.Break()
		is(core.Online) // it has a moment to come back
		after(6 * time.Second)
		is(core.Late)
		h.Connect()
		is(core.Online)
		h.Goodbye()
		is(core.Goodbye)
		h.Connect()
		is(core.Online)
		h.Silence()
		after(50 * time.Second)
		is(core.Late)
		after(time.Minute)
		is(core.Offline)
		h.Connect()
		is(core.Online)
		h.Break()
		after(65 * time.Second) // since the last message it may be less than the silence that is allowed
		is(core.Offline)
		f.Restart()
		is(core.Unknown)
	})
}

// TestWaitingMessagesAreBoundedInBytes: a store that stands still does not let
// one host fill the memory; what was dropped comes again.
func TestWaitingMessagesAreBoundedInBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var held atomic.Pointer[chan struct{}]
		f := coordtest.NewOn(t, storetest.NewMem(storetest.Faults{Refuse: func() error {
			if gate := held.Load(); gate != nil {
				<-*gate
			}
			return nil
		}}))
		h := f.AddHost("edge-07")
		h.Connect()
		synctest.Wait()
		before := f.Coordinator().Stats().Dropped
		gate := make(chan struct{})
		held.Store(&gate)
		item := []byte(`{"pad":"` + strings.Repeat("x", 20<<10) + `"}`) // about 28 KiB as an envelope
		const items = 200
		h.ReportBytes(item)
		synctest.Wait() // its transaction is under way: what comes now waits behind it
		for range items - 1 {
			h.ReportBytes(item)
		}
		synctest.Wait()
		if dropped := f.Coordinator().Stats().Dropped - before; dropped < 20 {
			t.Errorf("%d of %d messages were dropped: more than 4 MiB wait", dropped, items)
		}
		held.Store(nil)
		close(gate)
		after(5 * time.Minute)
		events, err := f.Coordinator().Journal().Events(t.Context(), 0, 1000)
		if err != nil {
			t.Fatal(err)
		}
		rejected := 0
		for _, e := range events {
			if e.Type == "item.rejected" {
				rejected++
			}
		}
		if rejected != items {
			t.Errorf("%d of %d items were taken in the end", rejected, items)
		}
	})
}
