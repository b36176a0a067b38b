package actions

import (
	"errors"
	"strings"
	"time"

	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/protocol"
)

// ending is an end that is to become durable.
type ending struct {
	id   protocol.ActionID
	step queue.Step
}

// Flush makes durable what has ended in this turn of the loop.
func (a *Actions) Flush() {
	ends := a.ends
	a.ends = nil
	if len(ends) == 0 {
		return
	}
	acts, err := a.finish(ends)
	if err != nil { // each for itself: some may succeed, and the others are kept
		for _, e := range ends {
			a.save(e)
		}
		return
	}
	a.cfg.Rooms.Spare()
	for i, act := range acts {
		a.saved(ends[i], act)
	}
}

func (a *Actions) finish(ends []ending) ([]queue.Action, error) {
	all := make([]queue.Ending, len(ends))
	for i, e := range ends {
		all[i] = queue.Ending{Action: e.id, Step: e.step}
	}
	return a.cfg.Store.Finish(a.loop.Steps(), all, a.loop.When())
}

// Retry writes the ends that the disk did not take. It is false when the disk still
// takes nothing.
func (a *Actions) Retry() bool {
	for len(a.unsaved) > 0 {
		e := a.unsaved[0]
		a.unsaved = a.unsaved[1:]
		if !a.save(e) {
			return false // it is in the list again
		}
	}
	return true
}

// save makes an end durable. It reports false when the disk did not take it.
func (a *Actions) save(e ending) bool {
	if a.jobs[e.id] == nil {
		return true
	}
	acts, err := a.finish([]ending{e})
	if errors.Is(err, queue.ErrDisk) {
		a.unsaved = append(a.unsaved, e)
	}
	if !a.loop.Disk(err) {
		return false
	}
	a.cfg.Rooms.Spare()
	a.saved(e, acts[0])
	return true
}

// saved goes on after an end that is durable.
func (a *Actions) saved(e ending, act queue.Action) {
	a.cfg.Rooms.Applied(e.step.Change)
	a.cfg.Rooms.Reported(act.ReportN)
	a.jobs[e.id].finished(act)
}

// finished takes an action that has ended out of the loop's state.
func (j *Job) finished(act queue.Action) {
	a := j.actions
	j.act = act
	delete(a.jobs, act.ID)
	a.lanes.remove(act.ID)
	a.cfg.Rooms.Ended(&act, &j.spec)
	a.ended(&act)
}

// ended counts the end of an action, and tells those who wait for it.
func (a *Actions) ended(act *queue.Action) {
	if n := a.Counters.ended[act.State]; n != nil {
		n.Add(1)
	}
	a.Changed(act.ID)
	a.cfg.Log.Info("an action has ended", "action", act.ID.String(), "state", string(act.State), "reason", string(act.Reason))
}

// Cancel requests the end of an action. An action that waits ends at once. One that runs
// ends when its last process has ended. An unknown id can never begin from then on.
func (a *Actions) Cancel(at protocol.Position, id protocol.ActionID) (queue.Action, error) {
	act, err := a.cfg.Store.Cancel(a.loop.Steps(), at, id, a.loop.When())
	if err != nil {
		return act, err
	}
	a.cfg.Rooms.Reported(act.ReportN)
	j := a.jobs[id]
	switch {
	case j == nil:
	case act.State.Final():
		j.finished(act)
	default:
		j.act = act
		a.Changed(id)
		if c, ok := a.cfg.Handlers[j.spec.Kind].(Canceller); ok && act.Cancelling {
			c.Cancel(j)
		}
	}
	return act, nil
}

// NotCancelled says that an attempt goes on although its end was asked for.
func (a *Actions) NotCancelled(id protocol.ActionID, why error) {
	j := a.jobs[id]
	if j == nil {
		return
	}
	act, err := a.cfg.Store.Remark(a.loop.Steps(), id, protocol.NotCancelled+why.Error(), true, a.loop.When())
	if a.loop.Disk(err) {
		j.moved(act)
	}
}

// Remarks about an action that has not ended begin with one of these words, by which
// they are known again.
const (
	Stuck      = "stuck: "
	Cancelling = "cancelling: "
	UnderWay   = "under way: "
)

func remarked(detail string) bool {
	return strings.HasPrefix(detail, Cancelling) || strings.HasPrefix(detail, Stuck) || strings.HasPrefix(detail, UnderWay)
}

// Remark says in an action what keeps it, and takes back what was said before.
func (a *Actions) Remark(id protocol.ActionID, text string) {
	j := a.jobs[id]
	if j == nil || text == j.act.Detail || text == "" && !remarked(j.act.Detail) {
		return
	}
	act, err := a.cfg.Store.Remark(a.loop.Steps(), id, text, false, a.loop.When())
	if a.loop.Disk(err) {
		j.moved(act)
	}
}

// slowAfter is after how long it is said what a saga does. Operations on containers
// take a fraction of that, and only the first creation from a template more.
const slowAfter = 5 * time.Second

// lookAtSlow says of sagas that take long what they do.
func (a *Actions) lookAtSlow() {
	for id, j := range a.jobs {
		if j.idle == nil || j.act.State != protocol.StateRunning {
			continue
		}
		select {
		case <-j.idle:
			continue // its end is about to be taken
		default:
		}
		a.slow.In(slowAfter)
		if j.slow != nil {
			a.Remark(id, j.slow())
		}
	}
}
