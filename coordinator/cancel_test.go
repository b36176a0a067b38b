package coordinator_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler-io/hostler/coordinator/coordtest"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/protocol"
)

func cancel(t *testing.T, f *coordtest.Fleet, id protocol.ActionID) core.Action {
	t.Helper()
	a, err := f.Coordinator().Actions().Cancel(t.Context(), f.Admin(), id)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	return a
}

func TestCancelBeforeSend(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		h.Goodbye()
		synctest.Wait()
		a := propose(t, f, h)
		cancel(t, f, a.ID)
		want(t, f, a.ID, protocol.StateCancelled, protocol.ReasonCancelled)
		h.Connect()
		noOrder(t, h)
	})
}

func TestCancelAfterSend(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		a := propose(t, f, h)
		o := order(t, h)
		h.Report(o.Started(h))
		synctest.Wait()
		if got := cancel(t, f, a.ID); got.State != protocol.StateRunning || !got.Cancelling || got.CancelBy != "admin" {
			t.Errorf("cancelled while it ran, it is %+v", got)
		}
		cancel(t, f, a.ID) // once more asks nothing more
		if n := len(h.Controls()); n != 1 {
			t.Fatalf("%d controls, want 1", n)
		}
		if c := <-h.Controls(); c.Verb != protocol.VerbCancel || c.Action != a.ID {
			t.Errorf("control: %+v", c)
		}
		h.Report(o.Cancelled())
		want(t, f, a.ID, protocol.StateCancelled, protocol.ReasonCancelled)
		believed(t, h)
	})
}

func TestFinishWinsOverCancel(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		a := propose(t, f, h)
		o := order(t, h)
		h.Report(o.Started(h))
		synctest.Wait()
		cancel(t, f, a.ID)
		h.Report(o.Done())
		if got := want(t, f, a.ID, protocol.StateDone, protocol.ReasonOK); got.Cancelling {
			t.Error("it is shown as cancelling although it has ended")
		}
	})
}

func TestCancelAgainWhileOffline(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		a := propose(t, f, h)
		o := order(t, h)
		h.Break()
		synctest.Wait()
		cancel(t, f, a.ID)
		if len(h.Controls()) > 0 {
			t.Fatal("a control reached a host that is not there")
		}
		after(time.Minute)
		h.Connect()
		synctest.Wait()
		found := false
		for len(h.Controls()) > 0 {
			c := <-h.Controls()
			found = found || c.Verb == protocol.VerbCancel
		}
		if !found {
			t.Fatal("the cancel did not reach the host when it came back")
		}
		h.Report(o.Cancelled())
		want(t, f, a.ID, protocol.StateCancelled, protocol.ReasonCancelled)
	})
}
