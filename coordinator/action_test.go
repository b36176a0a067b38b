package coordinator_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler-io/hostler/coordinator/actions"
	"github.com/hostler-io/hostler/coordinator/coordtest"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/protocol"
)

// inBubble runs a test on virtual time with a fleet of one connected host.
func inBubble(t *testing.T, test func(*testing.T, *coordtest.Fleet, *coordtest.Host)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := coordtest.New(t)
		h := f.AddHost("edge-07")
		h.Connect()
		synctest.Wait()
		test(t, f, h)
	})
}

// believed checks that a host had no reason to refuse anything.
func believed(t *testing.T, h *coordtest.Host) {
	t.Helper()
	synctest.Wait()
	for _, err := range h.Refused() {
		t.Errorf("the host refused: %v", err)
	}
}

// after lets virtual time pass.
func after(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func propose(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) core.Action {
	t.Helper()
	a, err := f.Coordinator().Actions().Propose(t.Context(), f.Admin(), actions.Request{Host: h.ID, Spec: coordtest.RunSpec("true")})
	if err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	return a
}

// order returns the next order that reached the host.
func order(t *testing.T, h *coordtest.Host) coordtest.Order {
	t.Helper()
	synctest.Wait()
	select {
	case o := <-h.Orders():
		return o
	default:
		t.Fatal("no order reached the host")
		panic("unreachable")
	}
}

func noOrder(t *testing.T, h *coordtest.Host) {
	t.Helper()
	synctest.Wait()
	select {
	case o := <-h.Orders():
		t.Fatalf("order %s reached the host", o.Item.Action)
	default:
	}
}

// want checks where an action stands.
func want(t *testing.T, f *coordtest.Fleet, id protocol.ActionID, s protocol.State, r protocol.Reason) core.Action {
	t.Helper()
	synctest.Wait()
	a, err := f.Coordinator().Actions().Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if a.State != s || a.Reason != r {
		t.Fatalf("action is %s(%s), want %s(%s)", a.State, a.Reason, s, r)
	}
	return a
}

func TestActionGoesRound(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		a := propose(t, f, h)
		o := order(t, h)
		if o.Item.Action != a.ID || string(o.Item.Spec) != string(a.Spec) || o.Item.Requester != "admin" {
			t.Errorf("ordered %+v, want action %s", o.Item, a.ID)
		}
		if left := o.Header.LeftMS; left <= 23*time.Hour.Milliseconds() || left > 24*time.Hour.Milliseconds() {
			t.Errorf("the start budget left is %d ms, want about a day", left)
		}
		want(t, f, a.ID, protocol.StatePendingSchedule, "")
		h.Report(o.Started(h))
		want(t, f, a.ID, protocol.StateRunning, "")
		h.Report(o.Done())
		got := want(t, f, a.ID, protocol.StateDone, protocol.ReasonOK)
		if got.Exit == nil || got.EndedMS == 0 || got.AcceptSeq != 1 || got.Attempt != 1 {
			t.Errorf("the end is incomplete: %+v", got)
		}
		believed(t, h)
	})
}

func TestHostOnlineAfterGreeting(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		v, err := f.Coordinator().Members().Host(t.Context(), h.ID)
		if err != nil || v.Connectivity != core.Online || v.Inventory.Host.Hostname != "edge-07.example" {
			t.Errorf("host is %+v, %v", v, err)
		}
	})
}
