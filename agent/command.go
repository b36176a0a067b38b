package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/runner"
	"github.com/hostler-io/hostler/runner/rundir"
	"github.com/hostler-io/hostler/terminal"
)

// maxUnbegun is how often a command is begun anew that never began because the
// agent was killed in between.
const maxUnbegun = 10

// outcome is what an attempt came to: the end of its action, or another attempt,
// unless its end was asked for.
type outcome struct {
	again bool
	step  queue.Step // of another attempt: its end if there is to be none
	gone  bool       // nothing of it is left for certain
}

func ends(s queue.Step) *outcome { return &outcome{step: s} }

// noStart is the end of a command that could not begin.
func noStart(format string, args ...any) *outcome {
	return ends(queue.Step{Event: protocol.EventNoStart, Detail: fmt.Sprintf(format, args...)})
}

// command is one attempt of a command, followed by a worker.
type command struct {
	agent   *Agent
	id      protocol.ActionID
	attempt int
	spec    protocol.Spec
	name    string            // of the container; empty is the host
	runtime container.Runtime // of the container
	within  []string          // directories that its files may lie in; none is anywhere
}

// execTarget is the container in which a command runs. The loop's state is read
// here and nowhere else on the way of a command.
func (a *Agent) execTarget(s *protocol.Spec) (name string, r container.Runtime) {
	if info, _ := protocol.KindOf(s.Kind); !info.Target {
		return "", nil
	}
	t := a.managed[s.Target]
	if t == nil {
		return "", nil
	}
	return string(t.rec.Name), a.runtime(t.rec.Runtime)
}

// follow starts the attempt, or finds what became of it, and stays until its
// end. nil means that ctx ended first.
func (c *command) follow(ctx context.Context, found bool) *outcome {
	for {
		var run Run
		if found {
			f, ok := c.find(ctx)
			switch {
			case !ok:
				return nil
			case f.Verdict != runner.Adopted:
				return c.noted(recovered(&c.spec, c.attempt, f))
			}
			run = f.Run
		} else {
			var bad *outcome
			run, bad = c.start(ctx)
			switch {
			case bad != nil && ctx.Err() != nil:
				return nil // the next process finds that it never began
			case bad != nil:
				return bad
			}
		}
		if !c.agent.loop.Tell(func() { c.agent.began(c.id, c.attempt, run) }) {
			return nil
		}
		end, err := run.Wait(ctx)
		switch {
		case err == nil && c.mayRepeat(end.Exit):
			return &outcome{again: true, step: conclude(end), gone: end.Emptied}
		case err == nil:
			return c.noted(ends(conclude(end)))
		case ctx.Err() != nil, errors.Is(err, runner.ErrClosed):
			return nil
		}
		found = true // its supervisor died: what is left of it?
	}
}

// mayRepeat reports whether an attempt that somebody has killed is made again: it
// is of what does no harm twice, and neither its limit nor a cancel has ended it.
func (c *command) mayRepeat(x protocol.Exit) bool {
	info, _ := protocol.KindOf(c.spec.Kind)
	return c.attempt < info.Attempts && x.Signal != 0 && !x.TimedOut && !x.Cancelled
}

// findAgain is the pause after an attempt could not be looked at.
const findAgain = 5 * time.Second

// find tells what became of the attempt. As long as that cannot be told, nothing
// is: an action is not called interrupted because a file could not be read.
func (c *command) find(ctx context.Context) (Found, bool) {
	for {
		f, err := c.agent.cfg.Commands.Recover(ctx, c.id, c.attempt)
		if err == nil {
			return f, true
		}
		if ctx.Err() == nil {
			c.agent.cfg.Log.Error("what became of a command cannot be told yet", "action", c.id.String(), "attempt", c.attempt, "error", err)
		}
		timer := time.NewTimer(findAgain)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return Found{}, false
		}
	}
}

// unseal reads the variables that only this host can read. Its errors say nothing of
// them.
func (c *command) unseal() (protocol.Secret, error) {
	cfg := &c.agent.cfg
	b, err := cfg.Unseal(c.spec.SecretEnv.Sealed)
	if err != nil {
		return protocol.Secret{}, errors.New("secret_env: it was not sealed to this host's key, or is damaged; ask again, so that it is sealed anew")
	}
	return protocol.OpenSecret(b, c.spec.SecretEnv.Names, cfg.Fleet, cfg.Host, c.id)
}

// start starts the supervisor. The start of the attempt is durable.
func (c *command) start(ctx context.Context) (Run, *outcome) {
	cmd := Command{
		Action: c.id, Attempt: c.attempt, Supervisor: c.agent.cfg.Supervisor,
		Argv: c.spec.Argv, Env: c.spec.Env, Dir: c.spec.Cwd, User: c.spec.User, TimeoutMS: c.spec.Timeout().Milliseconds(), Daemon: c.spec.Daemon,
		WaitMS: waitOf(c.spec),
	}
	if c.spec.Files != nil {
		if bad := c.mover(ctx, &cmd); bad != nil {
			return nil, bad
		}
	}
	if c.spec.SecretEnv != nil {
		secret, err := c.unseal()
		if err != nil {
			return nil, noStart("%s", err)
		}
		cmd.SecretEnv = secret.Env
	}
	if tty := c.spec.TTY; tty != nil {
		cmd.Env = append([]string{"TERM=" + cmp.Or(tty.Term, "dumb")}, cmd.Env...)
		cmd.Terminal = &rundir.Terminal{Rows: tty.Rows, Cols: tty.Cols, HangUpMS: terminal.HangUpAfter.Milliseconds()}
		if cfg := &c.agent.cfg; tty.Record || cfg.RecordSessions {
			cmd.Terminal.RecordBytes, cmd.Terminal.RecordOrEnd = cfg.RecordBytes, cfg.RecordOrEnd
		}
		cmd.Login = len(cmd.Argv) == 0
	}
	if c.spec.Kind == protocol.KindExec || c.spec.Kind == protocol.KindContainerAttach {
		if c.runtime == nil {
			return nil, ends(queue.Step{Event: protocol.EventTargetGone})
		}
		s, err := c.runtime.Exec(ctx, c.name)
		if errors.Is(err, container.ErrNotFound) {
			return nil, ends(queue.Step{Event: protocol.EventTargetGone})
		}
		if err != nil {
			return nil, noStart("entering container %q: %s", c.name, err)
		}
		cmd.Supervisor, cmd.Target = s.Argv, s.Target
	}
	input, err := c.agent.payloadFile(&c.spec)
	if err != nil {
		return nil, noStart("%s", err)
	}
	cmd.Stdin = input
	run, err := c.agent.cfg.Commands.Start(ctx, cmd)
	if err != nil {
		return nil, noStart("%s", err)
	}
	return run, nil
}

// recovered decides about an attempt that an earlier process began and that does
// not live any more.
//
//	verdict       once                      idempotent
//	exited        its end                   its end
//	rebooted      FAILED(interrupted)       the next attempt
//	died          FAILED(interrupted)       the next attempt, if nothing is left
//	never began   the next attempt          the next attempt
//
// The next attempt of what never began is no second time. Two of one action never
// live at a time: what does no harm twice may do so beside itself.
func recovered(s *protocol.Spec, attempt int, f Found) *outcome {
	info, _ := protocol.KindOf(s.Kind)
	switch f.Verdict {
	case runner.Exited:
		return ends(conclude(f.End))
	case runner.NeverBegan:
		if attempt < maxUnbegun {
			return &outcome{again: true, gone: true}
		}
		return noStart("it never began in %d attempts", attempt)
	}
	if attempt < info.Attempts && f.Emptied {
		return &outcome{again: true, gone: true}
	}
	detail := "the host was restarted under it"
	if f.Verdict != runner.Rebooted {
		detail = "its supervisor was killed, and what was left of it too"
		if !f.Emptied {
			detail = "its supervisor was killed; whether processes of it are left cannot be known here"
		}
	}
	detail += "; the last bytes of its output may be missing"
	return &outcome{step: queue.Step{Event: protocol.EventInterrupt, Detail: detail, Output: f.End.Output}, gone: f.Emptied}
}

// conclude translates the end of a command into the end of its action. A
// cancelled one is CANCELLED only if nothing of it was left.
func conclude(end CommandEnd) queue.Step {
	x := end.Exit
	s := queue.Step{Exit: &x, Output: end.Output}
	switch {
	case x.Cancelled && end.Emptied:
		s.Event = protocol.EventCancelled
	case end.NeverBegan:
		s.Event, s.Detail = protocol.EventNoStart, x.Error
	case x.TimedOut:
		s.Event = protocol.EventTimeout
	case x.Signal != 0:
		s.Event = protocol.EventSignal
	case x.Code != 0:
		s.Event = protocol.EventExit
	default:
		s.Event = protocol.EventSucceed
	}
	return s
}

// sweep ends and removes runs of actions that nobody knows: those whose
// acceptance a failing disk has lost.
func (a *Agent) sweep(ctx context.Context) error {
	runs, err := a.cfg.Commands.List()
	if err != nil {
		a.cfg.Log.Warn("runs cannot be listed", "error", err)
		return nil
	}
	ids := make([]protocol.ActionID, 0, len(runs))
	for id := range runs {
		ids = append(ids, id)
	}
	known, err := a.cfg.Queue.Has(ctx, ids)
	if err != nil {
		return nil // without knowing whose they are, none is touched
	}
	for id, attempt := range runs {
		if known[id] || ctx.Err() != nil {
			continue
		}
		if err := a.end(ctx, id, attempt); err != nil {
			a.cfg.Log.Warn("a run of an unknown action stays", "action", id.String(), "error", err)
		}
	}
	return nil
}

// end ends a run of nobody and removes it.
func (a *Agent) end(ctx context.Context, id protocol.ActionID, attempt int) error {
	f, err := a.cfg.Commands.Recover(ctx, id, attempt)
	if err != nil {
		return err
	}
	if f.Run != nil {
		if err := f.Run.Cancel(ctx); err != nil {
			return err
		}
	}
	return a.cfg.Commands.Remove(id)
}

// waitOf is for how long a command waits for those who follow it.
func waitOf(s protocol.Spec) int64 {
	if s.Output != protocol.OutputStream {
		return 0
	}
	return protocol.OutputPatience.Milliseconds()
}
