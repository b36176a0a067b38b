package actions

import (
	"slices"
	"time"

	"github.com/hostler-io/hostler/agent/loop"
	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/protocol"
)

// expireEvery is the pause between two looks at the start budgets of actions that
// wait.
const expireEvery = time.Second

// StartWork begins whatever may begin now.
func (a *Actions) StartWork() {
	if a.loop.Degraded() != "" || a.loop.Stopping() || !a.lanes.moved {
		return
	}
	a.lanes.moved = false
	ready := a.lanes.ready()
	if len(ready) > 0 {
		a.cfg.Rooms.Spare()
	}
	for _, id := range ready {
		if a.loop.Degraded() != "" {
			a.lanes.moved = true // once more, when the disk works again
			return
		}
		a.jobs[id].start()
	}
	if a.lanes.waiting > 0 {
		a.expiry.In(expireEvery)
	}
}

// start makes durable that an action begins, and begins it.
func (j *Job) start() {
	a := j.actions
	if j.act.Expired(a.cfg.Boot, a.loop.BootMS()) {
		j.Finish(queue.Step{Event: protocol.EventExpire})
		return
	}
	if started, err := j.attempt(); started {
		a.lanes.running(j.act.ID)
		j.begin()
	} else {
		a.loop.Disk(err)
	}
}

// startUntold is how long the report of a start waits for the end of what may be brief.
// Most commands have ended by then, and one report tells it all. Output does not wait
// for it.
const startUntold = 25 * time.Millisecond

// untold are actions that run and may not be reported yet.
type untold struct {
	actions *Actions
	ids     []protocol.ActionID
	soon    *loop.Timer
}

// add sees to it that an action is reported if it runs and was not.
func (u *untold) add(j *Job) {
	if j.act.State == protocol.StateRunning && j.act.ReportN == 0 {
		u.ids = append(u.ids, j.act.ID)
		u.soon.In(startUntold)
	}
}

// tell reports what has begun and has not ended meanwhile.
func (u *untold) tell() {
	a := u.actions
	open := slices.DeleteFunc(u.ids, func(id protocol.ActionID) bool { return a.jobs[id] == nil || a.jobs[id].act.ReportN != 0 })
	u.ids = nil
	if len(open) == 0 {
		return
	}
	told, err := a.cfg.Store.TellStarted(a.loop.Steps(), open, a.loop.When())
	if !a.loop.Disk(err) {
		u.ids = open
		u.soon.In(loop.RetryDisk)
		return
	}
	for _, act := range told {
		a.jobs[act.ID].moved(act)
	}
}

// again makes the next attempt of an action durable and begins it.
func (j *Job) again() {
	a := j.actions
	if a.loop.Stopping() {
		return // the next process finds that this attempt never began
	}
	a.cfg.Rooms.Spare()
	if a.loop.Degraded() != "" {
		a.unbegun = append(a.unbegun, j.act.ID)
		return
	}
	started, err := j.attempt()
	if started {
		j.recovered = false
		j.begin()
	} else if err != nil && !a.loop.Disk(err) {
		a.unbegun = append(a.unbegun, j.act.ID)
	}
}

// Rebegin begins the attempts that waited for the disk, which works again.
func (a *Actions) Rebegin() {
	all := a.unbegun
	a.unbegun = nil
	for _, id := range all {
		switch j := a.jobs[id]; {
		case j == nil:
		case j.act.Cancelling:
			j.Finish(queue.Step{Event: protocol.EventCancelled}) // nothing of it has begun
		default:
			j.again()
		}
	}
}

// attempt makes durable that an attempt begins. It is false with the error of the
// queue, or without one when the action has ended instead.
func (j *Job) attempt() (bool, error) {
	a := j.actions
	change, end := a.cfg.Handlers[j.spec.Kind].Prepare(&j.spec)
	if end != nil {
		j.Finish(*end)
		return false, nil
	}
	act, err := a.cfg.Store.Start(a.loop.Steps(), j.act.ID, change, a.loop.When())
	if err != nil {
		return false, err
	}
	j.moved(act)
	a.cfg.Rooms.Applied(change)
	return true, nil
}

// begin starts the effect of an attempt whose start is durable.
func (j *Job) begin() {
	a := j.actions
	h := a.cfg.Handlers[j.spec.Kind]
	if r, ok := h.(Recoverer); ok && j.recovered {
		r.Recover(j)
		return
	}
	settler, settles := h.(Settler)
	switch {
	case j.recovered && j.last() && settles:
		settler.Settle(j)
	case j.recovered && j.last():
		j.Finish(queue.Step{Event: protocol.EventInterrupt, Detail: errTooOften.Error()})
	case j.recovered:
		j.again()
	default:
		if j.kind().Lane == protocol.LanePreempt {
			j.preempt()
		}
		h.Begin(j)
	}
}

// expire ends what has waited too long for its start. While the disk takes no ends
// nothing begins either, so that can wait.
func (a *Actions) expire() {
	if a.loop.Degraded() != "" {
		a.expiry.In(expireEvery)
		return
	}
	for _, e := range a.lanes.entries {
		if j := a.jobs[e.id]; !e.running && j.act.Expired(a.cfg.Boot, a.loop.BootMS()) {
			j.Finish(queue.Step{Event: protocol.EventExpire})
			a.expiry.In(0) // the list has changed: once more
			return
		}
	}
	if a.lanes.waiting > 0 {
		a.expiry.In(expireEvery)
	}
}
