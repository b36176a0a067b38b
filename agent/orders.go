package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hostler-io/hostler/agent/loop"
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
	// codeWrongName: the request calls its container by the name of another, or by
	// none that this one ever had.
	codeWrongName protocol.Code = "wrong_name"
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
	if h.Stream != protocol.StreamOrder || stream.Receive(p.at, h.Store, h.N) != stream.Deliver {
		a.takeOrders() // what is said of them below has to be durable
	}
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
	if h.Stream == protocol.StreamOrder {
		a.order(at, msg, refusal)
		return
	}
	if !a.loop.Disk(a.control(at, msg, refusal)) {
		return // nothing was taken in, so there is no receipt
	}
	p.at = at
	a.link.toAck = true
}

// order takes an order in, together with those that come with it: takeOrders
// ends what is begun here.
func (a *Agent) order(at protocol.Position, msg protocol.Message, refusal protocol.Code) {
	p := a.streams[protocol.StreamOrder]
	var item protocol.OrderItem
	if err := msg.DecodeItem(&item); err != nil {
		a.takeOrders()
		if p.at.N+1 == at.N && a.loop.Disk(a.reject(at, err)) {
			p.at = at
			a.link.toAck = true
		}
		return
	}
	o, spec, err := a.judge(&item, &msg.Header, refusal)
	if errors.Is(err, queue.ErrDisk) {
		a.loop.Disk(err)
		return // nothing was taken in: it comes again
	}
	if a.isStaged(item.Action) {
		a.takeOrders()
		if p.at.N+1 != at.N {
			return
		}
	}
	if len(a.staged) == 0 {
		a.stagedAfter = p.at
	}
	a.stage(at, o, spec, err)
	p.at = at
}

// judge decides whether what an order asks for may be done here, which is for
// good: a refusal, if there is one, or the first of what this host cannot do and
// its policy does not allow. [queue.ErrDisk] is neither yes nor no.
func (a *Agent) judge(item *protocol.OrderItem, h *protocol.Header, refusal protocol.Code) (queue.Order, protocol.Spec, error) {
	o := queue.Order{Action: item.Action, Spec: item.Spec, Requester: item.Requester, CreatedMS: item.CreatedMS, BudgetMS: a.left(h)}
	spec, err := a.admit(protocol.DecodeSpec(item.Spec))
	if err == nil && refusal != "" {
		err = refusal
	}
	if err == nil {
		err = a.allowed(item.Action, &spec, &o, item.Approvals)
	}
	return o, spec, err
}

// left is what is left of an order's start budget: it counts from the moment on
// which this process sent what the order answers, so no clock but ours takes
// part.
func (a *Agent) left(h *protocol.Header) int64 {
	sent, ok := a.voice.SentAt(h.Heard)
	if !ok {
		return 0
	}
	return h.LeftMS - (a.cfg.BootMS() - sent)
}

// admit says of a spec that was read whether this host can do such a thing at all.
func (a *Agent) admit(spec protocol.Spec, err error) (protocol.Spec, error) {
	if err != nil {
		return spec, err
	}
	info, _ := protocol.KindOf(spec.Kind)
	switch {
	case spec.HasPayload() && (a.cfg.Payloads == nil || a.cfg.Link == nil):
		return spec, fmt.Errorf("%w: input cannot be fetched here", codeUnsupported)
	case spec.SecretEnv != nil && a.cfg.Unseal == nil:
		return spec, fmt.Errorf("%w: secret values cannot be read here", codeUnsupported)
	case info.Files && a.cfg.Mover == nil:
		return spec, fmt.Errorf("%w: files cannot be moved here", codeUnsupported)
	case info.Command && a.cfg.Commands == nil:
		return spec, fmt.Errorf("%w: commands cannot be run here", codeUnsupported)
	case spec.Kind == protocol.KindCreate:
		if _, _, err := a.creator(); err != nil {
			return spec, err
		}
	}
	return spec, nil
}

// staged is an action that is decided upon and not durable yet.
type staged struct {
	arrival queue.Arrival
	spec    protocol.Spec
	entry   laneEntry
	laned   bool // entry is among the lanes
}

func (a *Agent) isStaged(id protocol.ActionID) bool {
	return slices.ContainsFunc(a.staged, func(s staged) bool { return s.arrival.Order.Action == id })
}

// stage decides about an action as if those staged before it were accepted.
// wrong is why it is refused; nil if it is not. What is known already is for the
// queue to find out: of that nothing begins here.
func (a *Agent) stage(at protocol.Position, o queue.Order, spec protocol.Spec, wrong error) {
	s := staged{spec: spec}
	if wrong == nil && len(a.jobs)+len(a.staged) >= a.maxOpen(&spec) {
		wrong = fmt.Errorf("%w: %d actions have not ended here; cancel some, or ask again when they have", queue.CodeQueueFull, a.cfg.MaxOpen)
	}
	if wrong == nil && a.jobs[o.Action] == nil {
		wrong = cmp.Or(a.misnamed(&spec), a.roomForSession(o.Action, &spec))
	}
	if code, ok := errors.AsType[protocol.Code](wrong); ok {
		o.Refusal, o.Detail = code, wrong.Error()
	} else if a.jobs[o.Action] == nil && o.BudgetMS > 0 {
		s.entry = a.entryOf(o.Action, &spec)
		s.entry.lacks = a.relay.Lacks(&spec)
		if a.loop.Degraded() == "" && !a.loop.Stopping() && a.lanes.fits(s.entry) {
			if change, ok := a.prepare(&spec); ok {
				o.Begin = &change
				o.Done = spec.Kind == protocol.KindPing
			}
		}
		if !o.Done {
			s.entry.running = o.Begin != nil
			s.laned = true
			a.lanes.add(s.entry)
		}
	}
	s.arrival = queue.Arrival{At: at, Order: o}
	a.staged = append(a.staged, s)
}

// maxPreempts is how many actions that preempt may be here beyond those that may
// be open: what has filled the host can be stopped at once, each container that
// one has.
const maxPreempts = 1000

// maxOpen is how many actions may not have ended for such a one to be taken.
func (a *Agent) maxOpen(s *protocol.Spec) int {
	if info, _ := protocol.KindOf(s.Kind); info.Lane == protocol.LanePreempt {
		return a.cfg.MaxOpen + maxPreempts
	}
	return a.cfg.MaxOpen
}

// roomForSession refuses a session that could not begin for all that are open:
// somebody sits before it, and would see nothing happen.
func (a *Agent) roomForSession(id protocol.ActionID, spec *protocol.Spec) error {
	if !spec.Kind.Interactive() || a.lanes.fits(a.entryOf(id, spec)) {
		return nil
	}
	return fmt.Errorf("%w: %d are open on host %s, as many as it has (sessions.parallel of its agent); end one of them, or wait for its end",
		protocol.ErrTooManySessions, a.cfg.Sessions, a.cfg.Host)
}

// takeOrders makes durable what was staged, in one transaction, and begins what
// may begin. If the disk does not take it, nothing was received.
func (a *Agent) takeOrders() {
	if len(a.staged) == 0 {
		return
	}
	if _, err := a.commitStaged(); !a.loop.Disk(err) {
		a.streams[protocol.StreamOrder].at = a.stagedAfter
		return
	}
	a.link.toAck = true
}

// accept makes an action of this host's own people durable and, if it may,
// begins it in the same step.
func (a *Agent) accept(o queue.Order, spec protocol.Spec) (queue.Action, error) {
	a.takeOrders()
	if len(a.jobs) >= a.maxOpen(&spec) && a.jobs[o.Action] == nil {
		return queue.Action{}, queue.ErrFull
	}
	a.stage(protocol.Position{}, o, spec, nil)
	taken, err := a.commitStaged()
	if err != nil {
		return queue.Action{}, err
	}
	return taken[0].Action, nil
}

// commitStaged leaves nothing staged, whether it succeeds or not. An agent that
// is degraded does not try: what space there may be is for ends.
func (a *Agent) commitStaged() ([]queue.Taken, error) {
	all := a.staged
	a.staged = nil
	arrivals := make([]queue.Arrival, len(all))
	for i, s := range all {
		arrivals[i] = s.arrival
	}
	var taken []queue.Taken
	err := fmt.Errorf("nothing new is accepted: %s: %w", a.loop.Degraded(), queue.ErrDisk)
	if a.loop.Degraded() == "" {
		taken, err = a.cfg.Queue.AcceptOrders(a.loop.Steps(), arrivals, a.loop.When())
	}
	for i, s := range all {
		if s.laned && (err != nil || !taken[i].Fresh || taken[i].Action.State.Final()) {
			a.lanes.remove(s.entry.id)
		}
	}
	if err != nil {
		return nil, err
	}
	for i, s := range all {
		a.accepted(s, taken[i])
	}
	return taken, nil
}

// accepted goes on with an action that is durable.
func (a *Agent) accepted(s staged, t queue.Taken) {
	act := t.Action
	a.wrote(act.ReportN)
	if !t.Fresh {
		return
	}
	a.self.AcceptSeq = act.AcceptSeq
	a.counters.accepted.Add(1)
	if act.State.Final() {
		a.ended(&act)
		return
	}
	j := &job{act: act, spec: s.spec}
	a.jobs[act.ID] = j
	a.changed(act.ID)
	a.relay.Keep(act.ID, &s.spec, s.entry.lacks)
	if act.State == protocol.StateRunning {
		a.apply(*s.arrival.Order.Begin)
		a.begin(j)
	}
}

// reject takes in an item that cannot be read, so that it blocks nothing.
func (a *Agent) reject(at protocol.Position, why error) error {
	code, ok := errors.AsType[protocol.Code](why)
	if !ok {
		code = protocol.ErrPayload
	}
	a.refuse(string(at.Stream), fmt.Errorf("item %d: %w", at.N, why))
	return a.cfg.Queue.Reject(a.loop.Steps(), at, code, a.loop.When())
}

// control acts upon a control. By itself none of them starts anything. A
// refusal, if there is one, ends the action that it carries.
func (a *Agent) control(at protocol.Position, msg protocol.Message, refusal protocol.Code) error {
	var item protocol.ControlItem
	if err := msg.DecodeItem(&item); err != nil {
		return a.reject(at, err)
	}
	switch {
	case item.Verb == protocol.VerbPreempt && item.Order != nil:
		return a.preemptOrder(at, msg, item.Order, refusal)
	case item.Verb == protocol.VerbCancel && !item.Action.IsZero():
		_, err := a.cancel(at, item.Action)
		return err
	case item.Verb == protocol.VerbTell && len(item.IDs) <= protocol.MaxTell:
		if err := a.cfg.Queue.Tell(a.loop.Steps(), at, item.IDs, item.Since, a.waits(item.IDs), a.loop.When()); err != nil {
			return err
		}
		a.reread()
		return nil
	}
	if item.Verb == protocol.VerbPolicy {
		if err := a.cfg.Queue.TellPolicy(a.loop.Steps(), at, a.toldPolicy(), a.loop.When()); err != nil {
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
	act, err := a.cfg.Queue.Cancel(a.loop.Steps(), at, id, a.loop.When())
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
		if act.Cancelling && a.commands != nil {
			a.commands.Cancel(id)
		}
	}
	return act, nil
}

// ringAhead takes a message that names a newer ring than this host holds. Items
// wait at the head of their stream; what is said again need not.
func (a *Agent) ringAhead(m inbound, msg protocol.Message) {
	ring := msg.Header.Ring
	loop.Newest(a.fetches, ring)
	s := msg.Header.Stream
	if s == "" || a.ahead[s] != nil {
		return
	}
	a.ahead[s] = &held{m: m, ring: ring, until: a.loop.Now() + ringPatience}
	a.at(dueRing, ringPatience)
}

// trustMoved looks at what waits for a ring again.
func (a *Agent) trustMoved() {
	a.recordRing()
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
	now := a.loop.Now()
	for s, h := range a.ahead {
		if h.until > now {
			a.at(dueRing, h.until-now)
			continue
		}
		delete(a.ahead, s)
		msg, err := protocol.Open(h.m.Payload, a.expect(h.m.Topic, h.ring))
		if err != nil {
			a.refuse(h.m.Topic, err)
			continue
		}
		if a.believe(&msg, nil) {
			a.item(msg, codeRingMissing)
		}
	}
	a.takeOrders()
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
			if m.Topic == protocol.FleetTopic(a.cfg.FleetName, protocol.ChannelRing).String() {
				err = a.cfg.Trust.Advance(ctx, m.Payload)
			} else {
				err = a.cfg.Trust.Revoke(ctx, m.Payload)
			}
		}
		if err != nil && ctx.Err() == nil {
			a.cfg.Log.Warn("the ring could not be brought up to date", "error", err)
		}
		loop.Newest(a.trusted, struct{}{})
	}
}
