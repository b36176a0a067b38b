package containers

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/agent/retry"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/protocol"
)

// A look takes at most lookTimeout. One may begin every lookPause, and lookBurst of them at
// once: a lone change is seen at once, many in a short time are seen in a few looks.
const (
	lookTimeout = time.Minute
	lookPause   = 200 * time.Millisecond
	lookBurst   = 5
)

// Run looks at the containers when [Containers.Look] or a runtime asks for it, until
// ctx ends. It may be called from any goroutine, once.
func (c *Containers) Run(ctx context.Context) {
	var wg sync.WaitGroup
	if c.cfg.Network != nil {
		wg.Go(func() { ports{c}.keep(ctx) })
	}
	for i, r := range c.cfg.Runtimes {
		wg.Go(func() { c.look(ctx, r, c.pokes[i]) })
		if w, ok := r.(container.Watcher); ok {
			wg.Go(func() { c.watch(ctx, r.Kind(), w, c.pokes[i]) })
		}
	}
	wg.Wait()
}

// Look asks for a full look at all containers.
func (c *Containers) Look() {
	ports{c}.poke()
	for _, poke := range c.pokes {
		wake(poke)
	}
}

// wake asks for a look.
func wake(poke chan<- struct{}) {
	select {
	case poke <- struct{}{}:
	default: // it is asked for already
	}
}

// listing is a full look at the containers of one runtime.
type listing struct {
	kind  container.Kind
	look  uint64 // when it began
	infos []container.Info
	err   error
}

// look lists the containers of a runtime whenever it is asked to. It waits for its limit
// before it is asked, not after: what comes meanwhile is seen in one look.
func (c *Containers) look(ctx context.Context, r container.Runtime, poke <-chan struct{}) {
	limit := rate.NewLimiter(rate.Every(lookPause), lookBurst)
	for limit.Wait(ctx) == nil {
		select {
		case <-ctx.Done():
			return
		case <-poke:
		}
		l := listing{kind: r.Kind(), look: c.looks.Load()}
		limited, cancel := context.WithTimeout(ctx, lookTimeout)
		l.infos, l.err = r.List(limited)
		cancel()
		if !c.cfg.Loop.Tell(func() { c.listed(l) }) {
			return
		}
	}
}

// watch asks for a look at every change, whatever caused it, but a start of our own. A runtime
// that cannot be watched is looked at every Config.CheckEvery all the same.
func (c *Containers) watch(ctx context.Context, kind container.Kind, w container.Watcher, poke chan<- struct{}) {
	err := w.Watch(ctx, func() { wake(poke) }, func(e container.Event) {
		if _, ours := c.starting.Load(e.Name); !ours || e.State != container.StateStarting && e.State != container.StateRunning {
			wake(poke) // else the end of our start tells
		}
	})
	if ctx.Err() == nil {
		c.cfg.Log.Warn("containers cannot be watched; they are looked at from time to time", "runtime", string(kind), "error", err)
	}
}

// listed takes a full look: what is there, what has changed, what is foreign.
func (c *Containers) listed(l listing) {
	c.unlooked = slices.DeleteFunc(c.unlooked, func(k container.Kind) bool { return k == l.kind })
	if errors.Is(l.err, container.ErrUnavailable) {
		c.lost(l)
		return
	}
	if c.away[l.kind] && l.err == nil {
		delete(c.away, l.kind)
		c.cfg.Log.Info("the runtime answers again", "runtime", string(l.kind))
	}
	if l.err != nil {
		c.cfg.Log.Warn("containers cannot be listed", "runtime", string(l.kind), "error", l.err)
		c.cfg.Seen()
		return
	}
	there := make(map[protocol.CTID]bool)
	foreign := []container.Info{}
	for _, info := range l.infos {
		id, err := protocol.ParseCTID(string(info.CTID))
		if m := c.managed[id]; err == nil && m != nil {
			there[id] = true
			c.saw(m, info, l.look)
			continue
		}
		if (adopt{c}).since(l, info) || !id.IsZero() && c.forgot > l.look {
			continue
		}
		foreign = append(foreign, info)
	}
	for id, m := range c.managed {
		if m.rec.Runtime == string(l.kind) && !there[id] {
			// It cannot run if it is not there: starting it will say so.
			c.saw(m, container.Info{Name: string(m.rec.Name), Kind: l.kind, State: container.StateStopped}, l.look)
		}
	}
	c.foreign[l.kind] = foreign
	c.cfg.Seen()
	c.Correct()
}

// lost takes that a runtime does not answer. Its containers may be in any state, and
// nothing is done to them until it is back: a start that cannot be asked for is no
// failure of the container.
func (c *Containers) lost(l listing) {
	for _, m := range c.managed {
		if m.rec.Runtime == string(l.kind) {
			m.seen = false
		}
	}
	for i := range c.foreign[l.kind] {
		c.foreign[l.kind][i].State = container.StateUnknown
	}
	if !c.away[l.kind] {
		c.away[l.kind] = true
		c.cfg.Log.Warn("a runtime does not answer; its containers are left alone until it does", "runtime", string(l.kind), "error", l.err)
	}
	c.cfg.Seen()
}

// saw takes what a look that began at look has seen of a container.
func (c *Containers) saw(m *managed, info container.Info, look uint64) {
	switch {
	case m.halt != nil, m.look > look, !c.cfg.Actions.Idle(m.rec.CTID) && m.seen:
		return // something is being done to it: the end of that will tell
	case !c.cfg.Actions.Idle(m.rec.CTID):
		// This process has never seen it, and what is done to it may take days.
		m.info, m.seen = info, true
		return
	}
	c.take(m, info)
}

// observed takes what was seen right after a step of a container's life; zero if
// it did not answer.
func (c *Containers) observed(id protocol.CTID, info container.Info) {
	m := c.managed[id]
	if m == nil {
		return
	}
	m.look, m.tried = c.looks.Add(1), false
	ports{c}.poke() // it may have got a cable
	if info.Name != "" {
		c.take(m, info)
	} else {
		c.Look()
	}
	c.cfg.Seen()
}

func (c *Containers) take(m *managed, info container.Info) {
	info = ends{c}.truly(m, info)
	if fresh := !m.seen || m.info.State != info.State || m.info.InitPID != info.InitPID; fresh {
		defer holding{c}.follow(m)
		ports{c}.poke() // its name is found while it runs
	}
	m.info, m.seen = info, true
	ends{c}.follow(m)
	c.checks.tick.In(0)
	if info.State == container.StateStopped || info.InitPID != m.probe.pid {
		m.probe.sick = false // as it was to be: it may be started again, or was
	}
	switch {
	case info.State == container.StateRunning:
		m.tries = m.tries.Up(c.cfg.Loop.Now())
	case info.State == container.StateStopped && m.rec.Intended == queue.Running && m.held == "":
		m.tries = m.tries.Down(c.cfg.Loop.Now(), c.cfg.Loop.Jitter())
	case info.State == container.StateStopped:
		m.tries = retry.Attempts{Failures: m.tries.Failures}
	}
}
