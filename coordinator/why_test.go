package coordinator_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler-io/hostler/coordinator/coordtest"
	"github.com/hostler-io/hostler/coordinator/explain"
	"github.com/hostler-io/hostler/protocol"
)

func why(t *testing.T, f *coordtest.Fleet, id protocol.ActionID) *explain.Waiting {
	t.Helper()
	a, err := f.Coordinator().Actions().Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	w, err := f.Coordinator().Explain().Why(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// TestWhy follows an action through what it may wait for.
func TestWhy(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		expect := func(id protocol.ActionID, word protocol.WaitsFor, text string) {
			t.Helper()
			if w := why(t, f, id); w == nil || w.For != word || !strings.Contains(w.Text, text) {
				t.Errorf("it waits for %+v, want %s: %q", w, word, text)
			}
		}
		h.Goodbye()
		after(3 * time.Hour)
		a := propose(t, f, h)
		expect(a.ID, explain.WaitsHost, "last seen 3 h ago")
		h.Connect()
		o := order(t, h)
		expect(a.ID, explain.WaitsReceipt, "its order was sent")
		<-h.Controls() // the question that nobody answers
		r := o.Started(h)
		r.Event, r.State, r.Attempt = protocol.EventAccept, protocol.StateNew, 0
		h.Report(r)
		synctest.Wait()
		begin := time.Now()
		expect(a.ID, explain.WaitsUnknown, "has not told why")
		if d := time.Since(begin); d != time.Second {
			t.Errorf("a host that says nothing is waited for %s", d)
		}
		<-h.Controls()
		r.Event, r.State = protocol.EventStart, protocol.StateRunning
		r.Attempt = 1
		h.Report(r)
		synctest.Wait()
		expect(a.ID, explain.WaitsEnd, "it runs")
		h.Report(o.Done())
		synctest.Wait()
		if w := why(t, f, a.ID); w != nil {
			t.Errorf("what has ended waits for %+v", w)
		}
	})
}

// TestWhyAsksTheHost has a host that answers, and a neighbour that lies about it.
func TestWhyAsksTheHost(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		first, second := propose(t, f, h), propose(t, f, h)
		for range 2 {
			o := order(t, h)
			r := o.Started(h)
			r.Event, r.State, r.Attempt = protocol.EventAccept, protocol.StateNew, 0
			h.Report(r)
		}
		synctest.Wait()
		told := protocol.Report{
			Action: second.ID, Digest: second.Digest, Event: protocol.EventTell, State: protocol.StateNew, AtMS: 77, AcceptSeq: 2,
			Waits: &protocol.Waits{For: protocol.WaitsLane, Action: first.ID},
		}
		liar := f.AddHost("liar")
		liar.Connect()
		synctest.Wait()
		lie := told
		lie.Waits = &protocol.Waits{For: protocol.WaitsDisk}
		liar.Report(lie)
		synctest.Wait()
		answer := time.AfterFunc(300*time.Millisecond, func() { h.Report(told) })
		defer answer.Stop()
		begin := time.Now()
		w := why(t, f, second.ID)
		if w == nil || w.For != protocol.WaitsLane || w.Action != first.ID || w.ToldMS != 77 {
			t.Errorf("it waits for %+v, want the lane of %s", w, first.ID)
		}
		if d := time.Since(begin); d > 500*time.Millisecond {
			t.Errorf("an answer took %s", d)
		}
		if n := len(h.Controls()); n != 1 {
			t.Errorf("the host was asked %d times", n)
		}
		// Who asks again at once is told the same, and the host is not asked.
		if w := why(t, f, second.ID); w == nil || w.For != protocol.WaitsLane || len(h.Controls()) != 1 {
			t.Errorf("again: %+v, asked %d times", w, len(h.Controls()))
		}
		believed(t, h)
	})
}

// TestWhyHasWords for whatever a host may say that it waits for.
func TestWhyHasWords(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		for _, word := range []protocol.WaitsFor{
			protocol.WaitsLane, protocol.WaitsExclusive, protocol.WaitsShared, protocol.WaitsPlaces, protocol.WaitsRuns,
			protocol.WaitsSessions, protocol.WaitsDisk, protocol.WaitsStop, protocol.WaitsRing, protocol.WaitsInput,
		} {
			a := propose(t, f, h)
			o := order(t, h)
			r := o.Started(h)
			r.Event, r.State, r.Attempt = protocol.EventAccept, protocol.StateNew, 0
			h.Report(r)
			synctest.Wait()
			answer := time.AfterFunc(100*time.Millisecond, func() {
				h.Report(protocol.Report{
					Action: a.ID, Digest: a.Digest, Event: protocol.EventTell, State: protocol.StateNew, AtMS: 77, AcceptSeq: r.AcceptSeq,
					Waits: &protocol.Waits{For: word, Count: 3},
				})
			})
			w := why(t, f, a.ID)
			answer.Stop()
			if w == nil || w.For != word || w.Text == "" || strings.Contains(w.Text, "no words") {
				t.Errorf("%s: %+v", word, w)
			}
		}
	})
}

// TestWhyOfADegradedHost: an order that its host does not take, since its disk is full, waits
// for the disk. The host has said so in a heartbeat, and answers no question about it.
func TestWhyOfADegradedHost(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		h.Set(func(f *coordtest.Facts) { f.Info.Degraded = "the disk is full: 0 bytes are free" })
		h.Heartbeat()
		a := propose(t, f, h)
		order(t, h)
		synctest.Wait()
		if w := why(t, f, a.ID); w == nil || w.For != protocol.WaitsDisk || !strings.Contains(w.Text, "accepts nothing new: the disk is full") || w.ToldMS == 0 {
			t.Errorf("it waits for %+v", w)
		}
		h.Set(func(f *coordtest.Facts) { f.Info.Degraded = "" })
		h.Heartbeat()
		synctest.Wait()
		if w := why(t, f, a.ID); w == nil || w.For != explain.WaitsReceipt {
			t.Errorf("when the disk has room again it waits for %+v", w)
		}
	})
}

// TestWhyOfOneBehindAnother: who asks about several actions of a host is answered about
// each, and not only about the first.
func TestWhyOfOneBehindAnother(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		ids := make([]protocol.ActionID, 4)
		for i := range ids {
			ids[i] = propose(t, f, h).ID
			o := order(t, h)
			r := o.Started(h)
			r.Event, r.State, r.Attempt = protocol.EventAccept, protocol.StateNew, 0
			h.Report(r)
			synctest.Wait()
		}
		go func() { // ends with the bubble's context
			for {
				select {
				case c := <-h.Controls():
					h.Report(protocol.Report{
						Action: c.IDs[0], Digest: protocol.Sum(coordtest.RunSpec("true")), Event: protocol.EventTell, State: protocol.StateNew, AtMS: 77, AcceptSeq: 1,
						Waits: &protocol.Waits{For: protocol.WaitsDisk},
					})
				case <-t.Context().Done():
					return
				}
			}
		}()
		begin := time.Now()
		for _, id := range ids {
			if w := why(t, f, id); w == nil || w.For != protocol.WaitsDisk {
				t.Errorf("%s waits for %+v", id, w)
			}
		}
		if d := time.Since(begin); d > time.Second { // of the bubble
			t.Errorf("it took %s", d)
		}
	})
}
