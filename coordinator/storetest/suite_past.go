package storetest

import (
	"testing"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/window"
)

func testPast(t *testing.T, s core.Store) {
	ends := func(n int, at int64) core.Action {
		a := action(n)
		a.EndedMS, a.State = at, protocol.StateDone
		return a
	}
	open := ends(4, 0)
	open.State = protocol.StateRunning
	all := []core.Action{ends(1, 30), ends(2, 10), ends(3, 10), open}
	insert(t, s, all...)
	update(t, s, func(tx core.Tx) error {
		for _, a := range all {
			if err := tx.Outputs.Put(core.OutputState{Action: a.ID, Attempt: 1, FD: protocol.Stdout, Held: window.Held{Have: 5}}); err != nil {
				return err
			}
		}
		for _, e := range []core.Enrolment{{ID: "a", DecidedMS: 7}, {ID: "b"}, {ID: "c", DecidedMS: 6}} {
			if err := tx.Enrolments.Put(e); err != nil {
				return err
			}
		}
		for _, v := range []core.Invite{{ID: "a", ExpiresMS: 7}, {ID: "b", ExpiresMS: 6}} {
			if err := tx.Enrolments.PutInvite(v); err != nil {
				return err
			}
		}
		return nil
	})
	lists := func(after core.Ended, limit int) (actions []protocol.ActionID, names []string) {
		view(t, s, func(tx core.Tx) error {
			as, err := tx.Past.Actions(after, limit)
			if err != nil {
				return err
			}
			es, err := tx.Past.Enrolments(after, limit)
			if err != nil {
				return err
			}
			vs, err := tx.Past.Invites(after, limit)
			actions, names = ids(as), nil
			for _, e := range es {
				names = append(names, "enrolment "+e.ID)
			}
			for _, v := range vs {
				names = append(names, "invite "+v.ID)
			}
			return err
		})
		return actions, names
	}
	first, second := all[1].ID, all[2].ID
	if olderFirst(all[1], all[2]) > 0 {
		first, second = second, first
	}
	actions, names := lists(core.Ended{}, 10)
	equal(t, "what ended", actions, []protocol.ActionID{first, second, all[0].ID})
	equal(t, "what was decided", names, []string{"enrolment c", "enrolment a", "invite b", "invite a"})
	actions, names = lists(core.Ended{AtMS: 10, ID: first.String()}, 1)
	equal(t, "what ended after one", actions, []protocol.ActionID{second})
	equal(t, "what was decided after that", len(names), 0)
	_, names = lists(core.Ended{AtMS: 6, ID: "c"}, 10)
	equal(t, "what was decided after one", names, []string{"enrolment a", "invite a"})

	count := func(state protocol.State) (n int) {
		view(t, s, func(tx core.Tx) error {
			all, err := tx.Actions.Count()
			n = all[state]
			return err
		})
		return n
	}
	equal(t, "DONE", count(protocol.StateDone), 3)
	equal(t, "RUNNING", count(protocol.StateRunning), 1)
	remove := func(tx core.Tx) error {
		p := tx.Past
		for _, err := range []error{p.RemoveAction(first), p.RemoveEnrolment("c"), p.RemoveInvite("a")} {
			if err != nil {
				return err
			}
		}
		return nil
	}
	update(t, s, remove)
	update(t, s, remove) // what is not there
	missing(t, s, map[string]func(core.Tx) error{
		"action":    func(tx core.Tx) error { _, err := tx.Actions.Get(first); return err },
		"enrolment": func(tx core.Tx) error { _, err := tx.Enrolments.Get("c"); return err },
		"invite":    func(tx core.Tx) error { _, err := tx.Enrolments.Invite("a"); return err },
	})
	actions, names = lists(core.Ended{}, 10)
	equal(t, "what is left", actions, []protocol.ActionID{second, all[0].ID})
	equal(t, "what is left of the others", names, []string{"enrolment a", "invite b"})
	for id, want := range map[protocol.ActionID]int64{first: 0, second: 5} {
		var o core.OutputState
		view(t, s, func(tx core.Tx) error {
			return values(func() (core.OutputState, error) { return tx.Outputs.Get(id, 1, protocol.Stdout) }, &o)
		})
		equal(t, "its output", o.Have, want)
	}
	equal(t, "DONE then", count(protocol.StateDone), 2)
}
