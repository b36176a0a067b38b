package hostlink

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/protocol"
)

// TestDecideReport says what reports of web1 lead to.
func TestDecideReport(t *testing.T) {
	spec, other := []byte(`{"kind":"run","argv":["true"]}`), []byte(`{"kind":"ping"}`)
	action := core.Action{ID: actionID(1), Host: "web1", Kind: protocol.KindRun, Spec: spec, Digest: protocol.Sum(spec), State: protocol.StatePendingSchedule, N: 4}
	accepted := protocol.Report{Action: action.ID, Event: protocol.EventAccept, State: protocol.StateNew, Digest: action.Digest, Spec: spec, AcceptSeq: 7}
	unknown := protocol.Report{Action: action.ID, Event: protocol.EventTell, HaveOrder: 4}
	for _, c := range []struct {
		name   string
		change func(*reported, *protocol.Report)
		report protocol.Report
		effect effect
		state  protocol.State
	}{
		{name: "a step", report: accepted, effect: change, state: protocol.StateNew},
		{name: "a step that is known", report: accepted, change: func(k *reported, _ *protocol.Report) { k.action.State = protocol.StateNew }, effect: nothingNew},
		{name: "another content", report: accepted, change: func(_ *reported, r *protocol.Report) { r.Spec, r.Digest = other, protocol.Sum(other) }, effect: change, state: protocol.StateNew},
		{name: "begun on the host", report: accepted, change: func(k *reported, _ *protocol.Report) { k.found, k.action = false, core.Action{} }, effect: insert, state: protocol.StateNew},
		{name: "told of what was forgotten", report: accepted, change: func(k *reported, r *protocol.Report) {
			k.found, k.action, r.Event = false, core.Action{}, protocol.EventTell
		}, effect: nothingNew},
		{name: "told of what a recovery has lost", report: accepted, change: func(k *reported, r *protocol.Report) {
			k.found, k.action, k.recovering, r.Event = false, core.Action{}, true, protocol.EventTell
		}, effect: insert, state: protocol.StateNew},
		{name: "of another host", report: accepted, change: func(k *reported, _ *protocol.Report) { k.host = "web2" }, effect: ofAnotherHost, state: protocol.StatePendingSchedule},
		{name: "neither side knows it", report: unknown, change: func(k *reported, _ *protocol.Report) { k.found, k.action = false, core.Action{} }, effect: knownNowhere},
		{name: "the host has the order and does not know it", report: unknown, effect: lost, state: protocol.StatePendingSchedule},
		{name: "the order is on its way", report: unknown, change: func(_ *reported, r *protocol.Report) { r.HaveOrder = 3 }, effect: lookAgain, state: protocol.StatePendingSchedule},
		{name: "the order has no number", report: unknown, change: func(k *reported, _ *protocol.Report) { k.action.N = 0 }, effect: lookAgain, state: protocol.StatePendingSchedule},
		{name: "the action has ended meanwhile", report: unknown, change: func(k *reported, _ *protocol.Report) { k.action.State = protocol.StateDone }, effect: lookAgain, state: protocol.StateDone},
		{name: "of before a recovery", report: unknown, change: func(k *reported, _ *protocol.Report) { k.action.Former = true }, effect: formerLost, state: protocol.StatePendingSchedule},
	} {
		t.Run(c.name, func(t *testing.T) {
			k, r := reported{host: "web1", action: action, found: true, receiptedMS: 50}, c.report
			if c.change != nil {
				c.change(&k, &r)
			}
			got := decideReport(k, &r, 60)
			if got.effect != c.effect || got.action.State != c.state {
				t.Errorf("effect %d and state %s, want %d and %s", got.effect, got.action.State, c.effect, c.state)
			}
			if conflict := c.name == "another content"; got.conflict != conflict || conflict && string(got.action.Conflict) != string(spec) {
				t.Errorf("conflict %v, and what was asked for is %s", got.conflict, got.action.Conflict)
			}
			if c.effect == change && (got.action.ReceiptedMS != 50 || got.action.UpdatedMS != 60 || got.action.AcceptSeq != 7) {
				t.Errorf("it is written as %+v", got.action)
			}
			if diff := cmp.Diff(got, decideReport(k, &r, 60), cmp.AllowUnexported(observed{})); diff != "" {
				t.Errorf("the same report has another answer the second time: %s", diff)
			}
		})
	}
}
