package uplink

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/hostler-io/hostler/agent/actions"
	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/agent/wire"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/fresh"
	"github.com/hostler-io/hostler/protocol/stream"
)

// batch is a turn of the loop that takes messages. Orders that follow each other
// become durable together: those that wait for that are in it, and anything else
// has to wait until they are. take must follow the last message.
type batch struct {
	*Uplink
	orders []actions.Order
}

// receive opens a message and acts upon it. What is refused is counted and never
// answered.
func (b *batch) receive(m wire.Message) {
	if bytes.Equal(m.Payload, b.fleet) {
		return // the retained word that every connection repeats
	}
	msg, err := b.cfg.Host.Open(m, b.cfg.Trust.Ring(), freshness{b.Uplink})
	if errors.Is(err, protocol.ErrRing) {
		b.ringAhead(m, msg)
		return
	}
	if err == nil {
		err = b.dispatch(m, msg)
	}
	if err != nil {
		b.refuse(m.Topic, err)
	}
}

// dispatch acts upon a message that passed all checks.
func (b *batch) dispatch(m wire.Message, msg protocol.Message) error {
	if !b.joins(&msg) {
		b.take() // in the order of arrival
	}
	switch msg.Topic.Channel {
	case protocol.ChannelReceipt:
		var r protocol.Receipt
		if err := msg.Decode(&r); err != nil {
			return err
		}
		if b.link.conn == 0 || !r.Answers.SameConn(protocol.Seq{Inc: b.self.Inc, Conn: b.link.conn}) {
			return fmt.Errorf("%w: the receipt answers connection %d/%d", protocol.ErrStale, r.Answers.Inc, r.Answers.Conn)
		}
		if !b.believe(&msg, m.Payload) {
			return nil
		}
		if !b.link.said.Takes(r.Answers) {
			return nil // the hello of its term is on its way
		}
		b.receipt(&r, m.Payload)
	case protocol.ChannelCoordinator:
		var s protocol.CoordinatorState
		if err := msg.Decode(&s); err != nil {
			return err
		}
		if !b.believe(&msg, m.Payload) {
			return nil
		}
		b.fleet = m.Payload
	case protocol.ChannelOrder, protocol.ChannelControl:
		if !b.believe(&msg, nil) {
			return nil
		}
		b.item(msg, "")
	default:
		return fmt.Errorf("%w: nothing comes down on %s yet", protocol.ErrTopic, msg.Topic.Channel)
	}
	b.cfg.Traffic.Received(msg.Header.Type)
	return nil
}

// joins reports whether a message is an order that follows those in the batch, of
// the term that is durable.
func (b *batch) joins(msg *protocol.Message) bool {
	h := &msg.Header
	newer, named := b.introduces(h)
	return msg.Topic.Channel == protocol.ChannelOrder && !newer && !named && stream.Receive(b.at(h.Stream), h.Store, h.N) == stream.Deliver
}

// at is where a stream will stand when the batch is durable.
func (b *batch) at(s protocol.Stream) protocol.Position {
	if n := len(b.orders); s == protocol.StreamOrder && n > 0 {
		return b.orders[n-1].At
	}
	return b.streams.all[s].at
}

// take makes the orders of the batch durable. What the disk did not take was not
// received: it comes again.
func (b *batch) take() {
	orders := b.orders
	b.orders = nil
	if len(orders) == 0 {
		return
	}
	if n := b.cfg.Actions.Take(orders); n > 0 {
		b.streams.all[protocol.StreamOrder].at = orders[n-1].At
		b.link.toAck = true
	}
}

// item takes an item that passed all checks, or tells again what was taken. A
// refusal, if there is one, ends an order that would begin.
func (b *batch) item(msg protocol.Message, refusal protocol.Code) {
	h := &msg.Header
	before := b.at(h.Stream)
	switch stream.Receive(before, h.Store, h.N) {
	case stream.Duplicate:
		b.link.toAck = true
		return
	case stream.Gap:
		b.link.toAck = true
		b.ack() // the sooner the sender knows, the better
		return
	case stream.Foreign:
		b.refuse(msg.Topic.String(), fmt.Errorf("%w: %s", protocol.ErrStore, h.Store))
		return
	}
	delete(b.ahead, h.Stream)
	at := stream.Next(before, h.Item)
	if h.Stream == protocol.StreamOrder {
		var item protocol.OrderItem
		err := msg.DecodeItem(&item)
		if err == nil {
			b.orders = append(b.orders, actions.Order{At: at, Item: item, BudgetMS: b.left(h), Refusal: refusal})
			return
		}
		b.take()
		if b.streams.all[h.Stream].at != before || !b.loop.Disk(b.reject(at, err)) {
			return
		}
	} else if !b.loop.Disk(b.control(at, msg, refusal)) {
		return // nothing was taken in, so there is no receipt
	}
	b.streams.all[h.Stream].at = at
	b.link.toAck = true
}

// left is what is left of an order's start budget: it counts from the moment at
// which this process sent what the order answers, so no clock but ours takes
// part.
func (b *batch) left(h *protocol.Header) int64 {
	sent, ok := b.cfg.Numbers.SentAt(h.Heard)
	if !ok {
		return 0
	}
	return h.LeftMS - (b.loop.BootMS() - sent)
}

// reject takes in an item that cannot be read, so that it blocks nothing.
func (b *batch) reject(at protocol.Position, why error) error {
	code, ok := errors.AsType[protocol.Code](why)
	if !ok {
		code = protocol.ErrPayload
	}
	b.refuse(string(at.Stream), fmt.Errorf("item %d: %w", at.N, why))
	return b.cfg.Queue.Reject(b.loop.Steps(), at, code, b.loop.When())
}

// control acts upon a control. By itself none of them starts anything. A
// refusal, if there is one, ends the action that it carries.
func (b *batch) control(at protocol.Position, msg protocol.Message, refusal protocol.Code) error {
	var item protocol.ControlItem
	if err := msg.DecodeItem(&item); err != nil {
		return b.reject(at, err)
	}
	answers, ctx, now := b.cfg.Queue, b.loop.Steps(), b.loop.When()
	var err error
	switch {
	case item.Verb == protocol.VerbPreempt && item.Order != nil:
		return b.cfg.Actions.TakeNow(actions.Order{At: at, Item: *item.Order, BudgetMS: b.left(&msg.Header), Refusal: refusal})
	case item.Verb == protocol.VerbCancel && !item.Action.IsZero():
		_, err := b.cfg.Actions.Cancel(at, item.Action)
		return err
	case item.Verb == protocol.VerbTell && len(item.IDs) <= protocol.MaxTell:
		err = answers.Tell(ctx, at, item.IDs, item.Since, b.cfg.Actions.Waits(item.IDs, b.waitsForRing()), now)
	case item.Verb == protocol.VerbPolicy:
		err = answers.TellPolicy(ctx, at, b.cfg.Policy(), now)
	case item.Verb == protocol.VerbRules && item.Rules != nil:
		return b.rules(at, *item.Rules)
	default:
		return b.reject(at, fmt.Errorf("%w: control %.40q", protocol.ErrPayload, item.Verb))
	}
	if err == nil {
		b.streams.reread()
	}
	return err
}

// rules makes the coordinator's rules of alerts durable, unless newer ones are there.
func (b *batch) rules(at protocol.Position, r protocol.AlertRules) error {
	kept, err := queue.KeepRules(b.loop.Steps(), b.cfg.Queue, at, r)
	if err == nil {
		b.cfg.Rules(kept)
		b.Changed() // the coordinator waits for the word that they are here
	}
	return err
}

// freshness is what the loop has seen before, for checks 11 and 12.
type freshness struct{ u *Uplink }

// Fresh takes orders that answer what this process has sent, and state messages
// that are newer than the last of their channel.
func (f freshness) Fresh(t protocol.Topic, h *protocol.Header) error {
	switch t.Channel {
	case protocol.ChannelControl:
		if h.Heard == (protocol.Seq{}) {
			return nil // its number in the stream is all it needs
		}
		fallthrough // it carries an action
	case protocol.ChannelOrder:
		if _, ok := f.u.cfg.Numbers.SentAt(h.Heard); !ok {
			return fmt.Errorf("%w: %d/%d/%d", protocol.ErrHeard, h.Heard.Inc, h.Heard.Conn, h.Heard.K)
		}
		return nil
	}
	return f.u.gate.Fresh(t.Channel, h)
}

// Term takes the present coordinator and its successors.
func (f freshness) Term(h *protocol.Header) error { return f.u.gate.Term(h) }

// introduces reports whether a message is of a newer term than is durable, and whether
// it names the store of the coordinator first.
func (b *batch) introduces(h *protocol.Header) (newer, named bool) {
	newer = h.Term.Compare(b.gate.Seen) > 0
	return newer, !h.Store.IsZero() && (newer || b.gate.Store.IsZero())
}

// believe makes a newer term, or the store that it names, durable before
// anything is done because of it, and says hello again to the coordinator of that
// term. evidence is the message as it was signed, if it may serve as that. It
// reports false when the disk did not take it: then nothing was received.
func (b *batch) believe(msg *protocol.Message, evidence []byte) bool {
	h := &msg.Header
	newer, named := b.introduces(h)
	if newer || named {
		strongest := b.self.Evidence
		if evidence != nil {
			strongest = fresh.Strengthen(strongest, evidence)
		}
		if !b.loop.Disk(b.cfg.Queue.SawTerm(b.loop.Steps(), h.Term, h.Store, strongest)) {
			return false
		}
		b.self.Evidence = strongest
	}
	b.gate.Accept(msg.Topic.Channel, h)
	if newer {
		b.cfg.Numbers.SawTerm(h.Term)
		b.cfg.Log.Info("the coordinator speaks in a new term", "term_ring", h.Term.Ring, "term", h.Term.Counter)
	}
	if named {
		b.streams.renamed(h.Store)
	}
	if newer && b.link.conn != 0 {
		b.greetAgain()
	}
	return true
}
