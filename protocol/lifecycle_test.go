package protocol_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/protocol"
)

var owners = []protocol.Owner{protocol.OwnerCoordinator, protocol.OwnerAgent, protocol.OwnerObserver}

var events = []protocol.Event{
	protocol.EventPropose, protocol.EventGrant, protocol.EventApprove, protocol.EventDeny, protocol.EventCancel, protocol.EventExpire,
	protocol.EventHalt, protocol.EventHostUnknown, protocol.EventHostRemoved, protocol.EventHostReplace, protocol.EventHostFenced, protocol.EventHostBack,
	protocol.EventRestored, protocol.EventAccept, protocol.EventRefuse, protocol.EventStart, protocol.EventRetry, protocol.EventSucceed,
	protocol.EventFail, protocol.EventExit, protocol.EventSignal, protocol.EventTimeout, protocol.EventInterrupt, protocol.EventNoStart,
	protocol.EventTargetGone, protocol.EventPreempt, protocol.EventCancelled, protocol.EventTell,
}

// allStates are the states and the empty one, by the name they have in files.
func allStates() []protocol.State {
	return append([]protocol.State{protocol.StateNone}, protocol.States()...)
}

func stateName(s protocol.State) string {
	if s == protocol.StateNone {
		return "∅"
	}
	return string(s)
}

// aCode is the reason that a row which carries one is given.
const aCode = protocol.Reason("bad_spec")

const lifecycleFile = "testdata/lifecycle.txt"

// move is one row of the golden table.
type move struct {
	owner  protocol.Owner
	event  protocol.Event
	from   []protocol.State
	to     protocol.State
	reason protocol.Reason
}

// moves asks Next about everything there is, and gathers what is legal.
func moves() []move {
	var list []move
	for _, o := range owners {
		for _, e := range events {
			for _, s := range allStates() {
				to, reason, err := s.Next(e, o, aCode)
				if err != nil {
					continue
				}
				same := func(m move) bool { return m.owner == o && m.event == e && m.to == to && m.reason == reason }
				if i := slices.IndexFunc(list, same); i >= 0 {
					list[i].from = append(list[i].from, s)
					continue
				}
				list = append(list, move{o, e, []protocol.State{s}, to, reason})
			}
		}
	}
	return list
}

func (m *move) fromNames() string {
	var names []string
	for _, s := range m.from {
		names = append(names, stateName(s))
	}
	return strings.Join(names, ", ")
}

// TestLifecycle holds every state × event × owner against the golden file: what
// does not stand there is illegal and leaves the action where it was.
func TestLifecycle(t *testing.T) {
	var b strings.Builder
	b.WriteString("# owner event: from, … -> to (reason). Everything else is illegal.\n# The reason of a refusal is its code; " + string(aCode) + " stands for it.\n")
	for _, m := range moves() {
		fmt.Fprintf(&b, "%s %s: %s -> %s", m.owner, m.event, m.fromNames(), stateName(m.to))
		if m.reason != "" {
			fmt.Fprintf(&b, " (%s)", m.reason)
		}
		b.WriteString("\n")
	}
	compareFile(t, lifecycleFile, []byte(b.String()))

	for _, s := range allStates() {
		for _, e := range events {
			for _, o := range owners {
				to, reason, err := s.Next(e, o, aCode)
				switch {
				case err != nil && (!errors.Is(err, protocol.ErrTransition) || to != s || reason != ""):
					t.Errorf("%s %s in %s: %s, now %s(%s)", o, e, stateName(s), err, to, reason)
				case err == nil && to.Final() != (reason != ""):
					t.Errorf("%s %s in %s: %s has the reason %q", o, e, stateName(s), to, reason)
				case err == nil && s.Final() && (s != protocol.StateLost || o != protocol.OwnerObserver || !to.Final()):
					t.Errorf("%s %s leaves the final state %s for %s", o, e, s, to)
				case err == nil && o == protocol.OwnerCoordinator && (to == protocol.StateNew || to == protocol.StateRunning):
					t.Errorf("the coordinator moves an action to %s by %s", to, e)
				}
			}
		}
	}
	if _, _, err := protocol.StateNone.Next(protocol.EventRefuse, protocol.OwnerAgent, ""); !errors.Is(err, protocol.ErrTransition) {
		t.Errorf("a refusal without a code: %v", err)
	}
}

// path is what one action does on its host: the reports, the last one final.
type path []*protocol.Report

// paths lists every life that an agent can give an action, with at most two
// retries.
func paths(s protocol.State, reason protocol.Reason, so path) []path {
	if s.Final() {
		return []path{slices.Clone(so)}
	}
	var list []path
	for _, e := range events {
		to, reason, err := s.Next(e, protocol.OwnerAgent, aCode)
		if err != nil || len(so) == 4 && !to.Final() {
			continue
		}
		r := &protocol.Report{Action: anAction, Event: e, State: to, Reason: reason}
		list = append(list, paths(to, reason, append(so, r))...)
	}
	return list
}

// TestObserver composes every life of an action with the coordinator's view:
// whatever intermediate reports are missing, wherever the coordinator declares
// the action lost, and whether the end is reported or told, both agree at last.
func TestObserver(t *testing.T) {
	all := paths(protocol.StateNone, "", nil)
	for _, p := range all {
		last := p[len(p)-1]
		for missing := range 1 << (len(p) - 1) {
			for lost := range len(p) + 1 {
				for _, tell := range []bool{false, true} {
					for _, view := range []protocol.State{protocol.StateNone, protocol.StatePendingApprove, protocol.StatePendingSchedule} {
						got, reason := observe(t, p, view, missing, lost, tell)
						if got != last.State || reason != last.Reason {
							t.Fatalf("view %s(%s), host %s(%s): from %s, %d reports, missing %b, lost before %d, told %t",
								got, reason, last.State, last.Reason, stateName(view), len(p), missing, lost, tell)
						}
					}
				}
			}
		}
	}
	if len(all) < 30 {
		t.Errorf("only %d paths", len(all))
	}
}

// observe moves a view by the reports of a path that are not missing. Before
// report number lost the coordinator is told that the host is gone.
func observe(t *testing.T, p path, view protocol.State, missing, lost int, tell bool) (protocol.State, protocol.Reason) {
	t.Helper()
	var reason protocol.Reason
	for i, r := range p {
		if i == lost {
			if s, why, err := view.Next(protocol.EventHostFenced, protocol.OwnerCoordinator, ""); err == nil {
				view, reason = s, why
			}
		}
		if missing&(1<<i) != 0 {
			continue
		}
		if tell {
			told := *r
			told.Event = protocol.EventTell
			r = &told
		}
		before, beforeReason := view, reason
		s, why, err := r.Observe(view, reason)
		if err != nil && (s != before || !before.Final()) {
			t.Fatalf("%s in view %s(%s): %s", r.Event, before, beforeReason, err)
		}
		if err == nil {
			view, reason = s, why
		}
		if again, againWhy, err := r.Observe(view, reason); err == nil && (again != view || againWhy != reason) {
			t.Fatalf("%s moves the view twice: %s, then %s", r.Event, view, again)
		}
	}
	return view, reason
}

// TestObserveUnknown tells apart "does not know it" from every state there is.
func TestObserveUnknown(t *testing.T) {
	unknown := &protocol.Report{Action: anAction, Event: protocol.EventTell, HaveOrder: 9}
	for _, s := range protocol.States() {
		if got, _, err := unknown.Observe(s, ""); !errors.Is(err, protocol.ErrTransition) || got != s {
			t.Errorf("view %s: now %s, %v", s, got, err)
		}
	}
}
