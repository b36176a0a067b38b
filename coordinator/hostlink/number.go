package hostlink

import (
	"encoding/json"
	"fmt"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/stream"
)

// Deciding which actions get the next numbers of a stream is pure: what the
// store, the keyring and the conversation say goes in, what is to be written
// comes out. The shell is in order.go.

// times are one moment on two clocks, in milliseconds.
type times struct {
	now  int64 // the date
	life int64 // the clock of what ends by itself; see [core.Base.LifeMS]
}

// order is the item of an action that was given its number just now.
type order struct {
	core.Item
	on        protocol.Stream
	expiresMS int64
}

// numbered is what numbering has done to one host. It takes effect when its
// transaction is durable; see [link.numbered].
type numbered struct {
	orders []order
	ended  []protocol.ActionID // whose approvals count no more
	more   bool                // others may wait
}

// candidate is an action that waits for its number.
type candidate struct {
	action   core.Action
	approved bool   // it has the approvals that it needs
	lapsed   string // if not, why
}

// allocation is what to write for one stream.
type allocation struct {
	state   core.StreamState
	orders  []order
	numbers []core.Action // of the orders, in their order
	expired []core.Action
}

// room is how many items of a stream may be numbered. acked is how far the host
// has acknowledged it, as far as memory knows.
func room(st core.StreamState, acked uint64) int {
	return stream.Window - int(st.Pos.N-max(st.Freed.N, acked))
}

// decideNumbers gives the next numbers of a stream to those that wait, in their
// order. An action that is approved no more ends: the ring is another one, and
// left where it is it would stand before those that may go. What is too old is
// for the look that expires actions.
func decideNumbers(st core.StreamState, store protocol.StoreID, waiting []candidate, at times) (allocation, error) {
	d := allocation{state: st}
	for _, w := range waiting {
		a := w.action
		switch {
		case a.ExpiresMS <= at.life:
			continue
		case !w.approved:
			a.Detail = w.lapsed
			d.expired = append(d.expired, a)
			continue
		}
		o, err := decideOrder(&d.state, store, &a, at)
		if err != nil {
			return d, err
		}
		d.orders, d.numbers = append(d.orders, o), append(d.numbers, a)
	}
	return d, nil
}

// decideOrder gives one action the next number of a stream.
func decideOrder(st *core.StreamState, store protocol.StoreID, a *core.Action, at times) (order, error) {
	content := core.OrderItem(a)
	var v any = content
	if st.Pos.Stream == protocol.StreamControl {
		v = protocol.ControlItem{Verb: protocol.VerbPreempt, Order: &content}
	}
	item, err := json.Marshal(v)
	if err != nil {
		return order{}, fmt.Errorf("encode order %s: %w", a.ID, err)
	}
	it := nextItem(st, store, item, a.ID)
	a.N, a.SentMS = it.N, at.now
	return order{it, st.Pos.Stream, ends(a, at.life)}, nil
}

// nextItem gives an item the next number of its stream.
func nextItem(st *core.StreamState, store protocol.StoreID, item []byte, action protocol.ActionID) core.Item {
	st.Pos.Store = store
	st.Pos = stream.Next(st.Pos, item)
	return core.Item{N: st.Pos.N, H: st.Pos.H, Item: item, Action: action}
}

// ends returns when the start budget of an action ends. A date that went back
// over a restart gives no order more than it had.
func ends(a *core.Action, lifeMS int64) int64 {
	info, _ := protocol.KindOf(a.Kind)
	return min(a.ExpiresMS, lifeMS+info.StartTTL.Milliseconds())
}

// nextQuestion returns the open actions that a host which came back is asked
// about: what it should know and never told the end of. orders and controls are
// the two streams to it.
func nextQuestion(open []core.Action, orders, controls core.StreamState) (ids []protocol.ActionID) {
	for _, a := range open {
		freed := orders.Freed.N
		if core.StreamOf(a.Kind) == protocol.StreamControl {
			freed = controls.Freed.N
		}
		if a.N != 0 && a.N <= freed || a.N == 0 && a.State != protocol.StatePendingSchedule || a.Former {
			ids = append(ids, a.ID)
		}
	}
	return ids
}
