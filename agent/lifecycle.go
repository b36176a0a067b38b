package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/hostler-io/hostler/agent/commands"
	"github.com/hostler-io/hostler/agent/loop"
	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/protocol"
)

// defaultGrace is how long a container's init is asked before it is killed.
const defaultGrace = 10 * time.Second

// The classes of containers.
const (
	classPinned = "pinned"
	classUnique = "unique"
)

// mayRun is asked on every path that starts a container. It returns the epoch
// under which it runs, or why it must not. A unique container needs a lease, and
// leases are not granted yet.
func mayRun(c *queue.Container) (e protocol.Epoch, why string) {
	if c.Class == classUnique {
		return e, "a unique container needs a lease, which this version does not support"
	}
	return c.Epoch, ""
}

// runtime returns the runtime of that name; nil if the host has none.
func (a *Agent) runtime(kind string) container.Runtime {
	for _, r := range a.cfg.Runtimes {
		if r.Kind().String() == kind {
			return r
		}
	}
	return nil
}

// creator returns the runtime that makes new containers.
func (a *Agent) creator() (container.Runtime, container.Creator, error) {
	for _, r := range a.cfg.Runtimes {
		if c, ok := r.(container.Creator); ok {
			return r, c, nil
		}
	}
	return nil, nil, fmt.Errorf("%w: no runtime of this host makes containers", codeUnsupported)
}

// prepare says what the start of an action makes durable of its container: what
// the user wants from now on. It is false when the action cannot begin at all.
func (a *Agent) prepare(s *protocol.Spec) (queue.Change, bool) {
	if s.Kind == protocol.KindCreate {
		return a.prepareCreate(s)
	}
	info, _ := protocol.KindOf(s.Kind)
	if !info.Target {
		return queue.Change{}, true
	}
	t := a.managed[s.Target]
	if t == nil {
		return queue.Change{}, false
	}
	rec := t.rec
	switch s.Kind {
	case protocol.KindStart:
		rec.Intended = queue.Running
	case protocol.KindStop, protocol.KindStopNow, protocol.KindDestroy:
		rec.Intended = queue.Stopped
		return queue.Change{Put: []queue.Container{rec}}, true
	case protocol.KindReset:
	case protocol.KindRename:
		return queue.Change{}, rec.Name == s.NewName || !a.taken(s.NewName)
	default:
		return queue.Change{}, true
	}
	c := queue.Change{Alerts: a.mended(&rec)}
	rec.Broken, rec.Failures = "", 0
	c.Put = []queue.Container{rec}
	return c, true
}

func (a *Agent) prepareCreate(s *protocol.Spec) (queue.Change, bool) {
	if a.managed[s.Target] != nil {
		return queue.Change{}, a.managed[s.Target].rec.Name == s.Name // the next attempt
	}
	r, _, err := a.creator()
	if err != nil || a.taken(s.Name) {
		return queue.Change{}, false
	}
	labels := slices.Sorted(slices.Values(s.Labels))
	return queue.Change{Put: []queue.Container{{
		CTID: s.Target, Name: s.Name, Runtime: r.Kind().String(), Class: cmp.Or(s.Class, classPinned), Intended: queue.Stopped,
		Offline: cmp.Or(s.Offline, "keep"), Labels: labels, Template: s.Template, MAC: container.MAC(container.CTID(s.Target.String())),
	}}}, true
}

// taken reports whether a name is that of any container of the host.
func (a *Agent) taken(name protocol.ContainerName) bool {
	for _, t := range a.managed {
		if t.rec.Name == name {
			return true
		}
	}
	for _, infos := range a.foreign {
		if slices.ContainsFunc(infos, func(i container.Info) bool { return i.Name == string(name) }) {
			return true
		}
	}
	return false
}

// unprepared is the end of an action that prepare refused.
func (a *Agent) unprepared(s *protocol.Spec) queue.Step {
	switch {
	case s.Kind == protocol.KindCreate:
		return queue.Step{Event: protocol.EventFail, Detail: fmt.Sprintf("a container %q exists on this host, or its id does", s.Name)}
	case s.Kind == protocol.KindRename && a.managed[s.Target] != nil:
		return queue.Step{Event: protocol.EventFail, Detail: fmt.Sprintf("a container %q exists on this host; choose another name, or remove it first", s.NewName)}
	}
	return queue.Step{Event: protocol.EventTargetGone}
}

// apply follows a change that is durable.
func (a *Agent) apply(c queue.Change) {
	for _, id := range c.Delete {
		delete(a.managed, id)
	}
	for _, rec := range c.Put {
		if t := a.managed[rec.CTID]; t != nil {
			t.rec = rec
		} else {
			a.managed[rec.CTID] = &tracked{rec: rec}
		}
	}
	for _, alert := range c.Alerts {
		if alert.Raised {
			a.alerts[alert.ID] = alert.AlertInfo
		} else {
			delete(a.alerts, alert.ID)
		}
	}
	if len(c.Alerts) > 0 {
		a.reread()
	}
	if len(c.Delete)+len(c.Put)+len(c.Alerts) > 0 {
		a.noteChange()
	}
}

// beginStep starts a step of a container's life beside the loop.
func (a *Agent) beginStep(j *job) {
	t := a.managed[j.spec.Target]
	if t == nil {
		a.finish(j, queue.Step{Event: protocol.EventTargetGone})
		return
	}
	if j.spec.Kind == protocol.KindStart || j.spec.Kind == protocol.KindReset {
		t.tries = attempts{} // a user's own start forgives what was before
	}
	info, _ := protocol.KindOf(j.spec.Kind)
	l := lifeStep{agent: a, id: j.act.ID, spec: j.spec, rec: t.rec, runtime: a.runtime(t.rec.Runtime), last: j.act.Attempt >= info.Attempts}
	if info.Lane == protocol.LanePreempt {
		l.victims = a.halted(j)
	}
	id := j.act.ID
	work, halt := context.WithCancelCause(a.loop.Work())
	idle := make(chan struct{})
	j.halt, j.idle = halt, idle
	a.at(dueSteps, slowStep)
	a.loop.Worker(func() func() {
		defer halt(nil)
		ctx, cancel := context.WithTimeoutCause(work, l.spec.Timeout(), errTimeLimit)
		defer cancel()
		step := l.do(ctx)
		close(idle)
		if a.loop.Work().Err() != nil {
			return nil // it is taken up by the next process
		}
		seen := l.seen
		if seen.Name == "" {
			seen = inspect(a.loop.Work(), l.runtime, string(l.rec.Name))
		}
		return func() {
			a.observed(l.rec.CTID, seen)
			if j := a.jobs[id]; j != nil {
				a.stepped(j, l.rec.CTID, step)
			}
		}
	})
}

// stepped takes the end of a step of a container's life, or begins the next
// attempt at it.
func (a *Agent) stepped(j *job, id protocol.CTID, step queue.Step) {
	if j.preempted {
		step = preempted(commands.Outcome{Step: step}).Step
	}
	if step.Event == protocol.EventRetry {
		a.again(j)
		return
	}
	step.Container = a.became(id, step.Change)
	a.finish(j, step)
}

// became is a container as it will be when a change is made; nil if it will be
// gone.
func (a *Agent) became(id protocol.CTID, c queue.Change) *protocol.Container {
	t := a.managed[id]
	if t == nil || slices.Contains(c.Delete, id) {
		return nil
	}
	next := *t
	for _, rec := range c.Put {
		if rec.CTID == id {
			next.rec = rec
		}
	}
	shown := next.show()
	return &shown
}

var errTimeLimit = errors.New("time limit")

// lifeStep is a step of a container's life, done by a worker.
type lifeStep struct {
	agent   *Agent
	id      protocol.ActionID
	spec    protocol.Spec
	rec     queue.Container
	runtime container.Runtime
	last    bool // no attempt follows, should this one be interrupted
	// victims are closed when what it has preempted has let go of the container.
	victims []<-chan struct{}
	// seen is the container after the step, if the runtime has told.
	seen container.Info
}

// do makes the step. All of them may be made again after an interruption.
func (l *lifeStep) do(ctx context.Context) queue.Step {
	if l.runtime == nil {
		return queue.Step{Event: protocol.EventFail, Detail: fmt.Sprintf("this host has no %s any more", l.rec.Runtime)}
	}
	var err error
	var change queue.Change
	switch l.spec.Kind {
	case protocol.KindCreate:
		change, err = l.create(ctx)
	case protocol.KindStart:
		err = l.start(ctx)
	case protocol.KindStop:
		l.seen, err = l.runtime.Stop(ctx, string(l.rec.Name), l.grace())
	case protocol.KindStopNow:
		err = l.stopNow(ctx)
	case protocol.KindRename:
		change, err = l.rename(ctx)
	case protocol.KindDestroy:
		change, err = l.destroy(ctx)
	case protocol.KindReset:
		if l.rec.Intended == queue.Running {
			err = l.start(ctx)
		}
	}
	switch {
	case err == nil:
		return queue.Step{Event: protocol.EventSucceed, Change: change}
	case context.Cause(ctx) == errTimeLimit:
		return queue.Step{Event: protocol.EventTimeout, Detail: err.Error(), Change: change}
	case errors.Is(err, container.ErrInterrupted) && !l.last:
		return queue.Step{Event: protocol.EventRetry}
	case errors.Is(err, container.ErrInterrupted):
		return queue.Step{Event: protocol.EventInterrupt, Detail: err.Error(), Change: change}
	}
	return queue.Step{Event: protocol.EventFail, Detail: err.Error(), Change: change}
}

func (l *lifeStep) grace() time.Duration {
	if l.spec.GraceMS > 0 {
		return time.Duration(l.spec.GraceMS) * time.Millisecond
	}
	return defaultGrace
}

func (l *lifeStep) start(ctx context.Context) (err error) {
	l.seen, err = l.agent.startContainer(ctx, &l.rec, l.runtime)
	return err
}

// startContainer is the one way in which a container is started, by a worker.
func (a *Agent) startContainer(ctx context.Context, rec *queue.Container, r container.Runtime) (container.Info, error) {
	if _, why := mayRun(rec); why != "" {
		return container.Info{}, errors.New(why)
	}
	if rec.Address != "" && a.cfg.Network != nil {
		if _, _, err := a.cfg.Network.Ensure(ctx); err != nil {
			return container.Info{}, fmt.Errorf("preparing the network: %w", err)
		}
	}
	return r.Start(ctx, string(rec.Name))
}

// create makes the container and, if asked for, starts it. What it returns is to
// be changed with the end of the action: a container that could not be made is
// forgotten, unless something of it is left that its user has to destroy.
func (l *lifeStep) create(ctx context.Context) (queue.Change, error) {
	if err := l.make(ctx); err != nil {
		if l.rec.Made {
			return queue.Change{}, err // by an order before this one
		}
		if errors.Is(err, container.ErrInterrupted) && !l.last {
			return queue.Change{}, err // the next attempt goes on with what is there
		}
		if left := l.unmake(err); left != nil {
			return queue.Change{}, fmt.Errorf("%w; what it left cannot be removed: %w", err, left)
		}
		return queue.Change{Delete: []protocol.CTID{l.rec.CTID}}, err
	}
	l.rec.Made = true
	made := queue.Change{Put: []queue.Container{l.rec}}
	if !l.spec.Start {
		return made, nil
	}
	l.rec.Intended = queue.Running
	made.Put[0] = l.rec
	if err := l.record(ctx, made); err != nil {
		return made, err
	}
	if err := l.start(ctx); err != nil {
		return queue.Change{}, fmt.Errorf("it was created and does not start: %w", err)
	}
	return queue.Change{}, nil
}

// make makes the container, or goes on with what an earlier attempt has made.
func (l *lifeStep) make(ctx context.Context) error {
	network, err := l.network(ctx)
	if err != nil {
		return err
	}
	return l.runtime.(container.Creator).Create(ctx, container.CreateSpec{
		Name: string(l.rec.Name), CTID: container.CTID(l.rec.CTID.String()), Template: l.rec.Template, Network: network,
	})
}

// unmake removes what a creation has left that was cut short. A container of that
// name which is somebody else's is not touched.
func (l *lifeStep) unmake(why error) error {
	if errors.Is(why, container.ErrExists) || errors.Is(why, container.ErrUnsupported) {
		return nil // nothing was made
	}
	// The time limit of the step may be over.
	ctx, cancel := context.WithTimeout(l.agent.loop.Work(), correctTimeout)
	defer cancel()
	name := string(l.rec.Name)
	info, err := l.runtime.Inspect(ctx, name)
	switch {
	case err == nil && string(info.CTID) != l.rec.CTID.String():
		return nil
	case err != nil && !errors.Is(err, container.ErrNotFound):
		return err
	}
	// One that is half made is not found, and yet destroyed.
	err = l.runtime.(container.Creator).Destroy(ctx, name)
	if errors.Is(err, container.ErrNotFound) {
		return nil
	}
	return err
}

// record makes a change durable in the middle of a step.
func (l *lifeStep) record(ctx context.Context, c queue.Change) error {
	_, err := loop.Ask(ctx, l.agent.loop, func() (struct{}, error) {
		if j := l.agent.jobs[l.id]; j != nil && j.preempted {
			return struct{}{}, errPreempted
		}
		err := l.agent.cfg.Queue.Apply(l.agent.loop.Steps(), c, l.agent.loop.When())
		if l.agent.loop.Disk(err) {
			l.agent.apply(c)
		}
		return struct{}{}, err
	})
	return err
}

// network gives the container an address, durable before it is used and the same
// at every attempt.
func (l *lifeStep) network(ctx context.Context) (container.Network, error) {
	if l.agent.cfg.Network == nil {
		return container.Network{}, nil
	}
	bridge, prefix, err := l.agent.cfg.Network.Ensure(ctx)
	if err != nil {
		return container.Network{}, fmt.Errorf("preparing the network: %w", err)
	}
	address, err := loop.Ask(ctx, l.agent.loop, func() (netip.Prefix, error) { return l.agent.assign(&l.rec, prefix) })
	if err != nil {
		return container.Network{}, err
	}
	return container.Network{Bridge: bridge, Address: address, Gateway: container.Gateway(prefix).Addr(), MAC: l.rec.MAC}, nil
}

// assign gives a container an address of the network, or the one that it has.
func (a *Agent) assign(rec *queue.Container, network netip.Prefix) (netip.Prefix, error) {
	if p, err := netip.ParsePrefix(rec.Address); err == nil && network.Contains(p.Addr()) {
		return p, nil
	}
	var used []netip.Addr
	for _, t := range a.managed {
		if p, err := netip.ParsePrefix(t.rec.Address); err == nil {
			used = append(used, p.Addr())
		}
		used = append(used, t.info.Addresses...)
	}
	for _, infos := range a.foreign {
		for _, i := range infos {
			used = append(used, i.Addresses...)
		}
	}
	free, err := container.Allocate(network, used)
	if err != nil {
		return netip.Prefix{}, err
	}
	address := netip.PrefixFrom(free, network.Bits())
	next := *rec
	next.Address = address.String()
	c := queue.Change{Put: []queue.Container{next}}
	if err := a.cfg.Queue.Apply(a.loop.Steps(), c, a.loop.When()); !a.loop.Disk(err) {
		return netip.Prefix{}, err
	}
	a.apply(c)
	*rec = next // the worker waits for this call
	return address, nil
}

// destroy removes the container, running or not. One that is not there any more
// is destroyed.
func (l *lifeStep) destroy(ctx context.Context) (queue.Change, error) {
	name := string(l.rec.Name)
	if _, err := l.runtime.Stop(ctx, name, l.grace()); err != nil && !errors.Is(err, container.ErrNotFound) {
		return queue.Change{}, err
	}
	c, ok := l.runtime.(container.Creator)
	if !ok {
		return queue.Change{}, fmt.Errorf("%w: %s does not destroy containers here", container.ErrUnsupported, l.rec.Runtime)
	}
	if err := c.Destroy(ctx, name); err != nil && !errors.Is(err, container.ErrNotFound) {
		return queue.Change{}, err
	}
	return queue.Change{Delete: []protocol.CTID{l.rec.CTID}, Alerts: l.agent.mended(&l.rec)}, nil
}

// rename gives a stopped container another name. Its id, address and hardware
// address stay. One that has the name already is renamed: an attempt before this
// one was interrupted after it was done.
func (l *lifeStep) rename(ctx context.Context) (queue.Change, error) {
	r, ok := l.runtime.(container.Renamer)
	if !ok {
		return queue.Change{}, fmt.Errorf("%w: %s renames no containers here", container.ErrUnsupported, l.rec.Runtime)
	}
	id, name := container.CTID(l.rec.CTID.String()), string(l.spec.NewName)
	if err := r.Rename(ctx, string(l.rec.Name), name, id); err != nil {
		// Cut short, it may have its new name all the same: what is there decides.
		there := inspect(l.agent.loop.Work(), l.runtime, name)
		if there.CTID != id {
			return queue.Change{}, err
		}
	}
	next := called(l.rec, l.spec.NewName)
	l.rec.Name = next.Name // whoever looks at it now has to know
	return queue.Change{Put: []queue.Container{next}}, nil
}

// stopNow stops the container as soon as what was preempted has let go of it,
// and tries all the same if that takes too long.
func (l *lifeStep) stopNow(ctx context.Context) error {
	patience := time.NewTimer(preemptPatience)
	defer patience.Stop()
	for _, idle := range l.victims {
		select {
		case <-idle:
		case <-patience.C:
			patience.Reset(0)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	var err error
	l.seen, err = l.runtime.Stop(ctx, string(l.rec.Name), time.Duration(l.spec.GraceMS)*time.Millisecond)
	if errors.Is(err, container.ErrNotFound) {
		return nil // its creation or destruction was preempted: nothing of it runs
	}
	return err
}

// inspectTimeout bounds the look at a container after a step of its life.
const inspectTimeout = 10 * time.Second

// inspect looks at one container; zero if it did not answer.
func inspect(ctx context.Context, r container.Runtime, name string) container.Info {
	if r == nil {
		return container.Info{}
	}
	ctx, cancel := context.WithTimeout(ctx, inspectTimeout)
	defer cancel()
	info, err := r.Inspect(ctx, name)
	if err != nil {
		return container.Info{}
	}
	return info
}
