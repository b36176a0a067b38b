package actions

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/protocol"
)

// Deciding about orders is pure: what is open, and what other rooms say of an order, goes
// in; what is to be stored, and the lanes that this will take, come out. The shell is in
// accept.go. It takes the lanes when the orders are durable.

// intake is the state in which orders are decided upon.
type intake struct {
	lanes    lanes
	pending  iter.Seq[*protocol.Spec] // of the actions that have not ended
	open     int                      // how many these are
	maxOpen  int                      // see [Config]
	sessions int
	host     protocol.HostID
	begins   bool // actions may begin: the disk takes their start, and the agent is not stopping
	claimed  bool // one of these orders begins and takes what the others may want; see [Claimer]
}

// event is an order, and what other rooms say of it.
type event struct {
	at    protocol.Position
	order queue.Order
	spec  *protocol.Spec
	wrong error                  // why it is refused; nil if nothing is known against it
	known bool                   // an action of its id is open: the queue finds out whether it is the same
	lacks bool                   // its input is not on the host
	name  protocol.ContainerName // that its container has
	// misnamed says whether the order calls its container by a wrong name, if what is
	// pending comes before. prepare says what its start makes durable, or how it ends
	// instead. Both only read.
	misnamed func(pending iter.Seq[*protocol.Spec]) error
	prepare  func() (queue.Change, *queue.Step)
	// atOnce tells that the action ends as it begins, brief that it may end before its
	// start is reported.
	atOnce, brief bool
	claims        bool // see [Claimer]
}

// decision is what is decided about an order, until that is durable.
type decision struct {
	arrival queue.Arrival
	spec    *protocol.Spec
	wrong   error     // why the action ends as it comes; nil if it does not
	lane    laneEntry // to be taken when the action is durable
	laned   bool      // lane is to be taken
}

// decide decides about orders that came one after the other: about each as if those before
// it were accepted. No id is among them twice. Nothing of s changes.
func (s intake) decide(events []event) []decision {
	s.lanes.entries = slices.Grow(slices.Clip(s.lanes.entries), len(events))
	var accepted []*protocol.Spec
	all := func(yield func(*protocol.Spec) bool) {
		for spec := range s.pending {
			if !yield(spec) {
				return
			}
		}
		for _, spec := range accepted {
			if !yield(spec) {
				return
			}
		}
	}
	decided := make([]decision, len(events))
	for i := range events {
		d := s.one(&events[i], all)
		if d.laned {
			s.lanes.add(d.lane)
			accepted = append(accepted, d.spec)
		}
		s.open++
		decided[i] = d
	}
	return decided
}

// one decides about one order. Of an action that is known already nothing begins. The
// specs of what is pending are walked only for a name that is not known: there may be
// 10,000.
func (s *intake) one(e *event, pending iter.Seq[*protocol.Spec]) decision {
	o, d := e.order, decision{spec: e.spec, wrong: e.wrong}
	if d.wrong == nil && !e.known {
		if d.wrong = s.full(e.spec); d.wrong == nil {
			d.wrong = cmp.Or(e.misnamed(pending), s.noSession(e))
		}
	}
	switch {
	case d.wrong != nil:
		code, ok := errors.AsType[protocol.Code](d.wrong)
		if !ok {
			code = protocol.ErrSpec
		}
		o.Refusal, o.Detail = code, d.wrong.Error()
	case !e.known && o.BudgetMS > 0:
		d.lane = s.entry(e)
		if s.begins && s.lanes.fits(d.lane) && !(e.claims && s.claimed) {
			if change, end := e.prepare(); end == nil {
				o.Begin, o.Done, o.Brief = &change, e.atOnce, e.brief
				s.claimed = s.claimed || e.claims
			}
		}
		d.lane.running, d.laned = o.Begin != nil, !o.Done
	}
	d.arrival = queue.Arrival{At: e.at, Order: o}
	return d
}

// entry is where an action stands among the lanes if it is accepted.
func (s *intake) entry(e *event) laneEntry {
	l := s.lanes.naming(s.lanes.strict(laneOf(e.order.Action, e.spec)), e.spec, e.name)
	l.lacks = e.lacks
	return l
}

// maxPreempts is how many actions that preempt may be here beyond those that may
// be open: what has filled the host can be stopped at once, each container that
// one has.
const maxPreempts = 1000

// full refuses an action on a host that has too many open ones.
func (s *intake) full(spec *protocol.Spec) error {
	most := s.maxOpen
	if info, _ := protocol.KindOf(spec.Kind); info.Lane == protocol.LanePreempt {
		most += maxPreempts
	}
	if s.open < most {
		return nil
	}
	return fmt.Errorf("%w: %d actions have not ended here; cancel some, or ask again when they have", queue.CodeQueueFull, s.maxOpen)
}

// noSession refuses a session that could not begin because too many are open: a person
// waits for it, and would see nothing happen.
func (s *intake) noSession(e *event) error {
	if !e.spec.Kind.Interactive() || s.lanes.fits(s.entry(e)) {
		return nil
	}
	return fmt.Errorf("%w: %d are open on host %s, as many as it has (sessions.parallel of its agent); end one of them, or wait for its end",
		protocol.ErrTooManySessions, s.sessions, s.host)
}
