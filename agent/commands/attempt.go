package commands

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"syscall"
	"time"

	"github.com/hostler-io/hostler/agent/actions"
	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/secret"
	"github.com/hostler-io/hostler/runner"
	"github.com/hostler-io/hostler/runner/rundir"
	"github.com/hostler-io/hostler/terminal"
)

// Target is the container in which a command runs. The zero value is the host.
type Target struct {
	Name    string
	Runtime container.Runtime // nil if this host has none of its kind any more
}

// Attempt is one attempt of a command, which a worker follows.
type Attempt struct {
	ID     protocol.ActionID
	Number int // from 1
	Spec   protocol.Spec
	Target Target
	// Within are the directories in which its files may lie; none is anywhere.
	Within []string
	// Found tells that an earlier process has begun it.
	Found bool
}

// worker follows one attempt.
type worker struct {
	*Config
	Attempt
	// began tells the loop that the attempt runs. It reports false when the loop
	// has ended.
	began func(Run) bool
}

// follow starts the attempt, or finds what became of it, and stays until its
// end. nil means that ctx ended first.
func (c *worker) follow(ctx context.Context) *actions.Outcome {
	found := c.Found
	for {
		var run Run
		if found {
			f, ok := c.find(ctx)
			switch {
			case !ok:
				return nil
			case f.Verdict != runner.Adopted:
				return c.noted(recovered(&c.Spec, c.Number, f))
			}
			run = f.Run
		} else {
			var bad *actions.Outcome
			run, bad = c.start(ctx)
			switch {
			case bad != nil && ctx.Err() != nil:
				return nil // the next process finds that it never began
			case bad != nil:
				return bad
			}
		}
		if !c.began(run) {
			return nil
		}
		end, err := run.Wait(ctx)
		switch {
		case err == nil && c.mayRepeat(end.Exit):
			return &actions.Outcome{Again: true, Step: conclude(end), Gone: end.Emptied}
		case err == nil:
			return c.noted(ends(conclude(end)))
		case ctx.Err() != nil, errors.Is(err, runner.ErrClosed):
			return nil
		}
		found = true // its supervisor died: what is left of it?
	}
}

// mayRepeat reports whether an attempt that was killed is made again: it
// is of what does no harm twice, and neither its limit nor a cancel has ended it.
func (c *worker) mayRepeat(x protocol.Exit) bool {
	info, _ := protocol.KindOf(c.Spec.Kind)
	return c.Number < info.Attempts && x.Signal != 0 && !x.TimedOut && !x.Cancelled
}

// findAgain is the pause after an attempt could not be looked at.
const findAgain = 5 * time.Second

// find tells what became of the attempt. As long as that cannot be told, nothing
// is: an action is not called interrupted because a file could not be read.
func (c *worker) find(ctx context.Context) (Found, bool) {
	for {
		f, err := c.Runner.Recover(ctx, c.ID, c.Number)
		if err == nil {
			return f, true
		}
		if ctx.Err() == nil {
			c.Log.Error("what became of a command cannot be told yet", "action", c.ID.String(), "attempt", c.Number, "error", err)
		}
		select {
		case <-time.After(findAgain):
		case <-ctx.Done():
			return Found{}, false
		}
	}
}

// unseal reads the variables that only this host can read. Its errors say nothing of
// them.
func (c *worker) unseal() (secret.Values, error) {
	cfg := c.Config
	b, err := cfg.Unseal(c.Spec.Secret().Sealed)
	if err != nil {
		return secret.Values{}, errors.New("secret_env: it was not sealed to this host's key, or is damaged; ask again, so that it is sealed anew")
	}
	return secret.Open(b, c.Spec.Secret().Names, cfg.Fleet, cfg.Host, c.ID)
}

// start starts the supervisor. The start of the attempt is durable.
func (c *worker) start(ctx context.Context) (Run, *actions.Outcome) {
	p := c.Spec.Process()
	cmd := runner.Spec{Supervisor: c.Supervisor}
	cmd.Argv, cmd.Env, cmd.Dir, cmd.User, cmd.TimeoutMS = p.Argv, p.Env, p.Cwd, p.User, c.Spec.Timeout().Milliseconds()
	cmd.Daemon = protocol.ArgsOf[protocol.CommandArgs](&c.Spec).Daemon
	if c.Spec.OutputMode() == protocol.OutputStream {
		cmd.WaitMS = protocol.OutputPatience.Milliseconds()
	}
	if printer, ok := c.Printers[c.Spec.Kind]; ok {
		cmd.Argv, cmd.Env = slices.Clone(printer), failpoint.Environ()
		if c.Target.Runtime != nil {
			cmd.Argv = append(cmd.Argv, "--runtime="+string(c.Target.Runtime.Kind()), "--name="+c.Target.Name)
		}
		if a, ok := c.Spec.Args.(interface{ Flags() []string }); ok {
			cmd.Argv = append(cmd.Argv, a.Flags()...)
		}
	}
	if c.Spec.Files() != nil {
		if bad := c.mover(ctx, &cmd); bad != nil {
			return nil, bad
		}
	}
	if c.Spec.Secret() != nil {
		secret, err := c.unseal()
		if err != nil {
			return nil, noStart("%s", err)
		}
		cmd.SecretEnv = secret.Env
	}
	if tty := protocol.ArgsOf[protocol.SessionArgs](&c.Spec).TTY; tty != nil {
		cmd.Env = append([]string{"TERM=" + cmp.Or(tty.Term, "dumb")}, cmd.Env...)
		cmd.Terminal = &rundir.Terminal{Rows: tty.Rows, Cols: tty.Cols, HangUpMS: terminal.SilentAfter.Milliseconds()}
		if cfg := c.Config; tty.Record || cfg.RecordSessions {
			cmd.Terminal.RecordBytes, cmd.Terminal.RecordOrEnd = cfg.RecordBytes, cfg.RecordOrEnd
		}
		cmd.Login = len(cmd.Argv) == 0
	}
	if info, _ := protocol.KindOf(c.Spec.Kind); info.Enters() {
		if c.Target.Runtime == nil {
			return nil, ends(queue.Step{Event: protocol.EventTargetGone})
		}
		s, err := c.Target.Runtime.Exec(ctx, c.Target.Name)
		if errors.Is(err, container.ErrNotFound) {
			return nil, ends(queue.Step{Event: protocol.EventTargetGone})
		}
		if err != nil {
			return nil, noStart("entering container %q: %s", c.Target.Name, err)
		}
		cmd.Supervisor, cmd.Target = s.Argv, s.Target
	}
	var err error
	if cmd.Stdin, err = c.Input(&c.Spec); err != nil {
		return nil, noStart("%s", err)
	}
	run, err := c.Runner.Start(ctx, c.ID, c.Number, cmd)
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), errors.Is(err, syscall.EROFS):
		return nil, &actions.Outcome{Again: true, Gone: true, Disk: err} // nothing of it began
	case err != nil:
		return nil, noStart("%s", err)
	}
	return run, nil
}
