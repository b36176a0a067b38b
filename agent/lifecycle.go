package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/hostler-io/hostler/agent/actions"
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
	return nil, nil, fmt.Errorf("%w: no runtime of this host makes containers", actions.CodeUnsupported)
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

// applyToContainers follows a change that is durable.
func (a *Agent) applyToContainers(c queue.Change) {
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
}

// verbs carries out what is done to containers, as [actions.Handler].
type verbs struct{ a *Agent }

// Admit implements [actions.Handler].
func (v verbs) Admit(s *protocol.Spec) error {
	if s.Kind != protocol.KindCreate {
		return nil
	}
	_, _, err := v.a.creator()
	return err
}

// Prepare implements [actions.Handler].
func (v verbs) Prepare(s *protocol.Spec) (queue.Change, *queue.Step) {
	c, ok := v.a.prepare(s)
	if !ok {
		end := v.a.unprepared(s)
		return queue.Change{}, &end
	}
	return c, nil
}

// Begin implements [actions.Handler].
func (v verbs) Begin(j *actions.Job) {
	a, spec := v.a, j.Spec()
	t := a.managed[spec.Target]
	if t == nil {
		j.Finish(queue.Step{Event: protocol.EventTargetGone})
		return
	}
	if spec.Kind == protocol.KindStart || spec.Kind == protocol.KindReset {
		t.tries = attempts{} // a user's own start forgives what was before
	}
	l := &lifeStep{agent: a, spec: *spec, rec: t.rec, runtime: a.runtime(t.rec.Runtime)}
	if l.runtime == nil {
		j.Finish(queue.Step{Event: protocol.EventFail, Detail: fmt.Sprintf("this host has no %s any more", l.rec.Runtime), Container: a.became(t.rec.CTID, queue.Change{})})
		return
	}
	if info, _ := protocol.KindOf(spec.Kind); info.Lane == protocol.LanePreempt {
		l.victims = j.Preempted()
		if t.halt != nil {
			t.halt(actions.ErrPreempted)
			l.victims = append(l.victims, t.idle)
		}
	}
	s := l.saga()
	s.Ended = func(ctx context.Context) func(*queue.Step) {
		seen := l.seen
		if seen.Name == "" {
			seen = inspect(ctx, l.runtime, string(l.rec.Name))
		}
		return func(end *queue.Step) {
			a.observed(l.rec.CTID, seen)
			end.Container = a.became(l.rec.CTID, end.Change)
		}
	}
	s.Slow = func() string {
		t := a.managed[l.rec.CTID]
		if busy, ok := l.runtime.(container.Busy); ok && t != nil {
			return underWay(busy.Operations(), t.rec)
		}
		return ""
	}
	j.Run(s)
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

// lifeStep is a step of a container's life, done by a worker.
type lifeStep struct {
	agent   *Agent
	spec    protocol.Spec
	rec     queue.Container
	runtime container.Runtime
	// victims are closed when what it has preempted has let go of the container.
	victims []<-chan struct{}
	// seen is the container after the step, if the runtime has told.
	seen container.Info
}

// saga is what is done. All steps may be made again after an interruption.
func (l *lifeStep) saga() actions.Saga {
	switch l.spec.Kind {
	case protocol.KindCreate:
		s := actions.Saga{Steps: []actions.Step{{Do: marked(l.create), Commit: true}}, Undo: l.uncreate}
		if l.spec.Start {
			s.Steps = append(s.Steps, actions.Step{Do: marked(l.startCreated)})
		}
		return s
	case protocol.KindRename:
		return actions.One(marked(l.rename))
	case protocol.KindDestroy:
		return actions.One(marked(l.destroy))
	}
	do := l.start
	switch {
	case l.spec.Kind == protocol.KindStop:
		do = l.stop
	case l.spec.Kind == protocol.KindStopNow:
		do = l.stopNow
	case l.spec.Kind == protocol.KindReset && l.rec.Intended != queue.Running:
		do = func(context.Context) error { return nil }
	}
	return actions.One(marked(func(ctx context.Context) (queue.Change, error) { return queue.Change{}, do(ctx) }))
}

// marked marks the errors of a step that tell of an interruption.
func marked(do func(context.Context) (queue.Change, error)) func(context.Context) (queue.Change, error) {
	return func(ctx context.Context) (queue.Change, error) {
		c, err := do(ctx)
		if errors.Is(err, container.ErrInterrupted) {
			err = actions.Interrupted(err)
		}
		return c, err
	}
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

func (l *lifeStep) stop(ctx context.Context) (err error) {
	l.seen, err = l.runtime.Stop(ctx, string(l.rec.Name), l.grace())
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

// create makes the container, and says what it is to be from then on.
func (l *lifeStep) create(ctx context.Context) (queue.Change, error) {
	if err := l.make(ctx); err != nil {
		return queue.Change{}, err
	}
	made := l.rec
	made.Made = true
	if l.spec.Start {
		made.Intended = queue.Running
	}
	l.rec.Intended = made.Intended
	return queue.Change{Put: []queue.Container{made}}, nil
}

// startCreated starts a container that was created.
func (l *lifeStep) startCreated(ctx context.Context) (queue.Change, error) {
	if err := l.start(ctx); err != nil {
		return queue.Change{}, fmt.Errorf("it was created and does not start: %w", err)
	}
	return queue.Change{}, nil
}

// uncreate forgets a container that could not be made, unless something of it is
// left that its user has to destroy.
func (l *lifeStep) uncreate(_ context.Context, why error) (queue.Change, error) {
	if l.rec.Made {
		return queue.Change{}, why // by an order before this one
	}
	if left := l.unmake(why); left != nil {
		return queue.Change{}, fmt.Errorf("%w; what it left cannot be removed: %w", why, left)
	}
	return queue.Change{Delete: []protocol.CTID{l.rec.CTID}}, why
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
	if err := a.apply(c); err != nil {
		return netip.Prefix{}, err
	}
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

// preemptPatience is how long a stop that may not wait waits for the operations
// that it has ended to be gone: killing a helper process takes no time, unless the
// kernel is stuck with it.
const preemptPatience = 5 * time.Second

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

// slow is how long an operation on a container takes until it is told what it does.
// Most take a fraction of that; the first creation from a template takes more.
const slow = 5 * time.Second

// underWay tells of the operation on a container that takes long; empty is none.
func underWay(all []container.Operation, rec queue.Container) string {
	for _, o := range all {
		if o.Name == string(rec.Name) && time.Since(o.Since) >= slow {
			return fmt.Sprintf("%s%s %s of %s, process %d, since %s; it is killed unless it has ended at %s",
				actions.UnderWay, rec.Runtime, o.Verb, o.Name, o.PID, o.Since.UTC().Format(time.RFC3339), o.Until.UTC().Format(time.RFC3339))
		}
	}
	return ""
}
