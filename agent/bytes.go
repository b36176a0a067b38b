package agent

import (
	"context"

	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/agent/relay"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/audit"
)

// newRelay makes the relay of this host.
func (a *Agent) newRelay() *relay.Relay {
	cfg := &a.cfg
	r := relay.Config{
		Wire: a.wire, Numbers: a.voice, Traffic: a.counters.traffic, RunDirs: cfg.RunDirs, Payloads: cfg.Payloads, Senders: cfg.HostRuns + cfg.Lanes,
		Loop: a.loop, Actions: bytesOf{a}, Log: cfg.Log,
	}
	if cfg.Link != nil {
		r.Bulk = cfg.Bulk
	}
	return relay.New(r)
}

// BulkSession is what the agent wants of each of its second connections. The owner
// of the connection asks for it.
func (a *Agent) BulkSession() Session {
	return Session{
		Filters: []string{protocol.HostFilter(a.cfg.FleetName, a.cfg.Host, protocol.ChannelIn)},
		Handle:  a.relay.Handle,
		Up:      func(func(string, []byte, bool) error) { a.relay.Renew() },
	}
}

// tellCredits tells the coordinator what the streams ask for. What cannot be told
// now is told with the answer to the hello.
func (a *Agent) tellCredits() {
	if a.link.answered {
		a.ack()
	}
}

// bytesOf tells the relay about actions, as [relay.Actions].
type bytesOf struct{ a *Agent }

// Standing implements [relay.Actions].
func (b bytesOf) Standing(id protocol.ActionID) (relay.Standing, bool) {
	j := b.a.jobs[id]
	if j == nil {
		return relay.Standing{}, false
	}
	at := relay.Standing{Attempt: j.act.Attempt}
	if b.a.commands != nil {
		at.Run, at.Acks = b.a.commands.Running(id)
	}
	return at, true
}

// News implements [relay.Actions].
func (b bytesOf) News(id protocol.ActionID) <-chan struct{} { return b.a.news(id) }

// Supplied implements [relay.Actions].
func (b bytesOf) Supplied(id protocol.ActionID) { b.a.lanes.supplied(id) }

// Unsupplied implements [relay.Actions].
func (b bytesOf) Unsupplied(id protocol.ActionID, why error) {
	if j := b.a.jobs[id]; j != nil {
		b.a.finish(j, queue.Step{Event: protocol.EventFail, Detail: "its input did not arrive: " + why.Error()})
	}
}

// Record implements [relay.Actions].
func (b bytesOf) Record(r audit.Record) bool {
	return b.a.loop.Disk(b.a.cfg.Queue.Record(b.a.loop.Steps(), r))
}

// Action implements [relay.Actions].
func (b bytesOf) Action(ctx context.Context, id protocol.ActionID) (Action, error) {
	return b.a.Action(ctx, id)
}
