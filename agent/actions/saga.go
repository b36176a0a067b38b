package actions

import (
	"context"
	"errors"
	"slices"

	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/protocol"
)

// Saga is an attempt that a worker makes beside the loop, in durable steps with one
// commit point. An interruption before the commit point undoes what was done, an
// interruption after it leaves the rest to the next attempt. The action holds its
// lane throughout.
//
// No attempt knows how far another came but by what that made durable: each step
// may be made again, and goes on with what it finds.
type Saga struct {
	// Steps are made in order. A verb of one step has one.
	Steps []Step
	// Committed tells that an earlier attempt has passed the commit point.
	Committed bool
	// Undo takes back what the steps before the commit point have done, because of
	// the error of one of them, unless the next attempt goes on with it. It returns
	// what is to be changed with the end of the action, and the error that the
	// action ends with. ctx is not that of the steps, whose time may be over. nil:
	// there is nothing to undo.
	Undo func(ctx context.Context, why error) (queue.Change, error)
	// Ended is called when the steps have let go of what the action is about, still
	// beside the loop. What it returns, if anything, is called inside the loop with
	// the end before that is durable, and may add to it. nil: nothing follows.
	Ended func(ctx context.Context) func(end *queue.Step)
	// Slow is asked in the loop, from time to time, what is being done that takes
	// so long; empty is nothing worth a word. It begins with [UnderWay]. nil: never.
	Slow func() string
}

// Step is one step of a saga.
type Step struct {
	// Do makes it. The change that it returns becomes durable before the next step
	// begins, or with the end of the action if there is none. An error that
	// [Interrupted] has marked tells that the step may be made again.
	Do func(ctx context.Context) (queue.Change, error)
	// Commit tells that the commit point is passed when the change of this step is
	// durable. Without it in any step nothing is undone.
	Commit bool
}

// One is a saga of one step.
func One(do func(ctx context.Context) (queue.Change, error)) Saga {
	return Saga{Steps: []Step{{Do: do}}}
}

// Interrupted marks an error as an interruption: what it ended may be made again.
func Interrupted(err error) error { return interrupted{err} }

type interrupted struct{ error }

func (i interrupted) Unwrap() error { return i.error }

// errTimeLimit is the cause with which a saga is ended that takes too long.
var errTimeLimit = errors.New("time limit")

// Run makes a saga beside the loop, and takes its end.
func (j *Job) Run(s Saga) {
	a, id, attempt, last, timeout := j.actions, j.act.ID, j.act.Attempt, j.last(), j.spec.Timeout()
	settle := j.recovered && last
	work, halt := context.WithCancelCause(a.loop.Work())
	idle := make(chan struct{})
	j.halt, j.idle, j.slow = halt, idle, s.Slow
	a.slow.In(slowAfter)
	a.loop.Worker(func() func() {
		defer halt(nil)
		ctx, cancel := context.WithTimeoutCause(work, timeout, errTimeLimit)
		defer cancel()
		var end queue.Step
		if settle && !s.Committed {
			end = s.undo(ctx, a)
		} else {
			end = s.perform(ctx, a, id, last)
		}
		close(idle)
		if a.loop.Work().Err() != nil {
			return nil // it is taken up by the next process
		}
		var ended func(*queue.Step)
		if s.Ended != nil {
			ended = s.Ended(a.loop.Work())
		}
		return func() {
			j := a.jobs[id]
			if j != nil && j.act.Attempt != attempt {
				j = nil
			}
			if j != nil && j.preempted {
				end = preempted(Outcome{Step: end}).Step
			}
			if ended != nil {
				ended(&end)
			}
			switch {
			case j == nil:
			case end.Event == protocol.EventRetry:
				j.again()
			default:
				j.Finish(end)
			}
		}
	})
}

// perform makes the steps of a saga, in a worker, and returns what that came to.
func (s Saga) perform(ctx context.Context, a *Actions, id protocol.ActionID, last bool) queue.Step {
	committed := s.Committed || !slices.ContainsFunc(s.Steps, func(s Step) bool { return s.Commit })
	for i, step := range s.Steps {
		change, err := step.Do(ctx)
		if err != nil && !committed && s.Undo != nil && (last || !isInterrupted(err)) {
			change, err = s.Undo(a.loop.Work(), err)
		}
		if err == nil && i < len(s.Steps)-1 {
			err = a.record(ctx, id, change)
			committed = committed || step.Commit
		}
		if err != nil || i == len(s.Steps)-1 {
			return endOf(ctx, change, err, last)
		}
	}
	return queue.Step{Event: protocol.EventSucceed}
}

// errTooOften ends an action whose attempts were all interrupted.
var errTooOften = errors.New("it was interrupted too often")

// undo takes back what attempts have done that were interrupted, in a worker.
func (s Saga) undo(ctx context.Context, a *Actions) queue.Step {
	change, err := queue.Change{}, Interrupted(errTooOften)
	if s.Undo != nil {
		change, err = s.Undo(a.loop.Work(), err)
	}
	return endOf(ctx, change, err, true)
}

// endOf is the end of an action whose saga ended so.
func endOf(ctx context.Context, change queue.Change, err error, last bool) queue.Step {
	s := queue.Step{Event: protocol.EventSucceed, Change: change}
	switch {
	case err == nil:
		return s
	case context.Cause(ctx) == errTimeLimit:
		s.Event = protocol.EventTimeout
	case isInterrupted(err) && !last:
		return queue.Step{Event: protocol.EventRetry}
	case isInterrupted(err):
		s.Event = protocol.EventInterrupt
	default:
		s.Event = protocol.EventFail
	}
	s.Detail = err.Error()
	return s
}

func isInterrupted(err error) bool {
	_, ok := errors.AsType[interrupted](err)
	return ok
}
