// Package historytest judges what was seen of a fleet whose processes were
// killed: by those who asked for actions, by the files that the actions wrote,
// by the journal of events and by the records of both sides at the end.
//
// The promises that it holds a history to are those of ARCHITECTURE.md: nothing
// that was acknowledged is missing; every action ends in exactly one final
// state, which both sides know; a view moves along the protocol's table alone;
// and an action that may run once has at most one effect.
package historytest

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/hostler-io/hostler/protocol"
)

// Verb is what a requester does.
type Verb string

// The verbs.
const (
	Submit  Verb = "submit"  // asks for an action, perhaps again
	Cancel  Verb = "cancel"  // asks for its end
	Observe Verb = "observe" // looks at it
)

// Seen is how an action looks to somebody. The zero value is an action that
// nobody knows.
type Seen struct {
	State  protocol.State
	Reason protocol.Reason
}

func (s Seen) String() string {
	if s.State == protocol.StateNone {
		return "unknown"
	}
	return string(s.State) + " " + string(s.Reason)
}

// Known are actions that were asked for, by what they promise.
type Known struct {
	Kind protocol.Kind
	Host protocol.HostID
	// Witnessed tells that the action writes a line at its begin and one at its
	// end; others leave no trace to be counted.
	Witnessed bool
	// Waits tells that the action waits for approval first.
	Waits bool
}

// Transition is one event of the journal about an action.
type Transition struct {
	Action   protocol.ActionID
	From, To Seen // the reason of From is not told
}

// request is one thing that a requester did.
type request struct {
	verb     Verb
	call     time.Duration
	answered time.Duration
	answer   bool // there was one
	seen     Seen // by an Observe
}

// History collects. Its methods may be called from any goroutine; the fields
// for what is known at the end are set before Check.
type History struct {
	mu       sync.Mutex
	begin    time.Time
	known    map[protocol.ActionID]Known
	requests map[protocol.ActionID][]request
	acked    map[protocol.ActionID]bool

	// Journal are the events, in order.
	Journal []Transition
	// Coordinator and Hosts are the records at the end, when all is quiet. A
	// host may have forgotten what ended.
	Coordinator, Hosts map[protocol.ActionID]Seen
	// Begun and Ended count the lines that actions wrote.
	Begun, Ended map[protocol.ActionID]int
	// Removed are the hosts that were revoked or replaced: their actions may be
	// LOST.
	Removed map[protocol.HostID]bool
}

// New returns an empty history that begins now.
func New() *History {
	return &History{
		begin: time.Now(), known: make(map[protocol.ActionID]Known), requests: make(map[protocol.ActionID][]request),
		acked:       make(map[protocol.ActionID]bool),
		Coordinator: make(map[protocol.ActionID]Seen), Hosts: make(map[protocol.ActionID]Seen),
		Begun: make(map[protocol.ActionID]int), Ended: make(map[protocol.ActionID]int), Removed: make(map[protocol.HostID]bool),
	}
}

// Know notes what an action is, before anybody asks for it.
func (h *History) Know(id protocol.ActionID, k Known) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.known[id] = k
}

// Call notes that a request begins; the function that it returns notes the
// answer, and is not called if there was none: then it may have had its effect,
// or may still have it.
func (h *History) Call(verb Verb, id protocol.ActionID) (answered func(Seen)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	at := len(h.requests[id])
	h.requests[id] = append(h.requests[id], request{verb: verb, call: time.Since(h.begin)})
	return func(seen Seen) {
		h.mu.Lock()
		defer h.mu.Unlock()
		r := &h.requests[id][at]
		r.answered, r.answer, r.seen = time.Since(h.begin), true, seen
		if verb == Submit {
			h.acked[id] = true
		}
	}
}

// Acked are the actions whose request was acknowledged.
func (h *History) Acked() []protocol.ActionID {
	h.mu.Lock()
	defer h.mu.Unlock()
	var ids []protocol.ActionID
	for id := range h.acked {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b protocol.ActionID) int { return cmp.Compare(a.String(), b.String()) })
	return ids
}

// Check returns every promise that the history breaks, as sentences.
func (h *History) Check() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var broken []string
	report := func(format string, args ...any) { broken = append(broken, fmt.Sprintf(format, args...)) }
	for id := range h.acked {
		if _, ok := h.Coordinator[id]; !ok {
			report("action %s was acknowledged and is missing", id)
		}
	}
	for id, end := range h.Coordinator {
		h.checkEnd(id, end, report)
		h.checkEffect(id, end, report)
	}
	for id := range h.Begun {
		if _, ok := h.Coordinator[id]; !ok {
			report("action %s has run and nobody knows it", id)
		}
	}
	h.checkJournal(report)
	h.checkRequests(report)
	slices.Sort(broken)
	return broken
}

// checkEnd wants one final state, the same on both sides.
func (h *History) checkEnd(id protocol.ActionID, end Seen, report func(string, ...any)) {
	k := h.known[id]
	switch {
	case !end.State.Final():
		report("action %s has not ended: it is %s", id, end)
	case end.State == protocol.StateLost && !h.Removed[k.Host]:
		report("action %s is %s on a host that was never removed", id, end)
	}
	if there, ok := h.Hosts[id]; ok && there != end && !h.Removed[k.Host] {
		report("action %s is %s to the coordinator and %s on its host", id, end, there)
	}
}

// neverBegan are the ends of what has had no effect.
var neverBegan = []protocol.Reason{protocol.ReasonExpired, protocol.ReasonNoStart, protocol.ReasonDisapproved, protocol.ReasonHalted, protocol.ReasonTargetGone}

// checkEffect compares the end with the traces that the action has left.
func (h *History) checkEffect(id protocol.ActionID, end Seen, report func(string, ...any)) {
	k := h.known[id]
	info, _ := protocol.KindOf(k.Kind)
	begun, ended := h.Begun[id], h.Ended[id]
	if begun > max(1, info.Attempts) {
		report("action %s may run %d times and has begun %d times", id, max(1, info.Attempts), begun)
	}
	if ended > begun {
		report("action %s has begun %d times and ended %d times", id, begun, ended)
	}
	if !k.Witnessed {
		return
	}
	if end.State == protocol.StateDone && (begun == 0 || ended == 0) {
		report("action %s is %s, has begun %d times and ended %d times", id, end, begun, ended)
	}
	if begun > 0 && end.State.Final() && slices.Contains(neverBegan, end.Reason) {
		report("action %s is %s and has begun %d times", id, end, begun)
	}
}

// checkJournal follows the events of each action.
func (h *History) checkJournal(report func(string, ...any)) {
	last := make(map[protocol.ActionID]Seen)
	for _, e := range h.Journal {
		before := last[e.Action]
		switch {
		case e.From.State != before.State:
			report("action %s was %s and moved from %s to %s", e.Action, before, e.From.State, e.To)
		case before.State.Final() && before.State != protocol.StateLost:
			report("action %s was %s and then %s", e.Action, before, e.To)
		case !reachable(before, e.To):
			report("action %s cannot move from %s to %s", e.Action, before, e.To)
		}
		last[e.Action] = e.To
	}
	for id, end := range h.Coordinator {
		if got, ok := last[id]; ok && got != end {
			report("action %s is %s, and the journal ends with %s", id, end, got)
		}
	}
}

// checkRequests looks for an order of the requests of each action, within the
// times at which they were made and answered, in which each answer is true.
func (h *History) checkRequests(report func(string, ...any)) {
	for id, requests := range h.requests {
		ops := make([]porcupine.Operation, 0, len(requests))
		for i, r := range requests {
			if !r.answer && r.verb == Observe {
				continue
			}
			op := porcupine.Operation{ClientId: i, Input: r.verb, Output: r.seen, Call: int64(r.call), Return: int64(r.answered)}
			if !r.answer {
				op.Return = math.MaxInt64 // it may take effect at any time
			}
			ops = append(ops, op)
		}
		if !porcupine.CheckOperations(register(h.known[id].Waits), ops) {
			report("action %s: no order of its requests explains the answers: %s", id, describe(requests))
		}
	}
}

// register is the model of one action: what its requesters and those who look
// at it may see. One that waits is asked for in vain until people approve it.
func register(waits bool) porcupine.Model {
	first := Seen{State: protocol.StatePendingSchedule}
	if waits {
		first.State = protocol.StatePendingApprove
	}
	return porcupine.Model{
		Init: func() any { return Seen{} },
		Step: func(state, input, output any) (bool, any) {
			was, seen := state.(Seen), output.(Seen)
			exists := was.State != protocol.StateNone
			switch input.(Verb) {
			case Submit:
				if exists {
					return true, was
				}
				return true, first
			case Cancel:
				// Without an answer it may come before its action, or never.
				return exists || seen == Seen{}, was
			}
			if was == seen {
				return true, was
			}
			return exists && reachable(was, seen), seen
		},
	}
}

func describe(requests []request) string {
	var s string
	for _, r := range requests {
		s += fmt.Sprintf("\n\t%8.3fs–%8.3fs %s", r.call.Seconds(), r.answered.Seconds(), r.verb)
		switch {
		case !r.answer:
			s += ": no answer"
		case r.verb == Observe:
			s += ": " + r.seen.String()
		}
	}
	return s
}
