package agent

import (
	"context"
	"errors"
	"slices"

	"github.com/hostler-io/hostler/agent/commands"
	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/protocol"
)

// job is an action that has not ended. It belongs to the loop.
type job struct {
	act  queue.Action
	spec protocol.Spec
	// recover tells that its attempt was begun by an earlier process.
	recover bool
	// preempted tells that a stop which may not wait ends it. halt ends its step
	// of a container's life, and idle is closed when the step has ended.
	preempted bool
	halt      context.CancelCauseFunc
	idle      <-chan struct{}
}

// unsaved is an end that the disk did not take yet.
type unsaved struct {
	id   protocol.ActionID
	step queue.Step
}

// adopt takes an action of an earlier process into the loop's state.
func (a *Agent) adopt(act queue.Action) {
	j := &job{act: act, recover: act.State == protocol.StateRunning}
	var err error
	if j.spec, err = protocol.DecodeSpec(act.Spec); err != nil {
		// It could be read when it was accepted: this is an older program.
		a.cfg.Log.Error("an accepted action cannot be read by this version", "action", act.ID.String(), "error", err)
		return
	}
	e := a.entryOf(act.ID, &j.spec)
	e.running = j.recover
	e.lacks = !e.running && a.relay.Lacks(&j.spec)
	a.jobs[act.ID] = j
	a.lanes.add(e)
}

// entryOf returns the entry of an action that would be accepted now.
func (a *Agent) entryOf(id protocol.ActionID, s *protocol.Spec) laneEntry {
	var name protocol.ContainerName
	if t := a.managed[s.Target]; t != nil {
		name = t.rec.Name
	}
	return a.lanes.naming(a.lanes.strict(laneOf(id, s)), s, name)
}

// resume goes on with what an earlier process had begun.
func (a *Agent) resume() {
	// What ends at once takes itself out of the list, so it is a copy that is walked.
	for _, e := range slices.Clone(a.lanes.entries) {
		j := a.jobs[e.id]
		a.relay.Keep(e.id, &j.spec, e.lacks)
		if e.running {
			a.begin(j)
		}
	}
}

// startWork begins whatever may begin now.
func (a *Agent) startWork() {
	if a.loop.Degraded() != "" || a.loop.Stopping() || !a.lanes.moved {
		return
	}
	a.lanes.moved = false
	for _, id := range a.lanes.ready() {
		a.start(a.jobs[id])
		if a.loop.Degraded() != "" {
			a.lanes.moved = true // once more, when the disk works again
			return
		}
	}
	if a.lanes.waiting > 0 {
		a.at(dueExpire, expireEvery)
	}
}

// start makes durable that an action begins, and begins it.
func (a *Agent) start(j *job) {
	if j.act.Expired(a.cfg.Boot, a.cfg.BootMS()) {
		a.finish(j, queue.Step{Event: protocol.EventExpire})
		return
	}
	change, ok := a.prepare(&j.spec)
	if !ok {
		a.finish(j, a.unprepared(&j.spec))
		return
	}
	act, err := a.cfg.Queue.Start(a.loop.Steps(), j.act.ID, change, a.loop.When())
	if !a.loop.Disk(err) {
		return
	}
	j.act = act
	a.wrote(act.ReportN)
	a.lanes.running(act.ID)
	a.changed(act.ID)
	a.apply(change)
	a.begin(j)
}

// expire ends what has waited too long for its start. While the disk takes no ends
// nothing begins either, so that can wait.
func (a *Agent) expire() {
	if a.loop.Degraded() != "" {
		a.at(dueExpire, expireEvery)
		return
	}
	for _, e := range a.lanes.entries {
		if j := a.jobs[e.id]; !e.running && j.act.Expired(a.cfg.Boot, a.cfg.BootMS()) {
			a.finish(j, queue.Step{Event: protocol.EventExpire})
			a.at(dueExpire, 0) // the list has changed: once more
			return
		}
	}
	if a.lanes.waiting > 0 {
		a.at(dueExpire, expireEvery)
	}
}

// begin starts the effect of an action whose start is durable.
func (a *Agent) begin(j *job) {
	info, _ := protocol.KindOf(j.spec.Kind)
	switch {
	case j.spec.Kind == protocol.KindPing:
		a.finish(j, queue.Step{Event: protocol.EventSucceed})
	case j.spec.Kind == protocol.KindPolicySet:
		a.setPolicy(j)
	case info.Command:
		a.beginCommand(j)
	case info.Lane == protocol.LanePreempt && !j.recover:
		a.preempt(j)
		a.beginStep(j)
	case j.recover && j.act.Attempt >= info.Attempts:
		a.finish(j, queue.Step{Event: protocol.EventInterrupt, Detail: "it was interrupted too often"})
	case j.recover:
		a.again(j)
	default:
		a.beginStep(j)
	}
}

// again makes the next attempt of an action durable and begins it.
func (a *Agent) again(j *job) {
	if a.loop.Stopping() {
		return // the next process finds that this attempt never began
	}
	change, ok := a.prepare(&j.spec)
	if !ok {
		a.finish(j, a.unprepared(&j.spec))
		return
	}
	act, err := a.cfg.Queue.Start(a.loop.Steps(), j.act.ID, change, a.loop.When())
	if !a.loop.Disk(err) {
		a.unsaved = append(a.unsaved, unsaved{id: j.act.ID}) // tried again with the disk
		return
	}
	j.act, j.recover = act, false
	a.wrote(act.ReportN)
	a.changed(act.ID)
	a.apply(change)
	a.begin(j)
}

// finish ends an action: durable with its report, or in memory until the disk
// takes it.
func (a *Agent) finish(j *job, s queue.Step) { a.save(unsaved{j.act.ID, s}) }

// save makes an end durable. It reports false when the disk did not take it.
func (a *Agent) save(u unsaved) bool {
	j := a.jobs[u.id]
	if j == nil {
		return true
	}
	if u.step.Event == "" {
		n := len(a.unsaved)
		a.again(j)
		return len(a.unsaved) == n
	}
	act, err := a.cfg.Queue.Finish(a.loop.Steps(), u.id, u.step, a.loop.When())
	if errors.Is(err, queue.ErrDisk) {
		a.unsaved = append(a.unsaved, u)
	}
	if !a.loop.Disk(err) {
		return false
	}
	a.spare()
	a.saved(u, act)
	return true
}

// saved goes on after an end that is durable.
func (a *Agent) saved(u unsaved, act queue.Action) {
	a.apply(u.step.Change)
	a.wrote(act.ReportN)
	a.finished(a.jobs[u.id], act)
}

// finished takes an action that has ended out of the loop's state.
func (a *Agent) finished(j *job, act queue.Action) {
	j.act = act
	delete(a.jobs, act.ID)
	a.lanes.remove(act.ID)
	a.relay.Ended(act.ID, act.Attempt)
	a.ended(&act)
	a.at(dueKeep, 0) // its container may be corrected now
}

// ended tells everybody that an action is over.
func (a *Agent) ended(act *queue.Action) {
	count(a.counters.ended, act.State)
	a.changed(act.ID)
	a.cfg.Log.Info("an action has ended", "action", act.ID.String(), "state", string(act.State), "reason", string(act.Reason))
}

// changed wakes those who wait for news of an action.
func (a *Agent) changed(id protocol.ActionID) {
	if c := a.changes[id]; c != nil {
		close(c)
		delete(a.changes, id)
	}
	a.noteAction()
}

// beginCommand starts, or finds again, the command of an action.
func (a *Agent) beginCommand(j *job) {
	id, attempt, spec := j.act.ID, j.act.Attempt, j.spec
	if spec.Kind.Interactive() {
		a.relay.Expect(id, attempt)
	}
	within := j.act.Within
	if within == nil && spec.Files != nil { // an earlier version let it in, which kept none
		within = a.rights.policy.Needs(a.request(&spec, j.act.Requester)).Within
	}
	a.commands.Begin(commands.Attempt{ID: id, Number: attempt, Spec: spec, Target: a.execTarget(&spec), Within: within, Found: j.recover}, j.act.Cancelling)
}

// execTarget is the container in which a command runs.
func (a *Agent) execTarget(s *protocol.Spec) commands.Target {
	if info, _ := protocol.KindOf(s.Kind); !info.Target {
		return commands.Target{}
	}
	t := a.managed[s.Target]
	if t == nil {
		return commands.Target{}
	}
	return commands.Target{Name: string(t.rec.Name), Runtime: a.runtime(t.rec.Runtime)}
}

// concluded acts upon the end of an attempt.
func (a *Agent) concluded(j *job, o commands.Outcome) {
	if j.preempted {
		o = preempted(o)
	}
	interrupted := o.Gone && (o.Again || o.Step.Event == protocol.EventInterrupt)
	switch {
	case interrupted && j.act.Cancelling:
		a.finish(j, queue.Step{Event: protocol.EventCancelled, Output: o.Step.Output}) // as was asked for: nothing is left
	case o.Again && !j.act.Cancelling:
		a.again(j)
	default:
		a.ends = append(a.ends, unsaved{j.act.ID, o.Step})
	}
}

// takeEnds makes durable what has ended in this turn of the loop.
func (a *Agent) takeEnds() {
	ends := a.ends
	a.ends = nil
	if len(ends) == 0 {
		return
	}
	all := make([]queue.Ending, len(ends))
	for i, u := range ends {
		all[i] = queue.Ending{Action: u.id, Step: u.step}
	}
	acts, err := a.cfg.Queue.FinishAll(a.loop.Steps(), all, a.loop.When())
	if err != nil { // each for itself: some may succeed, and the others are kept
		for _, u := range ends {
			a.save(u)
		}
		return
	}
	a.spare()
	for i, act := range acts {
		a.saved(ends[i], act)
	}
}
