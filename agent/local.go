package agent

import (
	"context"

	"github.com/hostler-io/hostler/agent/loop"
	"github.com/hostler-io/hostler/protocol"
)

// status is the present state.
func (a *Agent) status() Status {
	line := a.uplink.Standing()
	s := Status{
		Host: a.cfg.Host, Fleet: a.cfg.Fleet, FleetName: a.cfg.FleetName, Boot: a.cfg.Boot,
		Inc: a.self.Inc, Starts: a.self.Starts, Store: a.self.Store, Link: a.cfg.Link != nil, Connected: line.Connected,
		SinceMS: line.SinceMS, Conn: line.Conn, Term: line.Term, Waiting: a.actions.Waiting(), Unsent: line.Unsent,
		Degraded: a.loop.Degraded(), Policy: PolicyStatus{a.rights.Info(), a.rights.FloorMS()},
	}
	if a.lease != nil {
		s.LeaseUntilMS = a.lease.UntilMS()
	}
	s.Running = a.actions.Open() - s.Waiting
	if a.cfg.Trust != nil {
		s.Ring = a.cfg.Trust.Ring()
	}
	states, broken := a.containers.Count()
	s.Broken = broken
	for _, n := range states {
		s.Containers += n
	}
	return s
}

// publishGauges tells the metrics what has changed in this turn of the loop.
func (a *Agent) publishGauges() {
	if !a.loop.TakeMoved() {
		return
	}
	line := a.uplink.Standing()
	g := gauges{connected: line.Connected, degraded: a.loop.Degraded() != "", waiting: a.actions.Waiting(), unsent: line.Unsent}
	g.running = a.actions.Open() - g.waiting
	g.containers, _ = a.containers.Count()
	a.counters.gauges.Store(&g)
}

// trigger looks at everything now.
func (a *Agent) trigger() {
	a.uplink.Trigger()
	a.containers.Look()
	a.containers.Settled()
}

// propose accepts an action of the host's own people.
func (a *Agent) propose(id protocol.ActionID, b []byte, requester string) (Action, error) {
	if a.loop.Stopping() {
		return Action{}, ErrStopped
	}
	return a.actions.Propose(id, b, requester)
}

func (a *Agent) cancelLocal(id protocol.ActionID) (Action, error) {
	if a.loop.Stopping() {
		return Action{}, ErrStopped
	}
	act, err := a.actions.Cancel(protocol.Position{}, id)
	if err != nil {
		a.loop.Disk(err)
	}
	return act, err
}

func (a *Agent) waitAction(ctx context.Context, id protocol.ActionID) (Action, error) {
	for {
		news, err := loop.Ask(ctx, a.loop, func() (<-chan struct{}, error) { return a.actions.News(id), nil })
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
