package commands

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/hostler-io/hostler/agent/actions"
	"github.com/hostler-io/hostler/runner"
)

// A command that hangs is seen: commands are looked at from time to time, past their
// supervisors, and what is wrong is told in their actions.
const (
	// endGrace is the grace of every supervisor: what has a limit, or was
	// cancelled, is killed after it.
	endGrace = 10 * time.Second
	// silentAfter is how much longer a supervisor that does not answer has. Then its
	// command is ended without it.
	silentAfter = 30 * time.Second
	// maxNamed is how many processes are named.
	maxNamed = 5
	// blockedAfter is how long a process waits for the kernel before that is said
	// of a command that has time: all do for moments.
	blockedAfter = 20 * time.Second
)

// sighted tells what keeps a command from its end, and ends it if the supervisor
// that should have done that does not answer.
func (a *Active) sighted(c *command, s runner.Sight) {
	late := a.late(c, s.StartedMS)
	if late >= silentAfter && s.Silent && c.abandoned == "" {
		a.abandon(c, s)
	}
	a.actions.Remark(c.id, stuck(s, late >= 0, c.cancelling, a.blocked(c, s, late >= 0)))
}

// late is for how long the command should have been at its end by the boot clock,
// grace included; below zero it has time.
func (a *Active) late(c *command, startedMS int64) time.Duration {
	now, ends := a.cfg.BootMS(), int64(0)
	if c.limit > 0 {
		if startedMS == 0 {
			startedMS = c.begunMS
		}
		ends = startedMS + c.limit.Milliseconds()
	}
	if c.cancelMS != 0 && (ends == 0 || c.cancelMS < ends) {
		ends = c.cancelMS
	}
	if ends == 0 {
		return -1
	}
	return time.Duration(now-ends)*time.Millisecond - endGrace
}

// abandon kills a supervisor that does not answer. The follower of the command finds
// that out, and ends what is left.
func (a *Active) abandon(c *command, s runner.Sight) {
	c.abandoned = fmt.Sprintf("its supervisor (process %d) did not answer %s after the command should have ended", s.Supervisor.PID, silentAfter)
	a.cfg.Log.Error("a supervisor does not answer and is killed", "action", c.id.String(), "pid", s.Supervisor.PID, "state", string(s.Supervisor.State))
	a.loop.Beside(func(context.Context) func() {
		err := a.cfg.Runner.Abandon(c.id, c.attempt)
		if err == nil {
			return nil
		}
		return func() {
			a.cfg.Log.Error("a supervisor that does not answer cannot be killed", "action", c.id.String(), "error", err)
			c.abandoned = "" // once more
		}
	})
}

// moment is a time by the clock that measures and by the wall clock.
type moment struct{ at, date time.Time }

// blocked tells of the processes of a command that wait for the kernel, where no
// signal reaches them, and since when they were seen to.
func (a *Active) blocked(c *command, s runner.Sight, late bool) (all []string) {
	since := make(map[int]moment)
	for _, p := range s.Alive {
		if p.State != 'D' {
			continue
		}
		first, seen := c.blocked[p.PID]
		if !seen {
			first = moment{time.Now(), a.cfg.Now()}
		}
		since[p.PID] = first
		if late || time.Since(first.at) >= blockedAfter {
			all = append(all, fmt.Sprintf("process %d is in state D since %s", p.PID, first.date.UTC().Format(time.RFC3339)))
		}
	}
	c.blocked = since
	if more := len(all) - maxNamed; more > 0 {
		all = append(all[:maxNamed], fmt.Sprintf("%d more", more))
	}
	if len(all) > 0 {
		all[len(all)-1] += ": it waits for a device or a file system, and no signal reaches it before that answers"
	}
	return all
}

// stuck says what keeps a command from its end; empty is nothing. late tells that it
// should have ended.
func stuck(s runner.Sight, late, cancelling bool, blocked []string) string {
	var all []string
	switch {
	case s.Silent && (s.Supervisor.State == 'T' || s.Supervisor.State == 't'):
		all = append(all, fmt.Sprintf("its supervisor (process %d) is stopped and does not answer; kill -CONT %d lets it go on", s.Supervisor.PID, s.Supervisor.PID))
	case s.Silent:
		all = append(all, fmt.Sprintf("its supervisor (process %d, %c) does not answer", s.Supervisor.PID, s.Supervisor.State))
	}
	if late && len(s.Alive) > 0 {
		all = append(all, alive(s.Alive))
	}
	all = append(all, blocked...)
	if len(all) == 0 {
		return ""
	}
	if cancelling {
		return actions.Cancelling + strings.Join(all, "; ")
	}
	return actions.Stuck + strings.Join(all, "; ")
}

// alive names processes as ps does.
func alive(all []runner.Process) string {
	var b strings.Builder
	if len(all) == 1 {
		b.WriteString("1 process of it is still alive:")
	} else {
		fmt.Fprintf(&b, "%d processes of it are still alive:", len(all))
	}
	for _, p := range all[:min(len(all), maxNamed)] {
		fmt.Fprintf(&b, " %d (%c)", p.PID, p.State)
	}
	if len(all) > maxNamed {
		b.WriteString(" …")
	}
	return b.String()
}
