package coordinator_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler-io/hostler/coordinator/actions"
	"github.com/hostler-io/hostler/coordinator/coordtest"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/coordinator/explain"
	"github.com/hostler-io/hostler/coordinator/journal"
	"github.com/hostler-io/hostler/protocol"
)

func proposeMany(t *testing.T, f *coordtest.Fleet, r actions.BatchRequest) (protocol.BatchID, []actions.Proposed) {
	t.Helper()
	if r.Spec == nil {
		r.Spec = coordtest.RunSpec("true")
	}
	id, all, err := f.Coordinator().Actions().ProposeMany(t.Context(), f.Admin(), r)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	return id, all
}

// TestBatchAsksEachHostOnce asks again, as whoever lost the answer does, with a
// restart in between: each host has one order, and each action its one id.
func TestBatchAsksEachHostOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		hosts := []protocol.HostID{"edge-07"}
		for n := range 20 {
			other := f.AddHost(protocol.HostID(fmt.Sprintf("other-%d", n)))
			if n%2 == 0 {
				other.Connect()
			}
			hosts = append(hosts, other.ID)
		}
		synctest.Wait()
		key := coordtest.NewKey("bad")
		f.Put(core.Host{ID: "bad", State: core.HostApproved, Key: key.Key(), PublicKey: key.Certificate(), Quarantined: "two processes"})
		hosts = append(hosts, "bad", "nobody")
		id, first := proposeMany(t, f, actions.BatchRequest{Hosts: hosts})
		_, second := proposeMany(t, f, actions.BatchRequest{ID: id, Hosts: hosts})
		f.Restart()
		after(0)
		_, third := proposeMany(t, f, actions.BatchRequest{ID: id, Hosts: hosts})
		for i, host := range hosts {
			switch {
			case host == "bad" && !errors.Is(first[i].Refused, core.ErrDenied), host == "nobody" && !errors.Is(first[i].Refused, core.ErrNotFound):
				t.Errorf("%s: %+v", host, first[i])
			case host != "bad" && host != "nobody" && (first[i].Refused != nil || first[i].Host != host || first[i].Action.ID != id.Action(string(host)) || first[i].Action.Batch != id):
				t.Errorf("%s: %+v", host, first[i])
			}
			if second[i].Action.ID != first[i].Action.ID || third[i].Action.ID != first[i].Action.ID {
				t.Errorf("%s has three actions: %s, %s, %s", host, first[i].Action.ID, second[i].Action.ID, third[i].Action.ID)
			}
		}
		order(t, h)
		if n := len(h.Orders()); n > 0 {
			t.Errorf("edge-07 has %d orders more", n)
		}
		all, err := f.Coordinator().Actions().Batch(t.Context(), id)
		if err != nil || len(all) != 21 {
			t.Errorf("%d actions in the batch, %v", len(all), err)
		}
		believed(t, h)
	})
}

// TestBatchIsAudited: one record tells of the batch, and asking again adds none.
func TestBatchIsAudited(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		id, _ := proposeMany(t, f, actions.BatchRequest{Hosts: []protocol.HostID{h.ID}})
		proposeMany(t, f, actions.BatchRequest{ID: id, Hosts: []protocol.HostID{h.ID}})
		file := protocol.Sum([]byte("operations"))
		noted, all, err := f.Coordinator().Actions().ProposeMany(t.Context(), f.Admin(), actions.BatchRequest{Digest: file, Operations: 3})
		if err != nil || len(all) != 0 {
			t.Fatalf("%+v, %v", all, err)
		}
		page, _, err := f.Coordinator().Journal().Audit(t.Context(), journal.Filter{Verb: "batch.request", Limit: 10})
		if err != nil || len(page) != 2 {
			t.Fatalf("%+v, %v", page, err)
		}
		if r := page[1]; r.Object != noted.String() || r.Digest != file || fmt.Sprint(r.Detail["operations"]) != "3" {
			t.Errorf("noted %+v", r)
		}
		if r := page[0]; r.Object != id.String() || r.Digest != protocol.Sum(coordtest.RunSpec("true")) {
			t.Errorf("noted %+v", r)
		}
	})
}

func TestBatchNeedsARole(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		viewer := core.Actor{Name: "eve", Role: core.RoleViewer}
		_, _, err := f.Coordinator().Actions().ProposeMany(t.Context(), viewer, actions.BatchRequest{Hosts: []protocol.HostID{h.ID}, Spec: coordtest.RunSpec("true")})
		if !errors.Is(err, core.ErrDenied) {
			t.Errorf("a viewer asks: %v", err)
		}
		id, _ := proposeMany(t, f, actions.BatchRequest{Hosts: []protocol.HostID{h.ID}})
		if _, err := f.Coordinator().Actions().CancelBatch(t.Context(), viewer, id); !errors.Is(err, core.ErrDenied) {
			t.Errorf("a viewer cancels: %v", err)
		}
	})
}

// TestCancelBatch: what waits ends at once, what runs is asked to end, what has
// ended stays.
func TestCancelBatch(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		runs, away := f.AddHost("runs"), f.AddHost("away")
		runs.Connect()
		h.Auto(coordtest.Succeed(""))
		runs.Auto(func(h *coordtest.Host, o coordtest.Order) { h.Report(o.Started(h)) })
		synctest.Wait()
		id, _ := proposeMany(t, f, actions.BatchRequest{Hosts: []protocol.HostID{h.ID, runs.ID, away.ID}})
		open, err := f.Coordinator().Actions().CancelBatch(t.Context(), f.Admin(), id)
		if err != nil || len(open) != 2 {
			t.Fatalf("%+v, %v", open, err)
		}
		want := map[protocol.HostID]protocol.State{h.ID: protocol.StateDone, runs.ID: protocol.StateRunning, away.ID: protocol.StateCancelled}
		all, err := f.Coordinator().Actions().Batch(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range all {
			if a.State != want[a.Host] || a.Cancelling != (a.Host == runs.ID) {
				t.Errorf("%s is %s, cancelling %v", a.Host, a.State, a.Cancelling)
			}
		}
	})
}

// TestBatchInTurns: hosts of a batch go so many at a time as they come, over a restart
// too, and the first failure ends what was not sent, for hosts that are away as well.
func TestBatchInTurns(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		hosts := []*coordtest.Host{h}
		ids := []protocol.HostID{h.ID}
		for _, id := range []protocol.HostID{"one", "two", "three", "four"} {
			hosts, ids = append(hosts, f.AddHost(id)), append(ids, id)
		}
		id, _ := proposeMany(t, f, actions.BatchRequest{Hosts: ids, AtOnce: 2})
		action := func(n int) protocol.ActionID { return id.Action(string(ids[n])) }
		first := order(t, h)
		for _, late := range hosts[1:3] {
			late.Connect()
			after(2 * time.Second)
		}
		second := order(t, hosts[1])
		noOrder(t, hosts[2])
		if w := why(t, f, action(2)); w.For != explain.WaitsTurn || !strings.Contains(w.Text, "at most 2 under way") {
			t.Errorf("the third waits for %+v", w)
		}
		f.Restart()
		after(2 * time.Minute) // the hosts greet again
		noOrder(t, hosts[2])

		h.Report(first.Started(h))
		h.Report(first.Done())
		after(2 * time.Second)
		third := order(t, hosts[2])
		hosts[3].Connect()
		after(2 * time.Second)
		noOrder(t, hosts[3])

		failed := second.Done()
		failed.Event, failed.State, failed.Reason = protocol.EventFail, protocol.StateFailed, protocol.ReasonError
		hosts[1].Report(second.Started(hosts[1]))
		hosts[1].Report(failed)
		after(2 * time.Second)
		for n := 3; n <= 4; n++ {
			if a := want(t, f, action(n), protocol.StateCancelled, protocol.ReasonHalted); !strings.Contains(a.Detail, "host one did not end its part well") {
				t.Errorf("%s was halted because %q", a.Host, a.Detail)
			}
		}
		hosts[4].Connect()
		after(2 * time.Second)
		noOrder(t, hosts[3])
		noOrder(t, hosts[4])
		hosts[2].Report(third.Started(hosts[2]))
		hosts[2].Report(third.Done())
		want(t, f, action(2), protocol.StateDone, protocol.ReasonOK)
		for _, h := range hosts {
			believed(t, h)
		}
	})
}

// TestStepsAreDated: each step of an action has its time, by whose clock it was.
func TestStepsAreDated(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		a := propose(t, f, h)
		o := order(t, h)
		after(2e9) // the receipt came alone: the tick notes it
		got, err := f.Coordinator().Actions().Get(t.Context(), a.ID)
		if err != nil || got.SentMS == 0 || got.ReceiptedMS < got.SentMS || got.AcceptedMS != 0 {
			t.Errorf("after the receipt: %+v, %v", got, err)
		}
		r := o.Started(h)
		r.AcceptedMS, r.StartedMS = 5, 6
		h.Report(r)
		d := o.Done()
		d.AcceptedMS, d.StartedMS, d.EndedMS = 5, 6, 7
		h.Report(d)
		synctest.Wait()
		sent, receipted := got.SentMS, got.ReceiptedMS
		got, err = f.Coordinator().Actions().Get(t.Context(), a.ID)
		if err != nil || got.SentMS != sent || got.ReceiptedMS != receipted || got.AcceptedMS != 5 || got.StartedMS != 6 || got.FinishedMS != 7 || got.EndedMS < receipted {
			t.Errorf("after the end: %+v, %v", got, err)
		}
		// A report that comes with the receipt dates it as well.
		h.Auto(coordtest.Succeed(""))
		b := propose(t, f, h)
		if got, err = f.Coordinator().Actions().Get(t.Context(), b.ID); err != nil || got.ReceiptedMS == 0 {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

// TestOrderOfWhatWasAskedFor: a host that was away gets what it was asked in that order,
// whatever the ids say: those of a batch follow from the names of its parts.
func TestOrderOfWhatWasAskedFor(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		h.Silence()
		after(5 * time.Minute)
		id := protocol.NewBatchID(1, [10]byte{1, 2, 3})
		var want []protocol.ActionID
		for i := range 6 {
			part := id.Action(fmt.Sprint(i))
			want = append(want, part)
			if _, err := f.Coordinator().Actions().Propose(t.Context(), f.Admin(), actions.Request{ID: part, Host: h.ID, Spec: coordtest.RunSpec("true"), Batch: id}); err != nil {
				t.Fatal(err)
			}
		}
		if slices.IsSortedFunc(want, func(a, b protocol.ActionID) int { return bytes.Compare(a[:], b[:]) }) {
			t.Fatal("the ids of this batch prove nothing")
		}
		h.Connect()
		for i, part := range want {
			if o := order(t, h); o.Item.Action != part {
				t.Errorf("order %d is %s, want %s", i, o.Item.Action, part)
			}
		}
	})
}
