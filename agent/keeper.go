package agent

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/hostler-io/hostler/agent/actions"
	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/protocol"
)

// Numbers of the keeper.
const (
	// maxCorrections is how many containers are corrected at a time: after a
	// reboot all that ran come back, and a host should stay usable meanwhile.
	maxCorrections = 8
	// correctTimeout bounds one correction.
	correctTimeout = 5 * time.Minute
	// lookTimeout bounds one full look, and lookPause is between two: a storm
	// of changes is seen in a few looks.
	lookTimeout = time.Minute
	lookPause   = 200 * time.Millisecond
)

// tracked is a container that the agent manages. It belongs to the loop.
type tracked struct {
	rec   queue.Container
	info  container.Info // as it was last seen
	seen  bool
	tries attempts
	busy  bool   // a correction is under way
	gen   uint64 // looks that began before this one may tell the past
	// halt ends the correction that is under way, and idle is closed when it has
	// ended.
	halt context.CancelCauseFunc
	idle <-chan struct{}
}

// listing is a full look at the containers of one runtime.
type listing struct {
	kind  container.Kind
	gen   uint64 // when it began
	infos []container.Info
	err   error
}

// loadContainers reads what is remembered. Nothing is known of their state yet.
func (a *Agent) loadContainers(ctx context.Context) error {
	all, err := a.cfg.Queue.Containers(ctx)
	if err != nil {
		return err
	}
	clear(a.managed)
	for _, rec := range all {
		a.managed[rec.CTID] = &tracked{rec: rec, tries: attempts{failures: rec.Failures}}
	}
	return nil
}

// lookAll asks for a full look at all containers.
func (a *Agent) lookAll() {
	for _, poke := range a.pokes {
		select {
		case poke <- struct{}{}:
		default: // it is asked for already
		}
	}
}

// look lists the containers of a runtime whenever it is asked to.
func (a *Agent) look(ctx context.Context, r container.Runtime, poke <-chan struct{}) error {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-poke:
		}
		l := listing{kind: r.Kind(), gen: a.gen.Load()}
		limited, cancel := context.WithTimeout(ctx, lookTimeout)
		l.infos, l.err = r.List(limited)
		cancel()
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case a.listings <- l:
		case <-a.loop.Stopped():
			return nil
		}
		pause.Reset(lookPause)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-pause.C:
		}
	}
}

// watch asks for a look at every change, whoever caused it. A runtime that
// cannot be watched is looked at every Config.CheckEvery all the same.
func (a *Agent) watch(ctx context.Context, kind container.Kind, w container.Watcher, poke chan<- struct{}) error {
	look := func() {
		select {
		case poke <- struct{}{}:
		default:
		}
	}
	err := w.Watch(ctx, look, func(container.Event) { look() })
	if ctx.Err() == nil {
		a.cfg.Log.Warn("containers cannot be watched; they are looked at from time to time", "runtime", kind.String(), "error", err)
	}
	return nil
}

// listed takes a full look: what is there, what has changed, what is foreign.
func (a *Agent) listed(l listing) {
	a.unlooked = slices.DeleteFunc(a.unlooked, func(k container.Kind) bool { return k == l.kind })
	if l.err != nil {
		a.cfg.Log.Warn("containers cannot be listed", "runtime", l.kind.String(), "error", l.err)
		a.hostChanged()
		return
	}
	there := make(map[protocol.CTID]bool)
	foreign := []container.Info{}
	for _, info := range l.infos {
		id, err := protocol.ParseCTID(string(info.CTID))
		if t := a.managed[id]; err == nil && t != nil {
			there[id] = true
			a.saw(t, info, l.gen)
			continue
		}
		foreign = append(foreign, info)
	}
	for id, t := range a.managed {
		if t.rec.Runtime == l.kind.String() && !there[id] {
			// It cannot run if it is not there: starting it will say so.
			a.saw(t, container.Info{Name: string(t.rec.Name), Kind: l.kind, State: container.StateStopped}, l.gen)
		}
	}
	a.foreign[l.kind] = foreign
	a.hostChanged()
	a.correct()
}

// saw takes what a look that began at gen has seen of a container.
func (a *Agent) saw(t *tracked, info container.Info, gen uint64) {
	if t.busy || t.gen > gen || !a.actions.Idle(t.rec.CTID) {
		return // something is being done to it: the end of that will tell
	}
	a.take(t, info)
}

// observed takes what was seen right after a step of a container's life; zero if
// it did not answer.
func (a *Agent) observed(id protocol.CTID, info container.Info) {
	t := a.managed[id]
	if t == nil {
		return
	}
	t.gen = a.gen.Add(1)
	if info.Name != "" {
		a.take(t, info)
	} else {
		a.lookAll()
	}
	a.hostChanged()
}

func (a *Agent) take(t *tracked, info container.Info) {
	t.info, t.seen = info, true
	switch {
	case info.State == container.StateRunning:
		t.tries = t.tries.up(a.loop.Now())
	case info.State == container.StateStopped && t.rec.Intended == queue.Running:
		t.tries = t.tries.down(a.loop.Now(), a.loop.Jitter())
	case info.State == container.StateStopped:
		t.tries = attempts{failures: t.tries.failures}
	}
}

// correction is what a container needs to be as its user wants it.
type correction int

// The corrections.
const (
	correctNothing correction = iota
	correctLater              // at attempts.notBefore
	correctStart
	correctStop
)

// judge is the decision about one container. It is pure.
func judge(rec *queue.Container, seen bool, state container.State, tries attempts, now time.Duration) (what correction) {
	switch {
	case !rec.Made || !seen || rec.Broken != "":
		return correctNothing
	case rec.Intended == queue.Running && state == container.StateStopped:
		what = correctStart
	case rec.Intended == queue.Stopped && (state == container.StateRunning || state == container.StateFrozen):
		what = correctStop
	default:
		return correctNothing
	}
	if now < tries.notBefore {
		return correctLater
	}
	return what
}

// correct brings containers to what their users want, as far as nobody else is
// at work on them. What they want is durable: a full disk keeps none from it.
func (a *Agent) correct() {
	if a.loop.Stopping() {
		return
	}
	busy := 0
	for _, t := range a.managed {
		if t.busy {
			busy++
		}
	}
	now := a.loop.Now()
	for _, t := range a.sorted() {
		what := judge(&t.rec, t.seen, t.info.State, t.tries, now)
		if t.busy || !a.actions.Idle(t.rec.CTID) {
			continue // asked again at the end of that
		}
		switch what {
		case correctLater:
			a.keepSoon.In(t.tries.notBefore - now)
		case correctStart, correctStop:
			if busy < maxCorrections {
				busy++
				a.beginCorrection(t, what)
			}
		}
	}
}

// sorted returns the managed containers by name.
func (a *Agent) sorted() []*tracked {
	all := make([]*tracked, 0, len(a.managed))
	for _, t := range a.managed {
		all = append(all, t)
	}
	slices.SortFunc(all, func(x, y *tracked) int { return cmp.Compare(x.rec.Name, y.rec.Name) })
	return all
}

// beginCorrection starts or stops a container beside the loop. It holds the
// container's lane meanwhile, as an action does.
func (a *Agent) beginCorrection(t *tracked, what correction) {
	r := a.runtime(t.rec.Runtime)
	if r == nil {
		return
	}
	t.busy = true
	a.actions.Hold(t.rec.CTID)
	rec := t.rec
	work, halt := context.WithCancelCause(a.loop.Work())
	idle := make(chan struct{})
	t.halt, t.idle = halt, idle
	a.loop.Worker(func() func() {
		defer halt(nil)
		ctx, cancel := context.WithTimeout(work, correctTimeout)
		defer cancel()
		var seen container.Info
		var err error
		if what == correctStart {
			seen, err = a.startContainer(ctx, &rec, r)
		} else {
			seen, err = r.Stop(ctx, string(rec.Name), defaultGrace)
		}
		preempted := context.Cause(work) == actions.ErrPreempted
		close(idle)
		if seen.Name == "" {
			seen = inspect(a.loop.Work(), r, string(rec.Name))
		}
		return func() {
			a.actions.Release(rec.CTID)
			if t := a.managed[rec.CTID]; t != nil {
				t.busy, t.halt, t.idle = false, nil, nil
				if preempted {
					return // its stop looks at it
				}
				a.corrected(t, what, seen, err)
			}
		}
	})
}

// corrected takes the end of a correction.
func (a *Agent) corrected(t *tracked, what correction, seen container.Info, err error) {
	if a.loop.Work().Err() != nil {
		return // the agent stops: whatever it was, it was not the container's fault
	}
	a.keepSoon.In(0)
	switch {
	case what == correctStop && err != nil:
		a.cfg.Log.Warn("a container that should be stopped does not stop", "container", string(t.rec.Name), "error", err)
		t.tries = t.tries.unstopped(a.loop.Now(), a.loop.Jitter())
		t.seen = false // looked at again, and only then tried again
	case what == correctStop:
		a.cfg.Log.Info("a container was stopped as it should be", "container", string(t.rec.Name))
	case err != nil:
		a.startFailed(t, err)
	default:
		a.counters.starts.Add(1)
		a.cfg.Log.Info("a container was started as it should be", "container", string(t.rec.Name))
		t.tries = t.tries.up(a.loop.Now())
		if t.rec.Failures > 0 {
			rec := t.rec
			rec.Failures = 0
			a.remake(rec, nil)
		}
	}
	a.observed(t.rec.CTID, seen)
}

// startFailed counts a failed start, durable, and gives up after too many.
func (a *Agent) startFailed(t *tracked, why error) {
	a.counters.startFailures.Add(1)
	var broken bool
	t.tries, broken = t.tries.failed(a.loop.Now(), a.loop.Jitter())
	rec := t.rec
	rec.Failures = t.tries.failures
	var alerts []protocol.Alert
	if broken {
		rec.Broken = strings.ReplaceAll(strings.ToValidUTF8(why.Error(), "\uFFFD"), "\x00", "\uFFFD")
		alerts = []protocol.Alert{{AlertInfo: protocol.AlertInfo{
			ID: brokenAlert(&rec), Severity: "critical", SinceMS: a.cfg.Now().UnixMilli(),
			Text: "container " + string(rec.Name) + " does not start and is left alone until it is reset: " + rec.Broken,
		}, Raised: true}}
	}
	a.cfg.Log.Warn("a container does not start", "container", string(rec.Name), "failures", rec.Failures, "broken", broken, "error", why)
	a.remake(rec, alerts)
}

// remake makes a container's record durable. A disk that does not take it keeps
// the old one: the container is tried once more then.
func (a *Agent) remake(rec queue.Container, alerts []protocol.Alert) {
	_ = a.apply(queue.Change{Put: []queue.Container{rec}, Alerts: alerts}) // the loop knows of the disk
}

func brokenAlert(rec *queue.Container) string { return "container.broken/" + rec.CTID.String() }

// mended clears the alert of a container that was broken.
func (a *Agent) mended(rec *queue.Container) []protocol.Alert {
	if rec.Broken == "" {
		return nil
	}
	return []protocol.Alert{{AlertInfo: protocol.AlertInfo{ID: brokenAlert(rec), Severity: "critical", SinceMS: a.cfg.Now().UnixMilli(), Text: "container " + string(rec.Name) + " is tried again"}}}
}
