package historytest

import (
	"slices"

	"github.com/hostler-io/hostler/protocol"
)

// events are those that move the coordinator's view.
func events() []protocol.Event {
	return []protocol.Event{
		protocol.EventPropose, protocol.EventGrant, protocol.EventApprove, protocol.EventDeny, protocol.EventCancel,
		protocol.EventExpire, protocol.EventHalt, protocol.EventHostUnknown, protocol.EventHostRemoved, protocol.EventHostReplace,
		protocol.EventHostFenced, protocol.EventHostBack, protocol.EventRestored, protocol.EventAccept, protocol.EventRefuse,
		protocol.EventStart, protocol.EventRetry, protocol.EventSucceed, protocol.EventFail, protocol.EventExit,
		protocol.EventSignal, protocol.EventTimeout, protocol.EventInterrupt, protocol.EventNoStart, protocol.EventTargetGone,
		protocol.EventPreempt, protocol.EventCancelled,
	}
}

// reachable reports whether a view can come from one to the other along the
// protocol's table, in any number of steps.
func reachable(from, to Seen) bool {
	if from == to {
		return true
	}
	seen, todo := []Seen{from}, []Seen{from}
	for len(todo) > 0 {
		at := todo[0]
		todo = todo[1:]
		for _, next := range moves(at, to.Reason) {
			if next == to {
				return true
			}
			if !slices.Contains(seen, next) {
				seen, todo = append(seen, next), append(todo, next)
			}
		}
	}
	return false
}

// moves are the views that one event leads to. carried is the reason of an
// event that brings its own.
func moves(from Seen, carried protocol.Reason) []Seen {
	var all []Seen
	for _, e := range events() {
		for _, o := range []protocol.Owner{protocol.OwnerCoordinator, protocol.OwnerObserver} {
			if state, reason, err := from.State.Next(e, o, carried); err == nil {
				all = append(all, Seen{state, reason})
			}
		}
	}
	return all
}
