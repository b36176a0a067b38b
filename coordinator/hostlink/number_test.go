package hostlink

import (
	"slices"
	"testing"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/stream"
)

func actionID(n byte) protocol.ActionID { return protocol.NewActionID(int64(n), [10]byte{n}) }

func TestDecideNumbers(t *testing.T) {
	store := protocol.StoreID{7}
	at := times{now: 5000, life: 6000}
	waits := func(n byte, expiresMS int64) candidate {
		return candidate{action: core.Action{ID: actionID(n), Kind: protocol.KindPing, Spec: []byte(`{}`), ExpiresMS: expiresMS}, approved: true}
	}
	lapsed := func(n byte) candidate {
		c := waits(n, 9000)
		c.approved, c.lapsed = false, "the ring is another one"
		return c
	}
	for _, c := range []struct {
		name    string
		from    uint64
		waiting []candidate
		orders  []protocol.ActionID
		expired []protocol.ActionID
	}{
		{name: "nothing waits", from: 3},
		{name: "in their order", waiting: []candidate{waits(2, 9000), waits(1, 9000)}, orders: []protocol.ActionID{actionID(2), actionID(1)}},
		{name: "too old", from: 3, waiting: []candidate{waits(1, 6000), waits(2, 6001)}, orders: []protocol.ActionID{actionID(2)}},
		{name: "approved no more", from: 3, waiting: []candidate{lapsed(1), waits(2, 9000)}, orders: []protocol.ActionID{actionID(2)}, expired: []protocol.ActionID{actionID(1)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			st := core.StreamState{Host: "web1", Pos: protocol.Position{Store: store, Stream: protocol.StreamOrder, N: c.from}}
			d, err := decideNumbers(st, store, c.waiting, at)
			if err != nil {
				t.Fatal(err)
			}
			if again, _ := decideNumbers(st, store, c.waiting, at); again.state != d.state {
				t.Error("the same question has another answer the second time")
			}
			var orders, expired []protocol.ActionID
			want := st.Pos
			for i, o := range d.orders {
				orders = append(orders, o.Action)
				want = stream.Next(want, o.Item.Item)
				if a := d.numbers[i]; o.N != want.N || o.H != want.H || a.N != o.N || a.ID != o.Action || a.SentMS != at.now {
					t.Errorf("order %d is item %d of action %s, and the action has number %d", i, o.N, o.Action, a.N)
				}
			}
			for _, a := range d.expired {
				expired = append(expired, a.ID)
				if a.N != 0 || a.Detail == "" {
					t.Errorf("action %s ended with number %d and detail %q", a.ID, a.N, a.Detail)
				}
			}
			if d.state.Pos != want {
				t.Errorf("the stream ends at %v, want %v", d.state.Pos, want)
			}
			if !slices.Equal(orders, c.orders) || !slices.Equal(expired, c.expired) {
				t.Errorf("orders %v and ended %v, want %v and %v", orders, expired, c.orders, c.expired)
			}
		})
	}
}

func TestNextQuestion(t *testing.T) {
	orders, controls := core.StreamState{}, core.StreamState{}
	orders.Freed.N, controls.Freed.N = 5, 2
	for _, c := range []struct {
		name string
		a    core.Action
		asks bool
	}{
		{"acknowledged, and never told of", core.Action{Kind: protocol.KindRun, N: 5, State: protocol.StatePendingSchedule}, true},
		{"on its way", core.Action{Kind: protocol.KindRun, N: 6, State: protocol.StatePendingSchedule}, false},
		{"not numbered", core.Action{Kind: protocol.KindRun, State: protocol.StatePendingSchedule}, false},
		{"begun on the host itself", core.Action{Kind: protocol.KindRun, State: protocol.StateRunning}, true},
		{"of before a recovery", core.Action{Kind: protocol.KindRun, Former: true, State: protocol.StateNew}, true},
		{"a control on its way", core.Action{Kind: protocol.KindStopNow, N: 3, State: protocol.StatePendingSchedule}, false},
		{"a control that arrived", core.Action{Kind: protocol.KindStopNow, N: 2, State: protocol.StatePendingSchedule}, true},
	} {
		c.a.ID = actionID(1)
		if got := len(nextQuestion([]core.Action{c.a}, orders, controls)) > 0; got != c.asks {
			t.Errorf("%s: asked about %v, want %v", c.name, got, c.asks)
		}
	}
}
