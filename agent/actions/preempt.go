package actions

import (
	"context"
	"errors"

	"github.com/hostler-io/hostler/agent/loop"
	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/protocol"
)

// ErrPreempted is the cause with which an operation on a container is ended by a
// stop that may not wait.
var ErrPreempted = errors.New("a stop that may not wait has ended it")

// preempt makes way for a stop that may not wait. What runs in its container's
// lane ends as preempted: commands with the container, operations at once. What
// waits keeps its place, but for what would start the container again.
func (j *Job) preempt() {
	for _, o := range j.actions.jobs {
		if o == j || o.spec.Target != j.spec.Target {
			continue
		}
		switch running := o.act.State == protocol.StateRunning; {
		case o.kind().Lane != protocol.LaneContainer:
		case running:
			o.preempted = true
			if o.halt != nil {
				o.halt(ErrPreempted)
			}
		case o.kind().Starts:
			o.Finish(queue.Step{Event: protocol.EventPreempt, Detail: "action " + j.act.ID.String() + " stopped the container"})
		}
	}
}

// Preempted returns what is closed when the operations that a stop has preempted
// have let go of its container.
func (j *Job) Preempted() (idle []<-chan struct{}) {
	for _, o := range j.actions.jobs {
		if o.preempted && o.spec.Target == j.spec.Target && o.idle != nil {
			idle = append(idle, o.idle)
		}
	}
	return idle
}

// record makes a change durable in the middle of a saga, unless that was preempted.
func (a *Actions) record(ctx context.Context, id protocol.ActionID, c queue.Change) error {
	_, err := loop.Ask(ctx, a.loop, func() (struct{}, error) {
		if j := a.jobs[id]; j != nil && j.preempted {
			return struct{}{}, ErrPreempted
		}
		err := a.cfg.Store.Apply(a.loop.Steps(), c, a.loop.When())
		if a.loop.Disk(err) {
			a.cfg.Rooms.Applied(c)
		}
		return struct{}{}, err
	})
	return err
}

// preempted is what becomes of an attempt that was preempted. What had come to
// its own end before stays as it ended, and so does what was cancelled.
func preempted(o Outcome) Outcome {
	for i := range o.Step.Change.Put {
		o.Step.Change.Put[i].Intended = queue.Stopped // as the stop has it, whatever became of this
	}
	switch o.Step.Event {
	case protocol.EventSucceed, protocol.EventCancelled, protocol.EventTimeout:
		return o
	}
	o.Again = false
	o.Step.Event, o.Step.Detail = protocol.EventPreempt, "a stop that may not wait has ended it"
	return o
}
