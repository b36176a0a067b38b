package commands

import (
	"fmt"

	"github.com/hostler-io/hostler/agent/actions"
	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/protocol"
)

// Handler carries out every kind that runs a command, on the host or in a container,
// as [actions.Handler]. Its attempts outlive the agent.
type Handler struct {
	Active *Active // nil if this host runs no commands
	// Inputs, Unseals and Moves tell that this host can keep what commands read, read
	// what was sealed to its key, and move files.
	Inputs, Unseals, Moves bool
	// Printers are the kinds that print what the host knows.
	Printers map[protocol.Kind][]string
}

// Admit implements [actions.Handler].
func (h Handler) Admit(s *protocol.Spec) error {
	info, _ := protocol.KindOf(s.Kind)
	switch {
	case s.HasPayload() && !h.Inputs:
		return fmt.Errorf("%w: input cannot be kept here", actions.CodeUnsupported)
	case s.Secret() != nil && !h.Unseals:
		return fmt.Errorf("%w: secret values cannot be read here", actions.CodeUnsupported)
	case info.Files() && !h.Moves:
		return fmt.Errorf("%w: files cannot be moved here", actions.CodeUnsupported)
	case info.Prints && h.Printers[s.Kind] == nil:
		return fmt.Errorf("%w: the agent of this host does not do this", actions.CodeUnsupported)
	case h.Active == nil:
		return fmt.Errorf("%w: commands cannot be run here", actions.CodeUnsupported)
	}
	return nil
}

// Prepare implements [actions.Handler]: the container has to be there.
func (h Handler) Prepare(s *protocol.Spec) (queue.Change, *queue.Step) {
	if h.Active == nil {
		return queue.Change{}, &queue.Step{Event: protocol.EventFail, Detail: "this host runs no commands any more"}
	}
	if info, _ := protocol.KindOf(s.Kind); info.OnContainer() {
		if _, _, ok := h.Active.cfg.Find(s.Target); !ok {
			return queue.Change{}, &queue.Step{Event: protocol.EventTargetGone}
		}
	}
	return queue.Change{}, nil
}

// Begin implements [actions.Handler].
func (h Handler) Begin(j *actions.Job) {
	act, s := j.Action(), j.Spec()
	if s.Kind.Interactive() {
		h.Active.cfg.Expect(act.ID, act.Attempt)
	}
	within := act.Within
	if within == nil && s.Files() != nil { // an earlier version let it in, which kept none
		within = h.Active.cfg.Within(s, act.Requester)
	}
	at := Attempt{ID: act.ID, Number: act.Attempt, Spec: *s, Within: within, Found: j.Recovered()}
	if info, _ := protocol.KindOf(s.Kind); info.OnContainer() {
		name, r, _ := h.Active.cfg.Find(s.Target)
		at.Target = Target{Name: string(name), Runtime: r}
	}
	h.Active.Begin(at, act.Cancelling)
}

// MayBeBrief implements [actions.Brief]: for a session a person waits.
func (h Handler) MayBeBrief(s *protocol.Spec) bool { return !s.Kind.Interactive() }

// Recover implements [actions.Recoverer]: what became of the attempt is found out.
func (h Handler) Recover(j *actions.Job) {
	if h.Active == nil {
		j.Finish(queue.Step{Event: protocol.EventInterrupt, Detail: "this host runs no commands any more"})
		return
	}
	h.Begin(j)
}

// Cancel implements [actions.Canceller].
func (h Handler) Cancel(j *actions.Job) { h.Active.Cancel(j.Action().ID) }
