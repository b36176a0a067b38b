package agent

import (
	"fmt"
	"strings"
	"time"

	"github.com/hostler-io/hostler/agent/commands"
	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/agent/relay"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/protocol"
)

// runs hears of the commands, as [commands.Actions].
type runs struct{ a *Agent }

// Began implements [commands.Actions].
func (r runs) Began(id protocol.ActionID, run commands.Run, acks *commands.Acknowledged) {
	if j := r.a.jobs[id]; j != nil {
		r.a.changed(id)
		r.a.relay.Began(id, relay.Standing{Attempt: j.act.Attempt, Run: run, Acks: acks}, j.spec.Kind.Interactive())
	}
}

// Started implements [commands.Actions].
func (r runs) Started(id protocol.ActionID) { r.a.lanes.remove(id) }

// Concluded implements [commands.Actions].
func (r runs) Concluded(id protocol.ActionID, o commands.Outcome) {
	if j := r.a.jobs[id]; j != nil {
		r.a.concluded(j, o)
	}
}

// NotCancelled implements [commands.Actions].
func (r runs) NotCancelled(id protocol.ActionID, why error) {
	a, j := r.a, r.a.jobs[id]
	if j == nil {
		return
	}
	act, err := a.cfg.Queue.NotCancelled(a.loop.Steps(), id, protocol.NotCancelled+why.Error(), a.loop.When())
	if !a.loop.Disk(err) {
		return
	}
	j.act = act
	a.wrote(act.ReportN)
	a.changed(id)
}

// Remark implements [commands.Actions].
func (r runs) Remark(id protocol.ActionID, text string) {
	if j := r.a.jobs[id]; j != nil {
		r.a.remark(j, text)
	}
}

// remarkUnderWay begins the remark about an operation on a container, by which it is
// known again.
const remarkUnderWay = "under way: "

// remark tells in an action what keeps it from its end, and takes back the remark
// before.
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

func remarked(detail string) bool {
	return strings.HasPrefix(detail, commands.RemarkCancelling) || strings.HasPrefix(detail, commands.RemarkStuck) || strings.HasPrefix(detail, remarkUnderWay)
}

// slowStep is how long an operation on a container takes until it is told what it
// does. Most take a fraction of that; the first creation from a template takes more.
const slowStep = 5 * time.Second

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
				remarkUnderWay, rec.Runtime, o.Verb, o.Name, o.PID, o.Since.UTC().Format(time.RFC3339), o.Until.UTC().Format(time.RFC3339))
		}
	}
	return ""
}

// askedSoon is how long after a connection was made the coordinator has asked for
// all output that it misses.
const askedSoon = 2 * time.Minute

// retainRuns removes what is too old or too much of what ended commands have left.
func (a *Agent) retainRuns() {
	ended, err := a.cfg.Queue.Ended(a.loop.Steps())
	if !a.loop.Disk(err) || len(ended) == 0 {
		return
	}
	asked := a.link.answered && a.cfg.BootMS()-a.link.since >= askedSoon.Milliseconds()
	all := make([]commands.Ended, 0, len(ended))
	for _, e := range ended {
		owed := a.cfg.Link != nil && (!e.Reported || !asked || a.relay.Sending(e.ID))
		all = append(all, commands.Ended{ID: e.ID, AtMS: e.EndedMS, Owed: owed})
	}
	a.commands.Retain(all, a.cfg.OutputTotal, a.cfg.OutputAge)
}
