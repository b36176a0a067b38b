package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/stream"
)

// Codes with which this host refuses an action whose spec is well formed.
const (
	// codeRingMissing: the order names a ring that nobody could show in time.
	codeRingMissing protocol.Code = "ring_missing"
	// codeUnsupported: this host has not what the kind needs.
	codeUnsupported protocol.Code = "unsupported"
)

// ringPatience is how long an order waits for the ring that it names.
const ringPatience = time.Minute

// held is an item that waits at the head of its stream for a ring.
type held struct {
	m     inbound
	ring  uint64
	until time.Duration
}

// item takes an item that passed all checks, or tells again what was taken. A
// refusal, if there is one, ends an order that would begin.
func (a *Agent) item(msg protocol.Message, refusal protocol.Code) {
	h := &msg.Header
	p := a.streams[h.Stream]
	switch stream.Receive(p.at, h.Store, h.N) {
	case stream.Duplicate:
		a.link.toAck = true
		return
	case stream.Gap:
		a.link.toAck = true
		a.ack() // the sooner the sender knows, the better
		return
	case stream.Foreign:
		a.refuse(msg.Topic.String(), fmt.Errorf("%w: %s", protocol.ErrStore, h.Store))
		return
	}
	delete(a.ahead, h.Stream)
	at := stream.Next(p.at, h.Item)
	var err error
	if h.Stream == protocol.StreamOrder {
		err = a.order(at, msg, refusal)
	} else {
		err = a.control(at, msg)
	}
	if !a.disk(err) {
		return // nothing was taken in, so there is no receipt
	}
	p.at = at
	a.link.toAck = true
}

// order accepts an action. An error means that nothing was taken in.
func (a *Agent) order(at protocol.Position, msg protocol.Message, refusal protocol.Code) error {
	var item protocol.OrderItem
	if err := msg.DecodeItem(&item); err != nil {
		return a.reject(at, err)
	}
	o := queue.Order{Action: item.Action, Spec: item.Spec, Requester: item.Requester, CreatedMS: item.CreatedMS, BudgetMS: a.left(&msg.Header)}
	spec, err := a.admit(item.Spec)
	if err == nil && refusal != "" {
		err = refusal
	}
	_, err = a.accept(at, o, spec, err)
	return err
}

// left is what is left of an order's start budget: it counts from the moment on
// which this process sent what the order answers, so no clock but ours takes
// part.
func (a *Agent) left(h *protocol.Header) int64 {
	sent, ok := a.voice.sentAt(h.Heard)
	if !ok {
		return 0
	}
	return h.LeftMS - (a.cfg.BootMS() - sent)
}

// admit reads a spec and says whether this host can do such a thing at all.
func (a *Agent) admit(b []byte) (protocol.Spec, error) {
	spec, err := protocol.DecodeSpec(b)
	if err != nil {
		return spec, err
	}
	info, _ := protocol.KindOf(spec.Kind)
	switch {
	case info.Command && a.cfg.Commands == nil:
		return spec, fmt.Errorf("%w: commands cannot be run here", codeUnsupported)
	case spec.Kind == protocol.KindCreate:
		if _, _, err := a.creator(); err != nil {
			return spec, err
		}
	}
	return spec, nil
}

// accept makes an action durable and, if it may, begins it in the same step.
// wrong is why it is refused instead; nil if it is not.
func (a *Agent) accept(at protocol.Position, o queue.Order, spec protocol.Spec, wrong error) (queue.Action, error) {
	var e laneEntry
	if code, ok := errors.AsType[protocol.Code](wrong); ok {
		o.Refusal, o.Detail = code, wrong.Error()
	} else if e = laneOf(o.Action, &spec); o.BudgetMS > 0 && a.degraded == "" && !a.stopping && a.lanes.fits(e) {
		if change, ok := a.prepare(&spec); ok {
			o.Begin = &change
		}
	}
	act, fresh, err := a.cfg.Queue.AcceptOrder(a.steps, at, o, a.when())
	if err != nil {
		return act, err
	}
	a.wrote(act.ReportN)
	if !fresh {
		return act, nil
	}
	a.self.AcceptSeq = act.AcceptSeq
	a.counters.accepted.Add(1)
	if act.State.Final() {
		a.ended(&act)
		return act, nil
	}
	j := &job{act: act, spec: spec}
	a.jobs[act.ID] = j
	e.running = act.State == protocol.StateRunning
	a.lanes.add(e)
	a.changed(act.ID)
	if e.running {
		a.apply(*o.Begin)
		a.begin(j)
	}
	return act, nil
}

// reject takes in an item that cannot be read, so that it blocks nothing.
func (a *Agent) reject(at protocol.Position, why error) error {
	code, ok := errors.AsType[protocol.Code](why)
	if !ok {
		code = protocol.ErrPayload
	}
	a.refuse(string(at.Stream), fmt.Errorf("item %d: %w", at.N, why))
	return a.cfg.Queue.Reject(a.steps, at, code, a.when())
}

// control acts upon a control. None of them starts anything.
func (a *Agent) control(at protocol.Position, msg protocol.Message) error {
	var item protocol.ControlItem
	if err := msg.DecodeItem(&item); err != nil {
		return a.reject(at, err)
	}
	switch {
	case item.Verb == protocol.VerbCancel && !item.Action.IsZero():
		_, err := a.cancel(at, item.Action)
		return err
	case item.Verb == protocol.VerbTell && len(item.IDs) <= protocol.MaxTell:
		if err := a.cfg.Queue.Tell(a.steps, at, item.IDs, item.Since, a.when()); err != nil {
			return err
		}
		a.reread()
		return nil
	}
	return a.reject(at, fmt.Errorf("%w: control %.40q", protocol.ErrPayload, item.Verb))
}

// cancel asks for the end of an action: of what waits at once, of what runs when
// nothing of it is left, of what is unknown for ever.
func (a *Agent) cancel(at protocol.Position, id protocol.ActionID) (queue.Action, error) {
	act, err := a.cfg.Queue.Cancel(a.steps, at, id, a.when())
	if err != nil {
		return act, err
	}
	a.wrote(act.ReportN)
	j := a.jobs[id]
	switch {
	case j == nil:
	case act.State.Final():
		a.finished(j, act)
	default:
		j.act = act
		a.changed(id)
		if act.Cancelling {
			a.cancelRun(j)
		}
	}
	return act, nil
}

// ringAhead takes a message that names a newer ring than this host holds. Items
// wait at the head of their stream; what is said again need not.
func (a *Agent) ringAhead(m inbound, msg protocol.Message) {
	ring := msg.Header.Ring
	newest(a.fetches, ring)
	s := msg.Header.Stream
	if s == "" || a.ahead[s] != nil {
		return
	}
	a.ahead[s] = &held{m: m, ring: ring, until: a.now() + ringPatience}
	a.at(dueRing, ringPatience)
}

// trustMoved looks at what waits for a ring again.
func (a *Agent) trustMoved() {
	for s, h := range a.ahead {
		if a.cfg.Trust.Ring() >= h.ring {
			delete(a.ahead, s)
			a.receive(h.m)
		}
	}
}

// giveUpRing refuses the orders that have waited too long: opened as if the ring
// were held, which a signature by a known coordinator justifies, they are taken
// in and end at once.
func (a *Agent) giveUpRing() {
	now := a.now()
	for s, h := range a.ahead {
		if h.until > now {
			a.at(dueRing, h.until-now)
			continue
		}
		delete(a.ahead, s)
		msg, err := protocol.Open(h.m.payload, a.expect(h.m.topic, h.ring))
		if err != nil {
			a.refuse(h.m.topic, err)
			continue
		}
		if a.believe(&msg, nil) {
			a.item(msg, codeRingMissing)
		}
	}
}

// trust feeds Trust with what the broker retains, and has it fetch what orders
// name. It writes to the disk and asks the network, so it is not the loop.
func (a *Agent) trust(ctx context.Context) error {
	for {
		var err error
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case ring := <-a.fetches:
			fetch, cancel := context.WithTimeout(ctx, ringPatience)
			err = a.cfg.Trust.Fetch(fetch, ring)
			cancel()
		case m := <-a.docs:
			if m.topic == protocol.FleetTopic(a.cfg.FleetName, protocol.ChannelRing).String() {
				err = a.cfg.Trust.Advance(ctx, m.payload)
			} else {
				err = a.cfg.Trust.Revoke(ctx, m.payload)
			}
		}
		if err != nil && ctx.Err() == nil {
			a.cfg.Log.Warn("the ring could not be brought up to date", "error", err)
		}
		newest(a.trusted, struct{}{})
	}
}
