package commands

import (
	"fmt"

	"github.com/hostler-io/hostler/agent/actions"
	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/protocol"
)

// Rooms are the parts of the agent that a command needs as it begins. They are called
// in the loop.
type Rooms interface {
	// Find returns the name of a container and its runtime, which is nil if the host
	// has none of its kind any more. ok is false for a container that is not managed.
	Find(protocol.CTID) (name protocol.ContainerName, r container.Runtime, ok bool)
	// Within returns the directories to which the policy in force holds the files of
	// a request: empty holds it to none.
	Within(s *protocol.Spec, requester string) []string
	// Expect tells that a session is about to begin, or was found.
	Expect(id protocol.ActionID, attempt int)
}

// Handler carries out every kind that runs a command, on the host or in a container,
// as [actions.Handler]. Its attempts outlive the agent.
type Handler struct {
	Active *Active // nil if this host runs no commands
	Rooms  Rooms
	// Fetches, Unseals and Moves tell that this host can fetch what commands read,
	// read what was sealed to its key, and move files.
	Fetches, Unseals, Moves bool
}

// Admit implements [actions.Handler].
func (h Handler) Admit(s *protocol.Spec) error {
	info, _ := protocol.KindOf(s.Kind)
	switch {
	case s.HasPayload() && !h.Fetches:
		return fmt.Errorf("%w: input cannot be fetched here", actions.CodeUnsupported)
	case s.SecretEnv != nil && !h.Unseals:
		return fmt.Errorf("%w: secret values cannot be read here", actions.CodeUnsupported)
	case info.Files && !h.Moves:
		return fmt.Errorf("%w: files cannot be moved here", actions.CodeUnsupported)
	case h.Active == nil:
		return fmt.Errorf("%w: commands cannot be run here", actions.CodeUnsupported)
	}
	return nil
}

// Prepare implements [actions.Handler]: the container has to be there.
func (h Handler) Prepare(s *protocol.Spec) (queue.Change, *queue.Step) {
	if info, _ := protocol.KindOf(s.Kind); info.Target {
		if _, _, ok := h.Rooms.Find(s.Target); !ok {
			return queue.Change{}, &queue.Step{Event: protocol.EventTargetGone}
		}
	}
	return queue.Change{}, nil
}

// Begin implements [actions.Handler].
func (h Handler) Begin(j *actions.Job) {
	act, s := j.Action(), j.Spec()
	if s.Kind.Interactive() {
		h.Rooms.Expect(act.ID, act.Attempt)
	}
	within := act.Within
	if within == nil && s.Files != nil { // an earlier version let it in, which kept none
		within = h.Rooms.Within(s, act.Requester)
	}
	at := Attempt{ID: act.ID, Number: act.Attempt, Spec: *s, Within: within, Found: j.Recovered()}
	if info, _ := protocol.KindOf(s.Kind); info.Target {
		name, r, _ := h.Rooms.Find(s.Target)
		at.Target = Target{Name: string(name), Runtime: r}
	}
	h.Active.Begin(at, act.Cancelling)
}

// Recover implements [actions.Recoverer]: what became of the attempt is found out.
func (h Handler) Recover(j *actions.Job) { h.Begin(j) }

// Cancel implements [actions.Canceller].
func (h Handler) Cancel(j *actions.Job) { h.Active.Cancel(j.Action().ID) }
