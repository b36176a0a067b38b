package actions

import (
	"cmp"
	"errors"
	"fmt"
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

// staged is an action that is decided upon and not durable yet.
type staged struct {
	arrival queue.Arrival
	spec    protocol.Spec
	entry   laneEntry
	laned   bool // entry is among the lanes
}

// staging are actions that become durable together, and begin together as far as
// they may.
type staging struct {
	actions *Actions
	all     []staged
}

// Take takes orders in that came one after the other, in as few transactions as
// can be, and begins what may begin. It returns how many of them, from the first,
// are durable; the others come again.
func (a *Actions) Take(orders []Order) (durable int) {
	s := staging{actions: a}
	for i := range orders {
		o, spec, err := a.judge(&orders[i])
		if errors.Is(err, queue.ErrDisk) {
			a.loop.Disk(err)
			break // nothing of it was taken in
		}
		if s.has(o.Action) {
			if !s.take() {
				return durable
			}
			durable = i
		}
		s.add(orders[i].At, o, spec, err)
	}
	if n := len(s.all); s.take() {
		durable += n
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
	s := staging{actions: a}
	s.add(order.At, o, spec, err)
	_, err = s.commit()
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

func (s *staging) has(id protocol.ActionID) bool {
	return slices.ContainsFunc(s.all, func(o staged) bool { return o.arrival.Order.Action == id })
}

// add decides about an action as if those before it were accepted. wrong is why it
// is refused; nil if it is not. Of an action that is known already nothing begins:
// the queue finds out.
func (s *staging) add(at protocol.Position, o queue.Order, spec protocol.Spec, wrong error) {
	a := s.actions
	n := staged{spec: spec}
	if wrong == nil && len(a.jobs)+len(s.all) >= a.maxOpen(&spec) {
		wrong = fmt.Errorf("%w: %d actions have not ended here; cancel some, or ask again when they have", queue.CodeQueueFull, a.cfg.MaxOpen)
	}
	if wrong == nil && a.jobs[o.Action] == nil {
		wrong = cmp.Or(a.cfg.Rooms.Misnamed(&spec, s.pending), a.roomForSession(o.Action, &spec))
	}
	if code, ok := errors.AsType[protocol.Code](wrong); ok {
		o.Refusal, o.Detail = code, wrong.Error()
	} else if a.jobs[o.Action] == nil && o.BudgetMS > 0 {
		n.entry = a.entryOf(o.Action, &spec)
		n.entry.lacks = a.cfg.Inputs.Lacks(&spec)
		if a.loop.Degraded() == "" && !a.loop.Stopping() && a.lanes.fits(n.entry) {
			h := a.cfg.Handlers[spec.Kind]
			if change, end := h.Prepare(&spec); end == nil {
				o.Begin = &change
				i, ok := h.(Instant)
				o.Done = ok && i.EndsAtOnce()
				b, ok := h.(Brief)
				o.Brief = ok && b.MayBeBrief(&spec)
			}
		}
		if !o.Done {
			n.entry.running = o.Begin != nil
			n.laned = true
			a.lanes.add(n.entry)
		}
	}
	n.arrival = queue.Arrival{At: at, Order: o}
	s.all = append(s.all, n)
}

// pending are the specs of what is accepted and has not ended, or is about to be.
// They are walked only for a name that is not known: there may be 10,000.
func (s *staging) pending(yield func(*protocol.Spec) bool) {
	for _, j := range s.actions.jobs {
		if !yield(&j.spec) {
			return
		}
	}
	for i := range s.all {
		if s.all[i].laned && !yield(&s.all[i].spec) {
			return
		}
	}
}

// maxPreempts is how many actions that preempt may be here beyond those that may
// be open: what has filled the host can be stopped at once, each container that
// one has.
const maxPreempts = 1000

// maxOpen is the number of open actions at which an action like this is refused.
func (a *Actions) maxOpen(s *protocol.Spec) int {
	if info, _ := protocol.KindOf(s.Kind); info.Lane == protocol.LanePreempt {
		return a.cfg.MaxOpen + maxPreempts
	}
	return a.cfg.MaxOpen
}

// roomForSession refuses a session that could not begin because too many are open:
// a person waits for it, and would see nothing happen.
func (a *Actions) roomForSession(id protocol.ActionID, spec *protocol.Spec) error {
	if !spec.Kind.Interactive() || a.lanes.fits(a.entryOf(id, spec)) {
		return nil
	}
	return fmt.Errorf("%w: %d are open on host %s, as many as it has (sessions.parallel of its agent); end one of them, or wait for its end",
		protocol.ErrTooManySessions, a.cfg.Sessions, a.cfg.Host)
}

// take makes durable what was added, and begins what may begin. If the disk does
// not take it, nothing was received.
func (s *staging) take() bool {
	if len(s.all) == 0 {
		return true
	}
	_, err := s.commit()
	return s.actions.loop.Disk(err)
}

// commit leaves nothing staged, whether it succeeds or not. An agent that is
// degraded does not try: what space there may be is for ends.
func (s *staging) commit() ([]queue.Accepted, error) {
	a, all := s.actions, s.all
	s.all = nil
	arrivals := make([]queue.Arrival, len(all))
	for i, n := range all {
		arrivals[i] = n.arrival
	}
	var taken []queue.Accepted
	a.cfg.Rooms.Spare()
	err := fmt.Errorf("nothing new is accepted: %s: %w", a.loop.Degraded(), queue.ErrDisk)
	if a.loop.Degraded() == "" {
		taken, err = a.cfg.Store.AcceptOrders(a.loop.Steps(), arrivals, a.loop.When())
	}
	for i, n := range all {
		if n.laned && (err != nil || !taken[i].Fresh || taken[i].Action.State.Final()) {
			a.lanes.remove(n.entry.id)
		}
	}
	if err != nil {
		return nil, err
	}
	for i, n := range all {
		a.accepted(n, taken[i])
	}
	return taken, nil
}

// accepted goes on with an action that is durable.
func (a *Actions) accepted(n staged, t queue.Accepted) {
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
	j := &Job{actions: a, act: act, spec: n.spec}
	a.jobs[act.ID] = j
	a.Changed(act.ID)
	a.cfg.Inputs.Keep(act.ID, &j.spec, n.entry.lacks)
	if act.State == protocol.StateRunning {
		a.cfg.Rooms.Applied(*n.arrival.Order.Begin)
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
	s := staging{actions: a}
	if err == nil && a.jobs[id] == nil {
		err = cmp.Or(a.cfg.Rooms.Misnamed(&spec, s.pending), a.roomForSession(id, &spec))
	}
	if err != nil {
		if errors.Is(err, queue.ErrDisk) {
			a.loop.Disk(err)
		}
		return queue.Action{}, fmt.Errorf("proposing an action: %w", err)
	}
	if len(a.jobs) >= a.maxOpen(&spec) && a.jobs[id] == nil {
		return queue.Action{}, queue.ErrFull
	}
	info, _ := protocol.KindOf(spec.Kind)
	o.Action, o.BudgetMS = id, info.StartTTL.Milliseconds()
	s.add(protocol.Position{}, o, spec, nil)
	taken, err := s.commit()
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
