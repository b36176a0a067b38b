package protocol

import (
	"fmt"
	"slices"
)

// State is where an action stands. The empty state is that of an action that
// does not exist yet.
//
//	                       the coordinator decides          ╎      the agent decides
//	                                                        ╎
//	            propose                  grant              ╎            accept (order)
//	     ┌─────────────────── ∅ ──────────────────┐         ╎         ┌────────────────── ∅
//	     ▼                                        ▼         ╎         ▼
//	PENDING_APPROVE ──approve──▶ PENDING_SCHEDULE ──observed──────▶  NEW ──start──▶ RUNNING ⟲ retry
//	     │                            │    │                ╎         │                │
//	     │ deny, cancel, expire       │    │ unknown,       ╎         │ cancelled,     │ succeed ─▶ DONE
//	     ▼                            │    │ removed        ╎         │ expire         │ fail… ───▶ FAILED
//	CANCELLED ◀──cancel, expire───────┘    ▼                ╎         ▼                │ cancelled ▶ CANCELLED
//	             (never sent)            LOST ◀─unknown, fenced─ NEW, RUNNING          ▼
//	                                       └──observed, once──▶ DONE, FAILED, CANCELLED
//
// The agent owns NEW, RUNNING and what follows: the coordinator never moves an
// action there by itself, it observes signed reports and may jump forward along
// the agent's edges. DONE, FAILED, CANCELLED and LOST are final; each comes
// with a [Reason].
type State string

// The states.
const (
	StateNone            State = ""
	StatePendingApprove  State = "PENDING_APPROVE"  // waits for a person
	StatePendingSchedule State = "PENDING_SCHEDULE" // allowed; may be under way to the host
	StateNew             State = "NEW"              // the host has it durably
	StateRunning         State = "RUNNING"          // the host has begun, or is about to
	StateDone            State = "DONE"
	StateFailed          State = "FAILED"
	StateCancelled       State = "CANCELLED" // never began, or nothing of it is left
	StateLost            State = "LOST"      // the host cannot tell what became of it
)

// States lists every state but the empty one, in the order of a life.
func States() []State {
	return []State{StatePendingApprove, StatePendingSchedule, StateNew, StateRunning,
		StateDone, StateFailed, StateCancelled, StateLost}
}

// Meaning says in one sentence where an action in this state stands.
func (s State) Meaning() string {
	return map[State]string{
		StatePendingApprove:  "It waits for a person's approval.",
		StatePendingSchedule: "It is allowed, and may be on its way to the host.",
		StateNew:             "The host has it, and has not begun.",
		StateRunning:         "The host has begun, or is about to.",
		StateDone:            "It ended as wanted.",
		StateFailed:          "It ended otherwise; the reason tells why.",
		StateCancelled:       "It never began, or nothing of it is left.",
		StateLost:            "The host cannot tell what became of it.",
	}[s]
}

// Final reports whether an action in this state has ended.
func (s State) Final() bool {
	return s == StateDone || s == StateFailed || s == StateCancelled || s == StateLost
}

// Owner is who moves an action.
type Owner string

// The owners.
const (
	OwnerCoordinator Owner = "coordinator" // its own decisions
	OwnerAgent       Owner = "agent"       // the host's own record
	OwnerObserver    Owner = "observer"    // the coordinator's view, moved by signed reports
)

// Event is what happens to an action.
type Event string

// The events. Those that the agent reports are also observed.
const (
	EventPropose     Event = "propose"      // a request that needs approval
	EventGrant       Event = "grant"        // a request that policy allows as it is
	EventApprove     Event = "approve"      // enough people agreed
	EventDeny        Event = "deny"         // one person refused
	EventCancel      Event = "cancel"       // asked for by a person before anything was sent
	EventExpire      Event = "expire"       // the start budget is used up
	EventHalt        Event = "halt"         // another action of its batch failed before it was sent
	EventHostUnknown Event = "host_unknown" // the host answered that it does not know it
	EventHostRemoved Event = "host_removed" // its host was revoked or removed
	EventHostReplace Event = "host_replace" // another machine takes the place of its host
	EventHostFenced  Event = "host_fenced"
	EventHostBack    Event = "host_back"   // its host was rolled back to before it
	EventRestored    Event = "restored"    // the coordinator was restored from a backup
	EventAccept      Event = "accept"      // durable on the host
	EventRefuse      Event = "refuse"      // its content fails at the host; the code is the reason
	EventStart       Event = "start"       // an attempt is about to begin
	EventRetry       Event = "retry"       // another attempt is about to begin
	EventSucceed     Event = "succeed"     // ended as wanted
	EventFail        Event = "fail"        // the operation ended with an error
	EventExit        Event = "exit"        // the command ended with a code other than 0
	EventSignal      Event = "signal"      // the command was ended by a signal that was not ours
	EventTimeout     Event = "timeout"     // the time limit ended it
	EventInterrupt   Event = "interrupt"   // the host or the supervisor died under it
	EventNoStart     Event = "no_start"    // the command could not begin
	EventTargetGone  Event = "target_gone" // its container was destroyed while it waited
	EventPreempt     Event = "preempt"     // a stop that may not wait ended it
	EventCancelled   Event = "cancelled"   // a cancel won, and nothing of it is left
	EventTell        Event = "tell"        // no change: an answer about the present state
)

// Reason says why an action stands where it stands. Final states always have
// one. A refusal's reason is its [Code].
type Reason string

// The reasons of the table.
const (
	ReasonOK          Reason = "ok"
	ReasonError       Reason = "error"
	ReasonExit        Reason = "exit"
	ReasonSignal      Reason = "signal"
	ReasonTimeout     Reason = "timeout"
	ReasonInterrupted Reason = "interrupted"
	ReasonNoStart     Reason = "no_start"
	ReasonTargetGone  Reason = "target_gone"
	ReasonPreempted   Reason = "preempted"
	ReasonCancelled   Reason = "cancelled"
	ReasonExpired     Reason = "expired"
	ReasonDisapproved Reason = "disapproved"
	ReasonHalted      Reason = "halted"
	ReasonUnknown     Reason = "unknown_to_host"
	ReasonRemoved     Reason = "host_removed"
	ReasonReplaced    Reason = "host_replaced"
	ReasonFenced      Reason = "host_fenced"
	ReasonRolledBack  Reason = "host_rolled_back"
	ReasonRestored    Reason = "coordinator_restored"
)

// Reasons says in one sentence what each reason of the table means.
func Reasons() map[Reason]string {
	return map[Reason]string{
		ReasonOK:          "It ended as wanted.",
		ReasonError:       "The operation ended with an error; the detail tells it.",
		ReasonExit:        "The command ended with a code other than 0.",
		ReasonSignal:      "A signal ended the command, and it was not the agent's.",
		ReasonTimeout:     "The time limit ended it.",
		ReasonInterrupted: "The host or the supervisor died under it.",
		ReasonNoStart:     "The command could not begin.",
		ReasonTargetGone:  "Its container was destroyed while it waited.",
		ReasonPreempted:   "A stop that may not wait ended it.",
		ReasonCancelled:   "A person cancelled it.",
		ReasonExpired:     "It had not begun in time, and never will.",
		ReasonDisapproved: "A person denied it.",
		ReasonHalted:      "Another action of its batch failed before this one was sent.",
		ReasonUnknown:     "The host answered that it does not know it.",
		ReasonRemoved:     "Its host was revoked or removed.",
		ReasonReplaced:    "Another machine took the place of its host.",
		ReasonFenced:      "Its host was fenced.",
		ReasonRolledBack:  "Its host was rolled back to before it.",
		ReasonRestored:    "The coordinator was restored from a backup.",
	}
}

// ErrTransition tells that an action cannot move that way.
const ErrTransition Code = "transition"

// transition is one row: who may move an action by which event from where to
// where, and the reason it then has. The reason "*" is carried by the event: a
// refusal's code, or what a report says.
type transition struct {
	owner  Owner
	event  Event
	from   []State
	to     State
	reason Reason
}

const carried Reason = "*"

// table is built once and never written.
var table = transitions()

// open are the states in which an action may still be anywhere on its host.
func open() []State { return []State{StatePendingSchedule, StateNew, StateRunning} }

// transitions is the whole table. What is not here is illegal.
func transitions() []transition {
	none, approve, schedule := []State{StateNone}, []State{StatePendingApprove}, []State{StatePendingSchedule}
	fresh, running := []State{StateNew}, []State{StateRunning}
	both := []State{StateNew, StateRunning}
	// waiting are the states of a coordinator's view whose action a host has not
	// spoken of yet: ∅ is one that began on the host while nobody could be
	// reached, and one that waits for approval in a view that was restored from
	// a backup was perhaps approved since. seen are those in which a report may
	// find the view.
	waiting := []State{StateNone, StatePendingApprove, StatePendingSchedule}
	seen := append(waiting[:3:3], StateNew, StateRunning, StateLost)
	return []transition{
		{OwnerCoordinator, EventPropose, none, StatePendingApprove, ""},
		{OwnerCoordinator, EventGrant, none, StatePendingSchedule, ""},
		{OwnerCoordinator, EventApprove, approve, StatePendingSchedule, ""},
		{OwnerCoordinator, EventDeny, approve, StateCancelled, ReasonDisapproved},
		// Of an action in PENDING_SCHEDULE the caller must know that no number
		// was given to its order yet: afterwards only the host may end it.
		{OwnerCoordinator, EventCancel, append(approve, schedule...), StateCancelled, ReasonCancelled},
		{OwnerCoordinator, EventExpire, append(approve, schedule...), StateCancelled, ReasonExpired},
		{OwnerCoordinator, EventHalt, schedule, StateCancelled, ReasonHalted}, // without a number, as a cancel
		{OwnerCoordinator, EventHostUnknown, open(), StateLost, ReasonUnknown},
		{OwnerCoordinator, EventHostRemoved, approve, StateCancelled, ReasonRemoved},
		{OwnerCoordinator, EventHostRemoved, open(), StateLost, ReasonRemoved},
		{OwnerCoordinator, EventHostReplace, approve, StateCancelled, ReasonReplaced},
		{OwnerCoordinator, EventHostReplace, open(), StateLost, ReasonReplaced},
		{OwnerCoordinator, EventHostFenced, open(), StateLost, ReasonFenced},
		{OwnerCoordinator, EventHostBack, open(), StateLost, ReasonRolledBack},
		{OwnerCoordinator, EventRestored, open(), StateLost, ReasonRestored},

		{OwnerAgent, EventAccept, none, StateNew, ""},
		{OwnerAgent, EventRefuse, none, StateFailed, carried},
		{OwnerAgent, EventExpire, append(none, fresh...), StateCancelled, ReasonExpired},
		{OwnerAgent, EventCancelled, append(none, both...), StateCancelled, ReasonCancelled},
		{OwnerAgent, EventStart, fresh, StateRunning, ""},
		{OwnerAgent, EventRetry, running, StateRunning, ""},
		{OwnerAgent, EventTargetGone, both, StateFailed, ReasonTargetGone},
		{OwnerAgent, EventSucceed, running, StateDone, ReasonOK},
		{OwnerAgent, EventFail, both, StateFailed, ReasonError},
		{OwnerAgent, EventExit, running, StateFailed, ReasonExit},
		{OwnerAgent, EventSignal, running, StateFailed, ReasonSignal},
		{OwnerAgent, EventTimeout, running, StateFailed, ReasonTimeout},
		{OwnerAgent, EventInterrupt, running, StateFailed, ReasonInterrupted},
		{OwnerAgent, EventNoStart, running, StateFailed, ReasonNoStart},
		{OwnerAgent, EventPreempt, both, StateFailed, ReasonPreempted},

		// The observer may jump forward along the agent's edges, and a report
		// that comes late corrects a LOST.
		{OwnerObserver, EventAccept, waiting, StateNew, ""},
		{OwnerObserver, EventStart, append(waiting[:3:3], StateNew), StateRunning, ""},
		{OwnerObserver, EventRetry, append(waiting[:3:3], StateNew, StateRunning), StateRunning, ""},
		{OwnerObserver, EventRefuse, append(waiting[:3:3], StateLost), StateFailed, carried},
		{OwnerObserver, EventExpire, seen, StateCancelled, ReasonExpired},
		{OwnerObserver, EventCancelled, seen, StateCancelled, ReasonCancelled},
		{OwnerObserver, EventTargetGone, seen, StateFailed, ReasonTargetGone},
		{OwnerObserver, EventSucceed, seen, StateDone, ReasonOK},
		{OwnerObserver, EventFail, seen, StateFailed, ReasonError},
		{OwnerObserver, EventExit, seen, StateFailed, ReasonExit},
		{OwnerObserver, EventSignal, seen, StateFailed, ReasonSignal},
		{OwnerObserver, EventTimeout, seen, StateFailed, ReasonTimeout},
		{OwnerObserver, EventInterrupt, seen, StateFailed, ReasonInterrupted},
		{OwnerObserver, EventNoStart, seen, StateFailed, ReasonNoStart},
		{OwnerObserver, EventPreempt, seen, StateFailed, ReasonPreempted},
	}
}

// Next moves an action. It is pure; the caller makes the result durable before
// it acts or tells of it. carry is the reason for a row that carries one (a
// refusal's code) and is ignored elsewhere. An illegal move is [ErrTransition]
// and leaves the action where it is.
func (s State) Next(e Event, o Owner, carry Reason) (State, Reason, error) {
	for _, t := range table {
		if t.owner != o || t.event != e || !slices.Contains(t.from, s) {
			continue
		}
		if t.reason != carried {
			return t.to, t.reason, nil
		}
		if carry == "" {
			return s, "", fmt.Errorf("%w: %s of an action by the %s needs a reason", ErrTransition, e, o)
		}
		return t.to, carry, nil
	}
	from := s
	if from == StateNone {
		from = "nothing"
	}
	return s, "", fmt.Errorf("%w: %s cannot move an action from %s for the %s", ErrTransition, e, from, o)
}

// Observe moves the coordinator's view of an action by what its host reports.
// A view that knows as much already stays where it is, so that answers to a
// tell and repeated evidence are no error. What the view cannot follow is
// [ErrTransition] and changes nothing: so is the answer that the host does not
// know the action, which [EventHostUnknown] is for.
func (r *Report) Observe(view State, reason Reason) (State, Reason, error) {
	if r.State == view && r.Reason == reason {
		return view, reason, nil
	}
	e := r.Event
	if e == EventTell {
		e = r.lastEvent()
	}
	return view.Next(e, OwnerObserver, r.Reason)
}

// lastEvent finds an event that leads an agent's record to where an answer
// says it is.
func (r *Report) lastEvent() Event {
	for _, t := range table {
		if t.fits(OwnerAgent, r) {
			return t.event
		}
	}
	return EventTell
}

// fits reports whether the row may be what led to the state of a report. A
// refusal's code is none of the reasons of the table.
func (t *transition) fits(o Owner, r *Report) bool {
	if t.owner != o || t.to != r.State {
		return false
	}
	fixed := func(u transition) bool { return u.reason == r.Reason }
	return t.reason == r.Reason || t.reason == carried && r.Reason != carried && !slices.ContainsFunc(table, fixed)
}
