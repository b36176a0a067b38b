package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/hostler-io/hostler/agent/loop"
	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/protocol"
)

// status is the present state.
func (a *Agent) status() Status {
	s := Status{
		Host: a.cfg.Host, Fleet: a.cfg.Fleet, FleetName: a.cfg.FleetName, Boot: a.cfg.Boot,
		Inc: a.self.Inc, Starts: a.self.Starts, Store: a.self.Store, Link: a.cfg.Link != nil, Connected: a.link.answered,
		SinceMS: a.link.since, Conn: a.link.conn, Term: a.gate.Seen, Waiting: a.lanes.waiting, Unsent: a.unsent(),
		Degraded: a.loop.Degraded(), Containers: len(a.managed), Policy: PolicyStatus{a.rights.info, a.rights.kept.FloorMS},
	}
	if a.lease != nil {
		s.LeaseUntilMS = a.lease.UntilMS()
	}
	s.Running = len(a.jobs) - s.Waiting
	if a.cfg.Trust != nil {
		s.Ring = a.cfg.Trust.Ring()
	}
	for _, t := range a.managed {
		if t.rec.Broken != "" {
			s.Broken++
		}
	}
	return s
}

// unsent is how many items wait for a receipt.
func (a *Agent) unsent() (n uint64) {
	for _, p := range a.streams {
		if p.up {
			n += p.at.N - p.freed.N
		}
	}
	return n
}

// publishGauges tells the metrics what has changed in this turn of the loop.
func (a *Agent) publishGauges() {
	if !a.loop.TakeMoved() {
		return
	}
	g := gauges{connected: a.link.answered, degraded: a.loop.Degraded() != "", waiting: a.lanes.waiting, unsent: a.unsent(), containers: make(map[container.State]int)}
	g.running = len(a.jobs) - g.waiting
	for _, t := range a.managed {
		state := container.StateUnknown
		if t.seen {
			state = t.info.State
		}
		g.containers[state]++
	}
	a.counters.gauges.Store(&g)
}

// trigger looks at everything now.
func (a *Agent) trigger() {
	if a.link.conn != 0 {
		a.greetAgain() // its answer tells what is missing on either side
	}
	for _, p := range a.streams {
		p.resend.Connected()
	}
	a.lookAll()
	a.at(dueKeep, 0)
}

func (a *Agent) heartbeatNow() error {
	if !a.link.answered {
		return ErrOffline
	}
	a.beat.last = nil
	a.sendHeartbeat()
	return nil
}

// maxRequester is the longest name of who asks, in bytes; a report carries it.
const maxRequester = 255

// propose accepts an action of the host's own people.
func (a *Agent) propose(id protocol.ActionID, b []byte, requester string) (Action, error) {
	if a.loop.Stopping() {
		return Action{}, ErrStopped
	}
	spec, err := a.admit(protocol.DecodeRequest(b))
	if err != nil {
		return Action{}, fmt.Errorf("proposing an action: %w", err)
	}
	if requester == "" || len(requester) > maxRequester || !utf8.ValidString(requester) {
		return Action{}, fmt.Errorf("proposing an action: %w: the requester is not a name", protocol.ErrSpec)
	}
	o := queue.Order{Spec: b, Requester: requester}
	if err := a.allowedHere(&spec, &o); err != nil {
		if errors.Is(err, queue.ErrDisk) {
			a.loop.Disk(err)
		}
		return Action{}, fmt.Errorf("proposing an action: %w", err)
	}
	now := a.cfg.Now().UnixMilli()
	if id.IsZero() {
		var random [10]byte
		if _, err := a.cfg.Rand.Read(random[:]); err != nil {
			return Action{}, fmt.Errorf("drawing an action id: %w", err)
		}
		id = protocol.NewActionID(now, random)
	}
	if a.jobs[id] == nil {
		if err := cmp.Or(a.misnamed(&spec), a.roomForSession(id, &spec)); err != nil {
			return Action{}, fmt.Errorf("proposing an action: %w", err)
		}
	}
	info, _ := protocol.KindOf(spec.Kind)
	o.Action, o.CreatedMS, o.BudgetMS = id, now, info.StartTTL.Milliseconds()
	act, err := a.accept(o, spec)
	if err != nil {
		a.loop.Disk(err)
	}
	if j := a.jobs[id]; j != nil {
		act = j.act
	}
	return act, err
}

func (a *Agent) cancelLocal(id protocol.ActionID) (Action, error) {
	if a.loop.Stopping() {
		return Action{}, ErrStopped
	}
	act, err := a.cancel(protocol.Position{}, id)
	if err != nil {
		a.loop.Disk(err)
	}
	return act, err
}

// news is closed at the next change of an action; nil for one that has ended.
func (a *Agent) news(id protocol.ActionID) <-chan struct{} {
	if a.jobs[id] == nil {
		return nil
	}
	c := a.changes[id]
	if c == nil {
		c = make(chan struct{})
		a.changes[id] = c
	}
	return c
}

func (a *Agent) waitAction(ctx context.Context, id protocol.ActionID) (Action, error) {
	for {
		news, err := loop.Ask(ctx, a.loop, func() (<-chan struct{}, error) { return a.news(id), nil })
		if err != nil {
			return Action{}, err
		}
		act, err := a.Action(ctx, id)
		if err != nil || act.State.Final() {
			return act, err
		}
		select {
		case <-news:
		case <-ctx.Done():
			return act, context.Cause(ctx)
		case <-a.loop.Stopped():
			return act, ErrStopped
		}
	}
}
