package actions

import (
	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/protocol"
)

// Handler carries out the actions of a kind. Its methods are called by the loop and
// do not wait. What else a handler can do is said by the optional interfaces
// [Recoverer], [Settler], [Canceller], [Claimer], [Instant] and [Brief].
type Handler interface {
	// Admit says whether this host can do such a thing at all. An error is a refusal
	// for good, with its [protocol.Code].
	Admit(s *protocol.Spec) error
	// Prepare says what the start of an attempt makes durable of containers, in the
	// transaction of the start. If the action cannot begin, end is how it ends
	// instead.
	Prepare(s *protocol.Spec) (c queue.Change, end *queue.Step)
	// Begin begins an attempt whose start is durable. It ends with one call of
	// [Job.Finish], [Job.Conclude] or [Job.Run], there and then or later.
	Begin(j *Job)
}

// Recoverer is a Handler whose attempts outlive the agent. Of any other kind, an
// attempt that an earlier process began was interrupted: the next one begins, if
// the kind has one left.
type Recoverer interface {
	// Recover takes up an attempt that an earlier process began. It ends as Begin
	// does.
	Recover(j *Job)
}

// Settler is a Handler whose attempts leave something behind when they are cut short:
// one that makes sagas with a commit point.
type Settler interface {
	// Settle takes up the last attempt of an action, which an earlier process began.
	// It ends as Begin does, by [Job.Run] of the same saga: that undoes what was done,
	// or, behind the commit point, makes the steps once more.
	Settle(j *Job)
}

// Canceller is a Handler whose attempts can be ended before their time. Any other
// runs to its end, however often a cancel is asked for.
type Canceller interface {
	// Cancel asks for the end of an attempt that has begun. It is called again for
	// an attempt that was not known to run the first time.
	Cancel(j *Job)
}

// Claimer is a Handler whose Prepare looks at what others have, and takes what none of them
// has: ports, volumes, networks. Of the orders that come together one such begins; the next is
// prepared when what that has taken is known.
type Claimer interface{ Claims(s *protocol.Spec) bool }

// Instant is a Handler whose actions end, with success, as they begin.
type Instant interface{ EndsAtOnce() bool }

// Brief is a Handler whose actions may end within [startUntold]. The report that such an
// action has started waits that long. If the end comes first, only the end is reported.
type Brief interface{ MayBeBrief(s *protocol.Spec) bool }

// Ping returns the handler of the action that does nothing.
func Ping() Handler { return ping{} }

type ping struct{}

func (ping) Admit(*protocol.Spec) error                         { return nil }
func (ping) Prepare(*protocol.Spec) (queue.Change, *queue.Step) { return queue.Change{}, nil }
func (ping) Begin(j *Job)                                       { j.Finish(queue.Step{Event: protocol.EventSucceed}) }
func (p ping) Recover(j *Job)                                   { p.Begin(j) }
func (ping) EndsAtOnce() bool                                   { return true }

// Outcome is what an attempt came to: the end of its action, or another attempt,
// unless its end was asked for.
type Outcome struct {
	Again bool
	Step  queue.Step // with Again: the end of the action if no attempt may follow
	Gone  bool       // nothing of it is left for certain
	Disk  error      // why the disk took nothing of it; the next attempt waits for the disk
}
