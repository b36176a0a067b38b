package agent

import (
	"fmt"
	"strings"
	"time"

	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/runner"
)

// Nothing that was taken up hangs unseen: the commands that run are looked at from
// time to time, past their supervisors, and what is wrong is said in their actions.
const (
	// endGrace is the grace of every supervisor: what has a limit, or was
	// cancelled, is killed after it.
	endGrace = 10 * time.Second
	// silentAfter is how long after that a supervisor that does not answer is waited
	// for. Its command is ended without it then.
	silentAfter = 30 * time.Second
	// maxNamed is how many processes are named.
	maxNamed = 5
)

// lookAtCommands looks at all commands that run, beside the loop.
func (a *Agent) lookAtCommands() {
	for id, j := range a.jobs {
		if info, _ := protocol.KindOf(j.spec.Kind); !info.Command || j.act.State != protocol.StateRunning || j.looking {
			continue
		}
		j.looking = true
		attempt := j.act.Attempt
		a.worker(func() func() {
			sight, err := a.cfg.Commands.Look(a.watching, id, attempt)
			return func() {
				j := a.jobs[id]
				if j == nil {
					return
				}
				j.looking = false
				if err == nil && j.act.Attempt == attempt {
					a.sighted(j, sight)
				}
			}
		})
	}
}

// sighted says what keeps a command from its end, and ends it itself if whoever
// should have done that does not answer.
func (a *Agent) sighted(j *job, s runner.Sight) {
	late := a.late(j, s.StartedMS)
	if late >= silentAfter && s.Silent && j.abandoned == "" {
		a.abandon(j, s)
	}
	text := stuck(s, late >= 0, j.act.Cancelling)
	if text == j.act.Detail || text == "" && !remarked(j.act.Detail) {
		return
	}
	act, err := a.cfg.Queue.Remark(a.steps, j.act.ID, text, a.when())
	if !a.disk(err) {
		return
	}
	j.act = act
	a.wrote(act.ReportN)
	a.changed(act.ID)
}

// late is for how long the command should have been at its end by the boot clock,
// grace included; below zero it has time.
func (a *Agent) late(j *job, startedMS int64) time.Duration {
	now, ends := a.cfg.BootMS(), int64(0)
	if limit := j.spec.Timeout(); limit > 0 {
		if startedMS == 0 {
			startedMS = j.begunMS
		}
		ends = startedMS + limit.Milliseconds()
	}
	if j.cancelMS != 0 && (ends == 0 || j.cancelMS < ends) {
		ends = j.cancelMS
	}
	if ends == 0 {
		return -1
	}
	return time.Duration(now-ends)*time.Millisecond - endGrace
}

// abandon kills a supervisor that does not answer. Whoever follows the command finds
// that out, and ends what is left.
func (a *Agent) abandon(j *job, s runner.Sight) {
	j.abandoned = fmt.Sprintf("its supervisor (process %d) did not answer %s after the command should have ended", s.Supervisor.PID, silentAfter)
	a.cfg.Log.Error("a supervisor does not answer and is killed", "action", j.act.ID.String(), "pid", s.Supervisor.PID, "state", string(s.Supervisor.State))
	id, attempt := j.act.ID, j.act.Attempt
	a.worker(func() func() {
		err := a.cfg.Commands.Abandon(id, attempt)
		if err == nil {
			return nil
		}
		return func() {
			a.cfg.Log.Error("a supervisor that does not answer cannot be killed", "action", id.String(), "error", err)
			if j := a.jobs[id]; j != nil {
				j.abandoned = "" // once more
			}
		}
	})
}

// What is said begins with one of them, so that it is known again.
const (
	sayCancelling = "cancelling: "
	sayStuck      = "stuck: "
)

func remarked(detail string) bool {
	return strings.HasPrefix(detail, sayCancelling) || strings.HasPrefix(detail, sayStuck)
}

// stuck says what keeps a command from its end; empty is nothing. late tells that it
// should have ended.
func stuck(s runner.Sight, late, cancelling bool) string {
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
	if len(all) == 0 {
		return ""
	}
	if cancelling {
		return sayCancelling + strings.Join(all, "; ")
	}
	return sayStuck + strings.Join(all, "; ")
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
