package actions

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"
	"unicode/utf8"

	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/protocol"
)

// CodeUnsupported refuses an action for which this host lacks what its kind needs.
const CodeUnsupported protocol.Code = "unsupported"

// Order is an order of the coordinator.
type Order struct {
	At   protocol.Position // its place in the stream by which it came
	Item protocol.OrderItem
	// BudgetMS is what is left of its start budget.
	BudgetMS int64
	// Refusal, if set, ends it as it comes.
	Refusal protocol.Code
}

// Take takes orders in that came one after the other, in as few transactions as
// can be, and begins what may begin. It returns how many of them, from the first,
// are durable; the others come again.
func (a *Actions) Take(orders []Order) (durable int) {
	var events []event
	for i := range orders {
		o, spec, err := a.judge(&orders[i])
		if errors.Is(err, queue.ErrDisk) {
			a.loop.Disk(err)
			break // nothing of it was taken in
		}
		if slices.ContainsFunc(events, func(e event) bool { return e.order.Action == o.Action }) {
			if !a.take(events) {
				return durable
			}
			durable, events = i, nil
		}
		events = append(events, ask(a, orders[i].At, o, spec, err))
	}
	if a.take(events) {
		durable += len(events)
	}
	return durable
}

// TakeNow takes an action in that came as a control, past the orders that wait.
// What it is not meant for is refused: everything else has its turn.
func (a *Actions) TakeNow(order Order) error {
	o, spec, err := a.judge(&order)
	if errors.Is(err, queue.ErrDisk) {
		return err // nothing was taken in: it comes again
	}
	if info, _ := protocol.KindOf(spec.Kind); err == nil && info.Lane != protocol.LanePreempt {
		err = protocol.ErrSpec
	}
	_, err = a.commit(intakeOf(a).decide([]event{ask(a, order.At, o, spec, err)}))
	return err
}

// judge decides whether what an order asks for may be done here, which is for
// good: a refusal, if there is one, or the first of what this host cannot do and
// its policy does not allow. [queue.ErrDisk] is neither yes nor no.
func (a *Actions) judge(order *Order) (queue.Order, protocol.Spec, error) {
	item := &order.Item
	o := queue.Order{Action: item.Action, Spec: item.Spec, Requester: item.Requester, CreatedMS: item.CreatedMS, BudgetMS: order.BudgetMS}
	spec, err := a.admit(protocol.DecodeSpec(item.Spec))
	if err == nil && order.Refusal != "" {
		err = order.Refusal
	}
	if err == nil {
		err = a.cfg.Policy.Allowed(item.Action, &spec, &o, item.Approvals)
	}
	return o, spec, err
}

// admit says of a spec that was read whether this host can do such a thing at all.
func (a *Actions) admit(spec protocol.Spec, err error) (protocol.Spec, error) {
	if err != nil {
		return spec, err
	}
	h := a.cfg.Handlers[spec.Kind]
	if h == nil {
		return spec, fmt.Errorf("%w: %s", CodeUnsupported, spec.Kind)
	}
	return spec, h.Admit(&spec)
}

// intakeOf returns the state in which the next orders are decided upon.
func intakeOf(a *Actions) intake {
	return intake{
		lanes: a.lanes, open: len(a.jobs), maxOpen: a.cfg.MaxOpen, sessions: a.cfg.Sessions, host: a.cfg.Host,
		begins: a.loop.Degraded() == "" && !a.loop.Stopping(),
		pending: func(yield func(*protocol.Spec) bool) {
			for _, j := range a.jobs {
				if !yield(&j.spec) {
					return
				}
			}
		},
	}
}

// ask asks the other rooms what they have to say of an order. wrong is why it is
// refused; nil if it is not.
func ask(a *Actions, at protocol.Position, o queue.Order, spec protocol.Spec, wrong error) event {
	e := event{at: at, order: o, spec: &spec, wrong: wrong, known: a.jobs[o.Action] != nil}
	if wrong != nil || e.known {
		return e
	}
	h := a.cfg.Handlers[spec.Kind]
	i, ok := h.(Instant)
	e.atOnce = ok && i.EndsAtOnce()
	c, ok := h.(Claimer)
	e.claims = ok && c.Claims(&spec)
	b, ok := h.(Brief)
	e.brief = ok && b.MayBeBrief(&spec)
	e.lacks, e.name = a.cfg.Inputs.Lacks(&spec), a.cfg.Rooms.ContainerName(spec.Target)
	e.misnamed = func(pending iter.Seq[*protocol.Spec]) error { return a.cfg.Rooms.Misnamed(&spec, pending) }
	e.prepare = func() (queue.Change, *queue.Step) { return h.Prepare(&spec) }
	return e
}

// take decides about orders, makes that durable, and begins what may begin. If the disk
// does not take it, nothing was received.
func (a *Actions) take(events []event) bool {
	if len(events) == 0 {
		return true
	}
	_, err := a.commit(intakeOf(a).decide(events))
	return a.loop.Disk(err)
}

// commit makes durable what was decided, and then lets it have its effects. An agent that
// is degraded does not try: what space there may be is for ends.
func (a *Actions) commit(all []decision) ([]queue.Accepted, error) {
	arrivals := make([]queue.Arrival, len(all))
	for i := range all {
		arrivals[i] = all[i].arrival
	}
	a.cfg.Rooms.Spare()
	if why := a.loop.Degraded(); why != "" {
		return nil, fmt.Errorf("nothing new is accepted: %s: %w", why, cmp.Or(a.cfg.Store.Ready(), error(queue.ErrDisk)))
	}
	taken, err := a.cfg.Store.AcceptOrders(a.loop.Steps(), arrivals, a.loop.When())
	if err != nil {
		return nil, err
	}
	for i := range all {
		if all[i].laned && taken[i].Fresh && !taken[i].Action.State.Final() {
			a.lanes.add(all[i].lane)
		}
	}
	for i := range all {
		a.accepted(&all[i], taken[i])
	}
	return taken, nil
}

// accepted goes on with an action that is durable.
func (a *Actions) accepted(d *decision, t queue.Accepted) {
	act := t.Action
	a.cfg.Rooms.Reported(act.ReportN)
	if !t.Fresh {
		return
	}
	a.newest = act.AcceptSeq
	a.Counters.Accepted.Add(1)
	if act.State.Final() {
		a.ended(&act)
		return
	}
	j := &Job{actions: a, act: act, spec: *d.spec}
	a.jobs[act.ID] = j
	a.Changed(act.ID)
	a.cfg.Inputs.Keep(act.ID, &j.spec, d.lane.lacks)
	if act.State == protocol.StateRunning {
		a.cfg.Rooms.Applied(*d.arrival.Order.Begin)
		a.untold.add(j)
		j.begin()
	}
}

// maxRequester is the longest name of a requester, in bytes; a report carries it.
const maxRequester = 255

// Propose accepts an action of the host's own people and, if it may, begins it in
// the same step. A zero id is replaced by a new one.
func (a *Actions) Propose(id protocol.ActionID, b []byte, requester string) (queue.Action, error) {
	spec, err := a.admit(protocol.DecodeRequest(b))
	if err == nil && (requester == "" || len(requester) > maxRequester || !utf8.ValidString(requester)) {
		err = fmt.Errorf("%w: the requester is not a name", protocol.ErrSpec)
	}
	o := queue.Order{Spec: b, Requester: requester, CreatedMS: a.loop.WallMS()}
	if err == nil {
		err = a.cfg.Policy.AllowedHere(&spec, &o)
	}
	if err == nil && id.IsZero() {
		id, err = a.newID(o.CreatedMS)
	}
	info, _ := protocol.KindOf(spec.Kind)
	o.Action, o.BudgetMS = id, info.StartTTL.Milliseconds()
	var decided []decision
	if err == nil && a.jobs[id] == nil {
		err = a.cfg.Inputs.Sent(requester, &spec)
	}
	if err == nil {
		decided = intakeOf(a).decide([]event{ask(a, protocol.Position{}, o, spec, nil)})
		err = decided[0].wrong
	}
	switch {
	case errors.Is(err, queue.CodeQueueFull):
		return queue.Action{}, queue.ErrFull
	case errors.Is(err, queue.ErrDisk):
		a.loop.Disk(err)
	}
	if err != nil {
		return queue.Action{}, fmt.Errorf("proposing an action: %w", err)
	}
	taken, err := a.commit(decided)
	if err != nil {
		a.loop.Disk(err)
		return queue.Action{}, err
	}
	if j := a.jobs[id]; j != nil {
		return j.act, nil
	}
	return taken[0].Action, nil
}

func (a *Actions) newID(wallMS int64) (protocol.ActionID, error) {
	random, err := a.cfg.Random()
	if err != nil {
		return protocol.ActionID{}, fmt.Errorf("drawing an action id: %w", err)
	}
	return protocol.NewActionID(wallMS, random), nil
}
