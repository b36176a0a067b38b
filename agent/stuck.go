package agent

import (
	"fmt"
	"strings"
	"time"

	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/container"
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
	// blockedAfter is how long a process waits for the kernel before that is said
	// of a command that has time: all do for moments.
	blockedAfter = 20 * time.Second
	// slowStep is after how long it is said what is being done to a container. It
	// takes a fraction of that, and only the first creation from a template more.
	slowStep = 5 * time.Second
)

// lookAtCommands looks at all commands that run, beside the loop.
func (a *Agent) lookAtCommands() {
	for id, j := range a.jobs {
		if info, _ := protocol.KindOf(j.spec.Kind); !info.Command || j.act.State != protocol.StateRunning || j.looking {
			continue
		}
		j.looking = true
		attempt := j.act.Attempt
		a.loop.Worker(func() func() {
			sight, err := a.cfg.Commands.Look(a.loop.Watching(), id, attempt)
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
	a.remark(j, stuck(s, late >= 0, j.act.Cancelling, a.blocked(j, s, late >= 0)))
}

// remark says in an action what keeps it, and takes back what was said before.
func (a *Agent) remark(j *job, text string) {
	if text == j.act.Detail || text == "" && !remarked(j.act.Detail) {
		return
	}
	act, err := a.cfg.Queue.Remark(a.loop.Steps(), j.act.ID, text, a.loop.When())
	if !a.loop.Disk(err) {
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
	a.loop.Worker(func() func() {
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
	sayUnderWay   = "under way: "
)

func remarked(detail string) bool {
	return strings.HasPrefix(detail, sayCancelling) || strings.HasPrefix(detail, sayStuck) || strings.HasPrefix(detail, sayUnderWay)
}

// moment is one by the clock that measures and by that of people.
type moment struct {
	at   time.Duration
	date time.Time
}

// blocked tells of the processes of a command that wait for the kernel, where no
// signal reaches them, and since when they were seen to.
func (a *Agent) blocked(j *job, s runner.Sight, late bool) (all []string) {
	now := a.loop.Now()
	since := make(map[int]moment)
	for _, p := range s.Alive {
		if p.State != 'D' {
			continue
		}
		first, seen := j.blocked[p.PID]
		if !seen {
			first = moment{now, a.cfg.Now()}
		}
		since[p.PID] = first
		if late || now-first.at >= blockedAfter {
			all = append(all, fmt.Sprintf("process %d is in state D since %s", p.PID, first.date.UTC().Format(time.RFC3339)))
		}
	}
	j.blocked = since
	if more := len(all) - maxNamed; more > 0 {
		all = append(all[:maxNamed], fmt.Sprintf("%d more", more))
	}
	if len(all) > 0 {
		all[len(all)-1] += ": it waits for a device or a file system, and no signal reaches it before that answers"
	}
	return all
}

// lookAtSteps says of the operations on containers that take long which process
// does them, and until when.
func (a *Agent) lookAtSteps() {
	for _, j := range a.jobs {
		if j.idle == nil || j.act.State != protocol.StateRunning {
			continue
		}
		select {
		case <-j.idle:
			continue // its end is about to be taken
		default:
		}
		a.at(dueSteps, slowStep)
		if t := a.managed[j.spec.Target]; t != nil {
			if busy, ok := a.runtime(t.rec.Runtime).(container.Busy); ok {
				a.remark(j, underWay(busy.Operations(), t.rec))
			}
		}
	}
}

// underWay tells of the operation on a container that takes long; empty is none.
func underWay(all []container.Operation, rec queue.Container) string {
	for _, o := range all {
		if o.Name == string(rec.Name) && time.Since(o.Since) >= slowStep {
			return fmt.Sprintf("%s%s %s of %s, process %d, since %s; it is killed unless it has ended at %s",
				sayUnderWay, rec.Runtime, o.Verb, o.Name, o.PID, o.Since.UTC().Format(time.RFC3339), o.Until.UTC().Format(time.RFC3339))
		}
	}
	return ""
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
