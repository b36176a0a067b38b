package storetest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/protocol"
)

// action returns an action with every field set, of host n modulo 3.
func action(n int) core.Action {
	return core.Action{
		ID: actionID(n), Host: protocol.HostID(fmt.Sprintf("edge-%d", n%3)), Kind: protocol.KindExec, Target: ctid(n % 5), Name: "web",
		Spec: []byte(`{"argv":["true"]}`), Digest: protocol.Sum([]byte{byte(n)}), State: protocol.States()[n%8],
		Reason: "exit", Detail: "why", Requester: "alice", CreatedMS: 1, UpdatedMS: 2, EndedMS: 3, ExpiresMS: int64(1000 - n),
		N: 4, AcceptSeq: 5, Attempt: 6, Cancelling: true, CancelBy: "bob", Exit: &protocol.Exit{Code: 137, Signal: 9, OOM: true, RunMS: 7},
		Output:   []protocol.Output{{FD: protocol.Stdout, Bytes: 8, Dropped: 9, DropAt: 10}, {FD: protocol.Stderr}},
		Conflict: []byte("other"), Corrected: true, Former: n%7 == 6,
		Batch: batchID(n % 4), SentMS: 11, ReceiptedMS: 12, AcceptedMS: 13, StartedMS: 14, FinishedMS: 15,
		Needs: []core.Need{{Persons: 2, From: []string{"ann", "bob"}, Not: "cat", Why: "rule 1"}},
		Approvals: []core.Approval{{
			Person: "ann", Key: protocol.KeyID{1}, IssuedMS: 11, NotBeforeMS: 12, ExpiresMS: 13,
			Signed: protocol.OrderApproval{Signed: []byte("envelope"), Index: 14, Path: []byte("path")}, GivenMS: 15, GivenBy: "desk",
		}},
	}
}

func batchID(n int) protocol.BatchID {
	return protocol.NewBatchID(int64(n), [10]byte{byte(n)})
}

func insert(t *testing.T, s core.Store, all ...core.Action) {
	t.Helper()
	update(t, s, func(tx core.Tx) error {
		for _, a := range all {
			if err := tx.Actions.Insert(a); err != nil {
				return err
			}
		}
		return nil
	})
}

func ids(all []core.Action) (ids []protocol.ActionID) {
	for _, a := range all {
		ids = append(ids, a.ID)
	}
	return ids
}

func testActions(t *testing.T, s core.Store) {
	missing(t, s, map[string]func(core.Tx) error{
		"action": func(tx core.Tx) error { _, err := tx.Actions.Get(actionID(1)); return err },
	})
	updateFails(t, s, core.ErrNotFound, func(tx core.Tx) error { return tx.Actions.Put(action(1)) })
	want := action(1)
	insert(t, s, want)
	updateFails(t, s, core.ErrExists, func(tx core.Tx) error { return tx.Actions.Insert(want) })
	read := func() (a core.Action) {
		t.Helper()
		view(t, s, func(tx core.Tx) error {
			return values(func() (core.Action, error) { return tx.Actions.Get(want.ID) }, &a)
		})
		return a
	}
	got := read()
	equal(t, "action", got, want)
	got.Spec[0], got.Exit.Code, got.Output[0].Bytes, got.Conflict[0] = 0, 0, 0, 0
	got.Needs[0].From[0], got.Approvals[0].Person, got.Approvals[0].Signed.Signed[0], got.Approvals[0].Signed.Path[0] = "", "", 0, 0
	equal(t, "action after a change of a copy", read(), want)
	want.Exit.Code, want.Approvals[0].Signed.Path[0] = 0, 0
	equal(t, "action after a change of the original", read(), action(1))

	want = core.Action{ID: want.ID, Host: "other", State: protocol.StatePendingApprove}
	update(t, s, func(tx core.Tx) error { return tx.Actions.Put(want) })
	equal(t, "replaced action", read(), want)
}

func testActionsList(t *testing.T, s core.Store) {
	var all []core.Action
	for n := range 240 {
		all = append(all, action(n))
	}
	bare := core.Action{ID: actionID(240), Host: "edge-0", State: protocol.StateDone} // without a target
	all = append(all, bare)
	insert(t, s, all...)
	slices.Reverse(all)

	hosts := []protocol.HostID{"", "edge-0", "edge-9"}
	targets := []protocol.CTID{{}, ctid(0), ctid(9)}
	states := [][]protocol.State{nil, {protocol.StateDone}, {protocol.StateRunning, protocol.StateNew, protocol.StateRunning}}
	check := func(f core.ActionFilter) {
		t.Helper()
		var want []core.Action
		for _, a := range all {
			if (f.Host == "" || a.Host == f.Host) && (f.Target.IsZero() || a.Target == f.Target) && (f.Batch.IsZero() || a.Batch == f.Batch) &&
				(f.States == nil || slices.Contains(f.States, a.State)) {
				want = append(want, a)
			}
		}
		f.Limit = 7
		got := pages(t, s, f.Limit, func(tx core.Tx, last core.Action) ([]core.Action, error) {
			f.Before = last.ID
			return tx.Actions.List(f)
		})
		equal(t, fmt.Sprintf("host %q target %v batch %v states %q", f.Host, f.Target, f.Batch, f.States), ids(got), ids(want))
	}
	for _, host := range hosts {
		for _, target := range targets {
			for _, in := range states {
				for _, batch := range []protocol.BatchID{{}, batchID(1), batchID(9)} {
					check(core.ActionFilter{Host: host, Target: target, States: in, Batch: batch})
				}
			}
		}
	}
	var page []core.Action
	view(t, s, func(tx core.Tx) error {
		return values(func() ([]core.Action, error) { return tx.Actions.List(core.ActionFilter{}) }, &page)
	})
	equal(t, "the default page", page, all[:100])
}

func testActionsFind(t *testing.T, s core.Store) {
	insert(t, s, action(3), action(1), action(2), action(256))
	all := []protocol.ActionID{actionID(1), actionID(2), actionID(3), actionID(256)}
	one := actionID(2).String()
	for _, c := range []struct {
		part  string
		limit int
		want  []protocol.ActionID
	}{
		{"", 10, all},
		{one[:8], 10, all},
		{one[:12], 10, all[:3]},
		{one[:9], 2, all[:2]},
		{one[:14], 10, all[1:2]},
		{one, 10, all[1:2]},
		{one + "0", 10, nil},
		{one[len(one)-12:], 10, all[1:2]},
		{one[len(one)-30:], 10, all[1:2]},
		{one[1:20], 10, nil},
		{"fff", 10, nil},
		{"%", 10, nil},
		{"", 0, nil},
		{"", -1, nil},
	} {
		var got []protocol.ActionID
		view(t, s, func(tx core.Tx) error {
			return values(func() ([]protocol.ActionID, error) { return tx.Actions.Find(c.part, c.limit) }, &got)
		})
		equal(t, fmt.Sprintf("find %q, limit %d", c.part, c.limit), got, c.want)
	}
}

func testActionsDue(t *testing.T, s core.Store) {
	for n := range 48 {
		a := action(n)
		switch {
		case n < 32:
			a.N = 0
		case n >= 40: // of the store before a recovery
			a.N, a.Former = 0, true
		}
		insert(t, s, a)
	}
	// Of the first 32, number 0, 8, 16 and 24 wait for approval and 1, 9, 17 and 25 for
	// the schedule; the later an action, the earlier it expires.
	want := func(numbers ...int) (ids []protocol.ActionID) {
		for _, n := range numbers {
			ids = append(ids, actionID(n))
		}
		return ids
	}
	check := func(what string, find func(core.Queue) ([]core.Action, error), want []protocol.ActionID) {
		t.Helper()
		var got []core.Action
		view(t, s, func(tx core.Tx) error {
			return values(func() ([]core.Action, error) { return find(tx.Queue) }, &got)
		})
		equal(t, what, ids(got), want)
	}
	unsent := func(host protocol.HostID, limit int) func(core.Queue) ([]core.Action, error) {
		return func(a core.Queue) ([]core.Action, error) {
			return a.Unsent(host, protocol.StreamOrder, limit)
		}
	}
	expired := func(now int64, limit int) func(core.Queue) ([]core.Action, error) {
		return func(a core.Queue) ([]core.Action, error) { return a.Expired(now, limit) }
	}
	check("unsent of edge-1", unsent("edge-1", 10), want(1, 25))
	check("one unsent of edge-1", unsent("edge-1", 1), want(1))
	check("unsent of edge-2", unsent("edge-2", 10), want(17))
	check("unsent without a limit", unsent("edge-1", -1), nil)
	check("unsent of nobody", unsent("edge-9", 10), nil)
	check("expired", expired(2000, 100), want(25, 24, 17, 16, 9, 8, 1, 0))
	check("expired at 984", expired(984, 100), want(25, 24, 17))
	check("two expired", expired(2000, 2), want(25, 24))
	check("expired without a limit", expired(2000, -1), nil)

	a := action(25)
	a.N = 1
	update(t, s, func(tx core.Tx) error { return tx.Actions.Put(a) })
	check("unsent after one was sent", unsent("edge-1", 10), want(1))
	now := action(1)
	now.N, now.Kind = 0, protocol.KindStopNow
	update(t, s, func(tx core.Tx) error { return tx.Actions.Put(now) })
	check("unsent orders beside one that waits for nobody", unsent("edge-1", 10), want())
	check("unsent controls", func(a core.Queue) ([]core.Action, error) {
		return a.Unsent("edge-1", protocol.StreamControl, 10)
	}, want(1))
	for _, n := range []int{66, 73, 65} { // asked for in this order, whatever their ids say
		late := action(n)
		late.Host, late.State, late.N, late.ExpiresMS = "edge-5", protocol.StatePendingSchedule, 0, 9000
		insert(t, s, late)
	}
	check("unsent in the order of their insertion", unsent("edge-5", 10), want(66, 73, 65))
	check("one unsent, the first that was inserted", unsent("edge-5", 1), want(66))
	check("expired after one was sent", expired(984, 100), want(24, 17))
}
