package commands

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/hostler-io/hostler/agent/actions"
	"github.com/hostler-io/hostler/agent/loop"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/runner"
)

// Config is what commands are run with. All but Mover, Printers and Unseal is required.
type Config struct {
	Host    protocol.HostID
	Fleet   protocol.FleetID
	Loop    *loop.Loop
	Actions *actions.Actions
	// Runner runs commands, RunDirs keep what they leave.
	Runner  Runner
	RunDirs RunDirs
	// Supervisor is the program, by absolute path with leading arguments, that
	// supervises commands of the host, Mover the program that moves files (see
	// [Move]), and Printers those that print what the host knows.
	Supervisor, Mover []string
	Printers          map[protocol.Kind][]string
	// Unseal reads what was sealed to this host's key.
	Unseal func(sealed []byte) ([]byte, error)
	// Input returns the path of the file that a command reads; empty is none.
	Input func(*protocol.Spec) (string, error)
	// RecordSessions records every session, up to RecordBytes each. RecordOrEnd
	// ends a session whose recording cannot go on.
	RecordSessions bool
	RecordBytes    int64
	RecordOrEnd    bool
	// Find returns the name of a container and its runtime, which is nil if the host
	// has none of its kind any more. ok is false for a container that is not managed.
	// The loop calls it, and the next three.
	Find func(protocol.CTID) (name protocol.ContainerName, r container.Runtime, ok bool)
	// Within returns the directories to which the policy in force holds the files of
	// a request: empty holds it to none.
	Within func(s *protocol.Spec, requester string) []string
	// Expect tells that a session is about to begin, or was found.
	Expect func(id protocol.ActionID, attempt int)
	// Began tells that an attempt runs, and where its followers acknowledge.
	Began func(j *actions.Job, run Run, acks *Acknowledged)
	// Emptied tells that the output of ended actions was removed. The loop calls it.
	Emptied func(gone []protocol.ActionID)
	// BootMS reads the boot clock, Now the wall clock.
	BootMS func() int64
	Now    func() time.Time
	Log    *slog.Logger
}

// Active are the commands that run. It belongs to the loop: every method is called
// there, but for Sweep and Shrink.
type Active struct {
	cfg     Config
	loop    *loop.Loop
	actions *actions.Actions
	all     map[protocol.ActionID]*command
	// shrinking tells that a worker removes what ended commands have left.
	shrinking bool
}

// command is one attempt under way.
type command struct {
	id         protocol.ActionID
	attempt    int
	limit      time.Duration // 0 is none
	daemon     bool
	run        Run // nil until its supervisor was started or found
	acks       *Acknowledged
	cancelling bool
	cancelSent bool
	// begunMS is when this process took up the attempt, and cancelMS when it asked
	// for its end, on the boot clock.
	begunMS, cancelMS int64
	looking           bool           // a worker looks at it
	blocked           map[int]moment // its processes in state D, since when
	abandoned         string         // why its supervisor was killed
}

// New returns the commands of a host. None runs.
func New(cfg Config) *Active {
	return &Active{cfg: cfg, loop: cfg.Loop, actions: cfg.Actions, all: make(map[protocol.ActionID]*command)}
}

// Begin starts, or finds again, the command of an action. cancelling tells that its
// end was asked for.
func (a *Active) Begin(at Attempt, cancelling bool) {
	c := &command{id: at.ID, attempt: at.Number, limit: at.Spec.Timeout(), daemon: protocol.ArgsOf[protocol.CommandArgs](&at.Spec).Daemon, cancelling: cancelling, begunMS: a.cfg.BootMS()}
	a.all[at.ID] = c
	f := worker{Config: &a.cfg, Attempt: at, began: func(r Run) bool { return a.loop.Tell(func() { a.began(c, r) }) }}
	a.loop.Beside(func(ctx context.Context) func() {
		outcome := f.follow(ctx)
		if outcome == nil {
			return nil // the agent stops; the command does not
		}
		return func() { a.concluded(c, *outcome) }
	})
}

// Running returns the attempt of an action that runs, and what its followers
// acknowledge; nil if none does.
func (a *Active) Running(id protocol.ActionID) (Run, *Acknowledged) {
	if c := a.all[id]; c != nil {
		return c.run, c.acks
	}
	return nil, nil
}

// began takes the run of a command, which can be cancelled from now on.
func (a *Active) began(c *command, r Run) {
	if a.all[c.id] != c {
		return
	}
	acks := newAcknowledged(r)
	c.run, c.acks, c.cancelSent = r, acks, false
	a.loop.Beside(func(ctx context.Context) func() { acks.serve(ctx); return nil })
	if c.cancelling {
		a.cancel(c)
	}
	if c.daemon {
		a.loop.Beside(func(ctx context.Context) func() { return a.awaitStart(ctx, c, r) })
	}
	if j := a.actions.Job(c.id); j != nil {
		a.actions.Changed(c.id)
		a.cfg.Began(j, r, acks)
	}
}

// awaitStart waits until a daemon has started.
func (a *Active) awaitStart(ctx context.Context, c *command, r Run) func() {
	select {
	case <-r.Started():
	case <-ctx.Done():
		return nil
	}
	select {
	case <-r.Done():
		return nil // perhaps without a start: its end says what becomes of its lane
	default:
	}
	return func() {
		if a.all[c.id] == c && c.run == r {
			a.actions.LeaveLane(c.id)
		}
	}
}

// concluded takes the end of an attempt.
func (a *Active) concluded(c *command, o actions.Outcome) {
	if a.all[c.id] != c {
		return
	}
	delete(a.all, c.id)
	if c.abandoned != "" && o.Step.Event == protocol.EventInterrupt {
		o.Step.Detail = c.abandoned + "; " + o.Step.Detail
	}
	if j := a.actions.Job(c.id); j != nil {
		j.Conclude(o)
	}
}

// Cancel ends the command of an action. How it ended is told by its record alone.
func (a *Active) Cancel(id protocol.ActionID) {
	if c := a.all[id]; c != nil {
		c.cancelling = true
		a.cancel(c)
	}
}

func (a *Active) cancel(c *command) {
	if c.run == nil || c.cancelSent {
		return // it is cancelled when it is known to run
	}
	c.cancelSent, c.cancelMS = true, a.cfg.BootMS()
	run := c.run
	a.loop.Beside(func(ctx context.Context) func() {
		err := run.Cancel(ctx)
		switch {
		case err == nil, ctx.Err() != nil, errors.Is(err, context.Canceled):
			return nil
		case errors.Is(err, runner.ErrDied), errors.Is(err, runner.ErrClosed):
			return nil // its worker finds out what is left of it
		}
		return func() {
			if a.all[c.id] == c {
				c.cancelling, c.cancelSent, c.cancelMS = false, false, 0 // it has time again
				a.actions.NotCancelled(c.id, err)
			}
		}
	})
}

// Look looks at all commands, beside the loop: what keeps one from its end is told
// as a remark, and if the supervisor that should have ended it does not answer, it
// is ended without that.
func (a *Active) Look() {
	for _, c := range a.all {
		if c.looking {
			continue
		}
		c.looking = true
		a.loop.Beside(func(ctx context.Context) func() {
			sight, err := a.cfg.Runner.Look(ctx, c.id, c.attempt)
			return func() {
				c.looking = false
				if err == nil && a.all[c.id] == c {
					a.sighted(c, sight)
				}
			}
		})
	}
}
