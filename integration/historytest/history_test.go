package historytest

import (
	"strings"
	"testing"

	"github.com/hostler-io/hostler/protocol"
)

var (
	pending = Seen{State: protocol.StatePendingSchedule}
	fresh   = Seen{State: protocol.StateNew}
	running = Seen{State: protocol.StateRunning}
	done    = Seen{protocol.StateDone, protocol.ReasonOK}
	broken  = Seen{protocol.StateFailed, protocol.ReasonInterrupted}
	lost    = Seen{protocol.StateLost, protocol.ReasonUnknown}
)

// told is one good history of one command, which the cases spoil.
func told() (*History, protocol.ActionID) {
	id := protocol.ActionID{15: 1}
	h := New()
	h.Know(id, Known{Kind: protocol.KindRun, Host: "edge-01", Witnessed: true})
	h.Call(Submit, id) // never answered, so it is asked again
	h.Call(Submit, id)(Seen{})
	h.Call(Observe, id)(running)
	h.Call(Cancel, id)
	h.Call(Observe, id)(done)
	h.Journal = []Transition{{id, Seen{}, pending}, {id, pending, fresh}, {id, fresh, running}, {id, running, done}}
	h.Coordinator[id], h.Hosts[id] = done, done
	h.Begun[id], h.Ended[id] = 1, 1
	return h, id
}

// TestCheck spoils a good history in every way that a crash could.
func TestCheck(t *testing.T) {
	if h, _ := told(); h.Check() != nil {
		t.Fatalf("the good history: %q", h.Check())
	}
	for _, c := range []struct {
		name  string
		spoil func(*History, protocol.ActionID)
		says  string
	}{
		{"an acknowledged action is missing", func(h *History, id protocol.ActionID) {
			delete(h.Coordinator, id)
			delete(h.Begun, id)
		}, "was acknowledged and is missing"},
		{"it never ends", func(h *History, id protocol.ActionID) { h.Coordinator[id] = running }, "has not ended"},
		{"it is lost without a reason", func(h *History, id protocol.ActionID) { h.Coordinator[id] = lost }, "was never removed"},
		{"the sides differ", func(h *History, id protocol.ActionID) { h.Hosts[id] = broken }, "on its host"},
		{"it runs twice", func(h *History, id protocol.ActionID) { h.Begun[id] = 2 }, "has begun 2 times"},
		{"it ends twice", func(h *History, id protocol.ActionID) { h.Ended[id] = 2 }, "ended 2 times"},
		{"it is done and has not run", func(h *History, id protocol.ActionID) { h.Begun[id], h.Ended[id] = 0, 0 }, "has begun 0 times"},
		{"it is done and was cut off", func(h *History, id protocol.ActionID) { h.Ended[id] = 0 }, "ended 0 times"},
		{"it never began, and ran", func(h *History, id protocol.ActionID) {
			never := Seen{protocol.StateCancelled, protocol.ReasonExpired}
			h.Coordinator[id], h.Hosts[id] = never, never
		}, "CANCELLED expired and has begun"},
		{"it ran and nobody knows it", func(h *History, _ protocol.ActionID) { h.Begun[protocol.ActionID{15: 9}] = 1 }, "nobody knows it"},
		{"two final states", func(h *History, id protocol.ActionID) { h.Journal = append(h.Journal, Transition{id, done, broken}) }, "was DONE ok and then FAILED interrupted"},
		{"a journal with a gap", func(h *History, _ protocol.ActionID) { h.Journal = append(h.Journal[:1], h.Journal[2:]...) }, "moved from NEW"},
		{"a step back", func(h *History, id protocol.ActionID) {
			h.Journal = append(h.Journal[:3:3], Transition{id, running, fresh}, Transition{id, fresh, done})
		}, "cannot move from RUNNING"},
		{"a journal that ends elsewhere", func(h *History, _ protocol.ActionID) { h.Journal = h.Journal[:3] }, "the journal ends with RUNNING"},
		{"an answer is taken back", func(h *History, id protocol.ActionID) { h.Call(Observe, id)(Seen{}) }, "no order of its requests"},
		{"it waits for nobody although it has to", func(h *History, id protocol.ActionID) {
			h.Know(id, Known{Kind: protocol.KindRun, Host: "edge-01", Witnessed: true, Waits: true})
			h.requests[id] = nil
			h.Call(Submit, id)(Seen{})
			h.Call(Observe, id)(pending)
			h.Call(Observe, id)(Seen{State: protocol.StatePendingApprove})
		}, "no order of its requests"},
		{"an end is taken back", func(h *History, id protocol.ActionID) { h.Call(Observe, id)(running) }, "no order of its requests"},
		{"an end becomes another", func(h *History, id protocol.ActionID) { h.Call(Observe, id)(broken) }, "no order of its requests"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, id := told()
			c.spoil(h, id)
			if got := strings.Join(h.Check(), "\n"); !strings.Contains(got, c.says) {
				t.Errorf("it is found: %q, want %q", got, c.says)
			}
		})
	}
}

// TestCheckAllows leaves histories alone that a crash may make.
func TestCheckAllows(t *testing.T) {
	for _, c := range []struct {
		name string
		bend func(*History, protocol.ActionID)
	}{
		{"a request without an answer that had no effect", func(h *History, _ protocol.ActionID) {
			h.Call(Submit, protocol.ActionID{15: 2})
		}},
		{"one seen before it was acknowledged", func(h *History, _ protocol.ActionID) {
			id := protocol.ActionID{15: 3}
			h.Know(id, Known{Kind: protocol.KindPing, Host: "edge-01"})
			h.Call(Submit, id)
			h.Call(Observe, id)(done)
			h.Coordinator[id] = done
		}},
		{"a denial", func(h *History, _ protocol.ActionID) {
			id := protocol.ActionID{15: 4}
			waits, denied := Seen{State: protocol.StatePendingApprove}, Seen{protocol.StateCancelled, protocol.ReasonDisapproved}
			h.Know(id, Known{Kind: protocol.KindRun, Host: "edge-01", Witnessed: true, Waits: true})
			h.Call(Submit, id)(Seen{})
			h.Call(Observe, id)(waits)
			h.Call(Observe, id)(denied)
			h.Journal = append(h.Journal, Transition{id, Seen{}, waits}, Transition{id, waits, denied})
			h.Coordinator[id] = denied
		}},
		{"an interruption", func(h *History, id protocol.ActionID) {
			h.requests[id] = h.requests[id][:3]
			h.Coordinator[id], h.Hosts[id] = broken, broken
			h.Journal[3].To = broken
			h.Ended[id] = 0
		}},
		{"the end of a host", func(h *History, id protocol.ActionID) {
			gone := Seen{protocol.StateLost, protocol.ReasonRemoved}
			h.requests[id] = h.requests[id][:3]
			h.Coordinator[id], h.Removed["edge-01"] = gone, true
			h.Journal[3].To = gone
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, id := told()
			c.bend(h, id)
			if got := h.Check(); got != nil {
				t.Errorf("it is found: %q", got)
			}
		})
	}
}
