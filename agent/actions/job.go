package actions

import (
	"context"
	"fmt"

	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/protocol"
)

// Job is an action that has not ended. It belongs to the loop, and so do its
// methods.
type Job struct {
	actions *Actions
	act     queue.Action
	spec    protocol.Spec
	// recovered tells that its attempt was begun by an earlier process.
	recovered bool
	// preempted tells that a stop which may not wait ends it. halt ends its saga,
	// and idle is closed when the steps of that have ended.
	preempted bool
	halt      context.CancelCauseFunc
	idle      <-chan struct{}
	slow      func() string // see [Saga.Slow]
}

// Action is the action as it is durable.
func (j *Job) Action() *queue.Action { return &j.act }

// Spec is what it asks for.
func (j *Job) Spec() *protocol.Spec { return &j.spec }

// Recovered tells that an earlier process began its attempt.
func (j *Job) Recovered() bool { return j.recovered }

// kind is what is promised of its kind.
func (j *Job) kind() protocol.KindInfo {
	info, _ := protocol.KindOf(j.spec.Kind)
	return info
}

// last tells that no attempt follows, should this one be interrupted.
func (j *Job) last() bool { return j.act.Attempt >= j.kind().Attempts }

// Finish ends the action: durable with its report, or in memory until the disk
// takes it.
func (j *Job) Finish(s queue.Step) { j.actions.save(ending{j.act.ID, s}) }

// Conclude acts upon the end of an attempt: the action ends, together with others
// that end in this turn of the loop, or its next attempt begins.
func (j *Job) Conclude(o Outcome) {
	if j.preempted {
		o = preempted(o)
	}
	if o.Disk != nil {
		j.actions.loop.Disk(fmt.Errorf("beginning a command: %w: %w", queue.ErrDisk, o.Disk))
	}
	wasInterrupted := o.Gone && (o.Again || o.Step.Event == protocol.EventInterrupt)
	switch {
	case wasInterrupted && j.act.Cancelling:
		j.Finish(queue.Step{Event: protocol.EventCancelled, Output: o.Step.Output}) // as was asked for: nothing is left
	case o.Again && !j.act.Cancelling:
		j.again()
	default:
		j.actions.ends = append(j.actions.ends, ending{j.act.ID, o.Step})
	}
}
