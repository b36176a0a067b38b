package agent

import (
	"errors"
	"time"

	"github.com/hostler-io/hostler/agent/commands"
	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/protocol"
)

// preemptPatience is how long a stop that may not wait waits for the operations
// that it has ended to be gone: killing a helper process takes no time, unless the
// kernel is stuck with it.
const preemptPatience = 5 * time.Second

// errPreempted is the cause with which an operation on a container is ended.
var errPreempted = errors.New("a stop that may not wait has ended it")

// preemptOrder takes in an action that came as a control, past the orders that
// wait. What it is not meant for is refused: everything else has its turn.
func (a *Agent) preemptOrder(at protocol.Position, msg protocol.Message, item *protocol.OrderItem, refusal protocol.Code) error {
	o, spec, err := a.judge(item, &msg.Header, refusal)
	if errors.Is(err, queue.ErrDisk) {
		return err // nothing was taken in: it comes again
	}
	if info, _ := protocol.KindOf(spec.Kind); err == nil && info.Lane != protocol.LanePreempt {
		err = protocol.ErrSpec
	}
	a.stage(at, o, spec, err)
	_, err = a.commitStaged()
	return err
}

// preempt makes way for a stop that may not wait. What runs in its container's
// lane ends as preempted: commands with the container, operations at once. What
// waits keeps its place, but for what would start the container again.
func (a *Agent) preempt(by *job) {
	if t := a.managed[by.spec.Target]; t != nil && t.halt != nil {
		t.halt(errPreempted)
	}
	for _, j := range a.jobs {
		if j == by || j.spec.Target != by.spec.Target {
			continue
		}
		info, _ := protocol.KindOf(j.spec.Kind)
		switch running := j.act.State == protocol.StateRunning; {
		case info.Lane != protocol.LaneContainer:
		case running:
			j.preempted = true
			if j.halt != nil {
				j.halt(errPreempted)
			}
		case j.spec.Kind == protocol.KindStart || j.spec.Kind == protocol.KindReset:
			a.finish(j, queue.Step{Event: protocol.EventPreempt, Detail: "action " + by.act.ID.String() + " stopped the container"})
		}
	}
}

// halted returns what is closed when the operations that a stop has preempted
// have let go of its container.
func (a *Agent) halted(by *job) (idle []<-chan struct{}) {
	if t := a.managed[by.spec.Target]; t != nil && t.idle != nil {
		idle = append(idle, t.idle)
	}
	for _, j := range a.jobs {
		if j.preempted && j.spec.Target == by.spec.Target && j.idle != nil {
			idle = append(idle, j.idle)
		}
	}
	return idle
}

// preempted is what becomes of an attempt that was preempted. What had come to
// its own end before stays as it ended, and so does what was cancelled.
func preempted(o commands.Outcome) commands.Outcome {
	switch o.Step.Event {
	case protocol.EventSucceed, protocol.EventCancelled, protocol.EventTimeout:
		return o
	}
	o.Again = false
	o.Step.Event, o.Step.Detail = protocol.EventPreempt, "a stop that may not wait has ended it"
	for i := range o.Step.Change.Put {
		o.Step.Change.Put[i].Intended = queue.Stopped // as the stop has it
	}
	return o
}
