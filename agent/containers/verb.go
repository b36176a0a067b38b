package containers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/hostler-io/hostler/agent/actions"
	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/agent/retry"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/protocol"
)

// defaultGrace is how long a container's init is asked before it is killed.
const defaultGrace = 10 * time.Second

// Handlers are the handlers of all kinds of actions on containers. A new kind is a
// file with its handler, and a line here.
func (c *Containers) Handlers() map[protocol.Kind]actions.Handler {
	stop := verb{Containers: c, prepare: c.toStop, do: (*operation).stop}
	all := map[protocol.Kind]actions.Handler{
		protocol.KindCreate:   create{c},
		protocol.KindRestore:  create{c},
		protocol.KindClone:    clone{create{c}},
		protocol.KindPromote:  promote{needs{verb{Containers: c}, "promote"}},
		protocol.KindDemote:   create{c},
		protocol.KindAdopt:    adopt{c},
		protocol.KindStart:    verb{Containers: c, prepare: c.toRun, do: (*operation).startNow, forgets: true},
		protocol.KindStop:     stop,
		protocol.KindStopNow:  stopNow{stop},
		protocol.KindRename:   verb{Containers: c, prepare: c.toRename, do: (*operation).rename},
		protocol.KindDestroy:  verb{Containers: c, prepare: c.toDestroy, do: (*operation).destroy},
		protocol.KindRestart:  verb{Containers: c, prepare: c.toRun, do: (*operation).restart, forgets: true},
		protocol.KindFreeze:   needs{verb{Containers: c, do: (*operation).freeze}, "freeze"},
		protocol.KindUnfreeze: needs{verb{Containers: c, do: (*operation).unfreeze}, "freeze"},
		protocol.KindLimit:    limits{verb{Containers: c, prepare: later(c), do: (*operation).limit}},
		protocol.KindSet:      set{verb{Containers: c, do: (*operation).nothing}},
		protocol.KindExpose:   expose{ports{c}},
		protocol.KindUnexpose: unexpose{verb{Containers: c, do: ports{c}.unexpose}},
		protocol.KindConfig:   settings{verb{Containers: c, prepare: later(c), do: (*operation).set}},
		protocol.KindReset:    verb{Containers: c, prepare: c.toReset, do: (*operation).reset, forgets: true},
	}
	all[protocol.KindNetworkCreate], all[protocol.KindNetworkRemove] = networkCreate{networks{c}}, networkRemove{networks{c}}
	all[protocol.KindVolumeRemove], all[protocol.KindContainerUpgrade] = removeVolume{c}, upgrade{needs{verb{Containers: c}, "upgrade"}}
	maps.Copy(all, snapshots(c))
	return all
}

// verb is what is done to a container in one step, as [actions.Handler].
type verb struct {
	*Containers
	prepare func(*protocol.Spec) (queue.Change, *queue.Step)
	do      func(*operation, context.Context) (queue.Change, error)
	// forgets tells that a user's own start forgets the failures before.
	forgets bool
}

func (verb) Admit(*protocol.Spec) error { return nil }

func (v verb) Prepare(s *protocol.Spec) (queue.Change, *queue.Step) { return v.prepare(s) }

func (v verb) Begin(j *actions.Job) {
	if m := v.managed[j.Spec().Target]; m != nil && v.forgets {
		m.tries = retry.Attempts{}
	}
	v.one(j, v.do)
}

// record returns what is remembered of the container of an action, or how the action
// ends without it.
func (c *Containers) record(s *protocol.Spec) (queue.Container, *queue.Step) {
	m := c.managed[s.Target]
	if m == nil {
		return queue.Container{}, &queue.Step{Event: protocol.EventTargetGone}
	}
	return m.rec, nil
}

// unmoved is record for an action that changes the container, its files or its snapshots: while
// the container is moved they stay as they are on their way, or the change would be lost.
func unmoved(c *Containers, s *protocol.Spec) (queue.Container, *queue.Step) {
	rec, end := c.record(s)
	if m := rec.Settings.Moving; m != nil && end == nil {
		end = &queue.Step{Event: protocol.EventFail, Detail: fmt.Sprintf("container %s is being moved to %s; go on with that (hostler ct move), or end it: hostler ct start", rec.Name, m.To)}
	}
	return rec, end
}

// later prepares an action that changes the record of its container when it ends, and not before.
func later(c *Containers) func(*protocol.Spec) (queue.Change, *queue.Step) {
	return func(s *protocol.Spec) (queue.Change, *queue.Step) {
		_, end := unmoved(c, s)
		return queue.Change{}, end
	}
}

// toRun prepares an action whose user wants the container to be running from now on.
func (c *Containers) toRun(s *protocol.Spec) (queue.Change, *queue.Step) {
	change, end := c.intend(s, queue.Running)
	return forgive(c, change, end)
}

// toStop does so for one that is to be stopped. One that is moved is noted as that.
func (c *Containers) toStop(s *protocol.Spec) (queue.Change, *queue.Step) {
	was, _ := c.record(s)
	change, end := c.intend(s, queue.Stopped)
	if to := protocol.ArgsOf[protocol.StopArgs](s).MovingTo; to != "" && end == nil {
		ran := was.Intended == queue.Running || was.Settings.Moving != nil && was.Settings.Moving.Ran
		change.Put[0].Settings.Moving = &queue.Moving{To: to, Ran: ran}
	}
	return change, end
}

// toDestroy prepares the removal of a container. One that ends a move is refused if a person
// has started the container since: that ended the move, and there may be new data.
func (c *Containers) toDestroy(s *protocol.Spec) (queue.Change, *queue.Step) {
	was, end := c.record(s)
	to := protocol.ArgsOf[protocol.StopArgs](s).MovingTo
	if m := was.Settings.Moving; end == nil && to != "" && (m == nil || m.To != to) {
		return queue.Change{}, &queue.Step{Event: protocol.EventFail, Detail: fmt.Sprintf("container %s is not being moved to %s any more, for it was started or stopped here since; it is left as it is", was.Name, to)}
	}
	return c.toStop(s)
}

// keep is the change that only keeps a record.
func keep(rec queue.Container) queue.Change { return queue.Change{Put: []queue.Container{rec}} }

func (c *Containers) intend(s *protocol.Spec, intended string) (queue.Change, *queue.Step) {
	rec, end := c.record(s)
	rec.Intended, rec.Settings.Moving = intended, nil
	return keep(rec), end
}

// forgive clears what failed starts have left in the record of a change.
func forgive(c *Containers, change queue.Change, end *queue.Step) (queue.Change, *queue.Step) {
	if end != nil {
		return change, end
	}
	rec := &change.Put[0]
	change.Alerts = mended(rec, c.cfg.Loop.WallMS())
	rec.Broken, rec.Failures = "", 0
	return change, nil
}

// toReset lets a broken container be started again.
func (c *Containers) toReset(s *protocol.Spec) (queue.Change, *queue.Step) {
	rec, end := c.record(s)
	return forgive(c, keep(rec), end)
}

// reset starts a container that was broken, if it is to run.
func (o *operation) reset(ctx context.Context) (queue.Change, error) {
	if o.rec.Intended != queue.Running {
		return queue.Change{}, nil
	}
	return queue.Change{}, o.start(ctx)
}

// operation is what a worker does to one container.
type operation struct {
	cfg     *Config
	contact *contact
	spec    *protocol.Spec // nil of a correction
	rec     queue.Container
	runtime container.Runtime      // nil if the host has none of that kind any more
	first   bool                   // no attempt was before this one
	unwell  bool                   // the alert of its health is raised
	source  protocol.ContainerName // of a clone: the container that is copied
	// seen is the container afterwards, if the runtime has told.
	seen container.Info
	note string // for people, beside a success
	// group has all processes of a unique container that is started, and until is when its
	// lease ends, by the boot clock in milliseconds.
	group string
	until int64
}

// operation returns that of an action; nil if its container is gone, and the action
// has ended with that.
func (c *Containers) operation(j *actions.Job) *operation {
	s := *j.Spec()
	rec, end := c.record(&s)
	if end != nil {
		j.Finish(*end)
		return nil
	}
	return &operation{cfg: &c.cfg, contact: c.contact, spec: &s, rec: rec, runtime: c.runtime(rec.Runtime), first: j.Action().Attempt <= 1 && !j.Recovered(), unwell: c.managed[s.Target].probe.raised}
}

// one makes an operation of one step.
func (c *Containers) one(j *actions.Job, do func(*operation, context.Context) (queue.Change, error)) {
	if o := c.operation(j); o != nil {
		c.run(j, o, actions.One(func(ctx context.Context) (queue.Change, error) { return do(o, ctx) }))
	}
}

// run makes an operation in the steps of a saga, and looks at the container then. A
// step that the runtime calls interrupted may be made again.
func (c *Containers) run(j *actions.Job, o *operation, s actions.Saga) {
	if o.runtime == nil {
		s = actions.One(func(context.Context) (queue.Change, error) {
			return queue.Change{}, fmt.Errorf("this host has no %s any more", o.rec.Runtime)
		})
	}
	for i, step := range s.Steps {
		s.Steps[i].Do = func(ctx context.Context) (queue.Change, error) {
			c, err := step.Do(ctx)
			return c, marked(err)
		}
	}
	if undo := s.Undo; undo != nil {
		s.Undo = func(ctx context.Context, why error) (queue.Change, error) {
			c, err := undo(ctx, why)
			return c, marked(err)
		}
	}
	s.Ended = func(ctx context.Context) func(*queue.Step) {
		o.look(ctx)
		return func(end *queue.Step) {
			c.observed(o.rec.CTID, o.seen)
			if end.Event == protocol.EventSucceed {
				end.Detail = o.note
			}
			end.Container = c.became(o.rec.CTID, end.Change)
		}
	}
	s.Slow = func() string { return c.slow(o) }
	j.Run(s)
}

// marked marks what a runtime calls an interruption.
func marked(err error) error {
	if errors.Is(err, container.ErrInterrupted) {
		return actions.Interrupted(err)
	}
	return err
}

// slowAfter is how long an operation of a runtime takes until it is told. Most take a
// fraction of that; the first creation from a template takes more.
const slowAfter = 5 * time.Second

// slow tells of an operation of the runtime that takes long; empty is none.
func (c *Containers) slow(o *operation) string {
	m := c.managed[o.rec.CTID]
	busy, ok := o.runtime.(container.Busy)
	if m == nil || !ok {
		return ""
	}
	for _, b := range busy.Operations() {
		if b.Name == string(m.rec.Name) && b.Note != "" {
			return actions.UnderWay + b.Note
		}
		if b.Name == string(m.rec.Name) && time.Since(b.Since) >= slowAfter {
			return fmt.Sprintf("%s%s %s of %s, process %d, since %s; it is killed unless it has ended at %s",
				actions.UnderWay, m.rec.Runtime, b.Verb, b.Name, b.PID, b.Since.UTC().Format(time.RFC3339), b.Until.UTC().Format(time.RFC3339))
		}
	}
	return ""
}

// asked is the grace that the request names; zero if it names none.
func (o *operation) asked() time.Duration {
	return time.Duration(protocol.ArgsOf[protocol.StopArgs](o.spec).GraceMS) * time.Millisecond
}

// grace is how long the init of the container is asked before it is killed.
func (o *operation) grace() time.Duration {
	return cmp.Or(o.asked(), defaultGrace)
}

// lookAfter bounds the look at a container after an operation.
const lookAfter = 10 * time.Second

// look looks at the container, if the runtime has not told yet how it is.
func (o *operation) look(ctx context.Context) {
	if o.seen.Name == "" {
		o.seen = o.inspect(ctx, string(o.rec.Name))
	}
}

// inspect looks at one container; zero if the runtime did not answer.
func (o *operation) inspect(ctx context.Context, name string) container.Info {
	if o.runtime == nil {
		return container.Info{}
	}
	ctx, cancel := context.WithTimeout(ctx, lookAfter)
	defer cancel()
	info, err := o.runtime.Inspect(ctx, name)
	if err != nil {
		return container.Info{}
	}
	return info
}
