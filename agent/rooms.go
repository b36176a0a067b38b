package agent

import (
	"context"
	"iter"
	"maps"

	"github.com/hostler-io/hostler/agent/actions"
	"github.com/hostler-io/hostler/agent/commands"
	"github.com/hostler-io/hostler/agent/containers"
	"github.com/hostler-io/hostler/agent/lease"
	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/agent/relay"
	"github.com/hostler-io/hostler/agent/rights"
	"github.com/hostler-io/hostler/agent/uplink"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/audit"
)

// furnish makes the rooms and tells each which others it may ask.
func (a *Agent) furnish() {
	cfg := &a.cfg
	a.rights = rights.New(rights.Config{
		Host: cfg.Host, Fleet: cfg.Fleet, FleetName: cfg.FleetName, Policies: cfg.Policies, Trust: cfg.Trust,
		Loop: a.loop, UsedMS: cfg.Queue.UsedMS, Changed: a.hostChanged, Log: cfg.Log,
	})
	r := relay.Config{
		Wire: a.wire, Numbers: a.numbers, Traffic: a.traffic, RunDirs: cfg.RunDirs, Payloads: cfg.Payloads, Senders: cfg.HostRuns + cfg.Lanes,
		Loop: a.loop, Actions: bytesOf{a}, Log: cfg.Log,
	}
	if cfg.Link != nil {
		r.Bulk = cfg.Bulk
	}
	a.relay = relay.New(r)
	handlers := make(map[protocol.Kind]actions.Handler)
	a.actions = actions.New(actions.Config{
		Host: cfg.Host, Boot: cfg.Boot, Loop: a.loop, Store: cfg.Queue, Rooms: roomsOf{a}, Policy: a.rights, Inputs: a.relay, Handlers: handlers,
		Random: a.random, Lanes: cfg.Lanes, HostRuns: cfg.HostRuns, Sessions: cfg.Sessions, MaxOpen: cfg.MaxOpen, Log: cfg.Log,
	})
	if cfg.Commands != nil {
		a.commands = commands.New(commands.Config{
			Host: cfg.Host, Fleet: cfg.Fleet, Runner: cfg.Commands, RunDirs: cfg.RunDirs, Supervisor: cfg.Supervisor, Mover: cfg.Mover, Exporter: cfg.Exporter,
			Unseal: cfg.Unseal, Input: a.relay.Payload, RecordSessions: cfg.RecordSessions, RecordBytes: cfg.RecordBytes, RecordOrEnd: cfg.RecordOrEnd,
			BootMS: cfg.BootMS, Now: cfg.Now, Log: cfg.Log,
		}, a.loop, a.actions, needs{a})
	}
	a.containers = containers.New(containers.Config{
		Runtimes: cfg.Runtimes, Network: cfg.Network, Loop: a.loop, Lanes: a.actions, Rooms: roomsOf{a}, Log: cfg.Log,
	})
	maps.Copy(handlers, a.handlers())
	u := uplink.Config{
		Host: a.wire, Numbers: a.numbers, Traffic: a.traffic, Link: cfg.Link, Trust: cfg.Trust, Loop: a.loop,
		Streams: cfg.Queue, Answers: cfg.Queue, AuditLog: cfg.Queue.Audit(), Actions: a.actions, Bytes: a.relay,
		Report: a.report, Policy: a.rights.Told, Raise: a.raise, Boot: cfg.Boot, Features: cfg.Features, QuietEvery: cfg.CheckEvery, Log: cfg.Log,
	}
	if cfg.Link != nil {
		a.lease = lease.New(lease.Config{
			Host: a.wire, Numbers: a.numbers, Traffic: a.traffic, Boot: cfg.Boot, BootMS: cfg.BootMS,
			Publish: cfg.Link.Publish, Lost: func(conn uint64) { a.uplink.Lost(conn) }, Log: cfg.Log,
		})
		u.Grants = a.lease
	}
	a.uplink = uplink.New(u)
}

// handlers says how actions of each kind are carried out.
func (a *Agent) handlers() map[protocol.Kind]actions.Handler {
	cfg := &a.cfg
	commands := commands.Handler{
		Active: a.commands, Fetches: cfg.Payloads != nil && cfg.Link != nil, Unseals: cfg.Unseal != nil, Moves: cfg.Mover != nil, Exports: cfg.Exporter != nil,
	}
	all := a.containers.Handlers()
	for _, k := range protocol.Kinds() {
		if info, _ := protocol.KindOf(k); info.Command {
			all[k] = commands
		}
	}
	all[protocol.KindPing], all[protocol.KindPolicySet] = actions.Ping{}, a.rights
	return all
}

func (a *Agent) random() (random [10]byte, err error) {
	_, err = a.cfg.Rand.Read(random[:])
	return random, err
}

// hostChanged follows a change of what the host tells of itself.
func (a *Agent) hostChanged() { a.uplink.Changed() }

// report is what the host tells of itself; false until all its containers were
// seen.
func (a *Agent) report() (uplink.Report, bool) {
	if !a.containers.Looked() {
		return uplink.Report{}, false
	}
	h, policy := a.cfg.HostInfo(), a.rights.Info()
	h.Policy = &policy
	h.Boot, h.ClockMS, h.QueueDepth = a.cfg.Boot, a.loop.WallMS(), a.actions.Open()
	var inventory []protocol.Container
	for _, c := range a.containers.All() {
		inventory = append(inventory, c.Container)
	}
	return uplink.Report{Host: h, Containers: inventory}, true
}

// raise makes a change of an alert durable.
func (a *Agent) raise(alert protocol.Alert) {
	a.apply(queue.Change{Alerts: []protocol.Alert{alert}})
}

// apply makes a change durable by itself, and reports whether the disk took it.
func (a *Agent) apply(c queue.Change) error {
	err := a.cfg.Queue.Apply(a.loop.Steps(), c, a.loop.When())
	if a.loop.Disk(err) {
		roomsOf{a}.Applied(c)
	}
	return err
}

// roomsOf answers the room of actions about the other rooms, as [actions.Host] and [containers.Rooms].
type roomsOf struct{ a *Agent }

// ContainerName implements [actions.Host].
func (r roomsOf) ContainerName(id protocol.CTID) protocol.ContainerName {
	name, _, _ := r.a.containers.Find(id)
	return name
}

// Misnamed implements [actions.Host].
func (r roomsOf) Misnamed(s *protocol.Spec, pending iter.Seq[*protocol.Spec]) error {
	return r.a.containers.Misnamed(s, pending)
}

// Applied implements [actions.Host].
func (r roomsOf) Applied(c queue.Change) {
	a := r.a
	a.containers.Applied(c)
	a.uplink.Alerted(c.Alerts)
	if len(c.Delete)+len(c.Put)+len(c.Alerts) > 0 {
		a.hostChanged()
	}
}

// Reported implements [actions.Host].
func (r roomsOf) Reported(n uint64) { r.a.uplink.Reported(n) }

// Moved implements [actions.Host].
func (r roomsOf) Moved() { r.a.uplink.ActionMoved() }

// Ended implements [actions.Host].
func (r roomsOf) Ended(act *queue.Action, _ *protocol.Spec) {
	r.a.relay.Ended(act.ID, act.Attempt)
	r.a.containers.Settled()
}

// Spare implements [actions.Host].
func (r roomsOf) Spare() { r.a.spare() }

// Apply implements [containers.Rooms].
func (r roomsOf) Apply(c queue.Change) error { return r.a.apply(c) }

// Record implements [containers.Rooms].
func (r roomsOf) Record(records []audit.Record) {
	r.a.unrecorded = append(r.a.unrecorded, records...)
	r.a.writeRecords()
}

// Seen implements [containers.Rooms].
func (r roomsOf) Seen() { r.a.hostChanged() }

// needs is what commands need of the other rooms, as [commands.Rooms].
type needs struct{ a *Agent }

// Find implements [commands.Rooms].
func (n needs) Find(id protocol.CTID) (protocol.ContainerName, container.Runtime, bool) {
	return n.a.containers.Find(id)
}

// Within implements [commands.Rooms].
func (n needs) Within(s *protocol.Spec, requester string) []string {
	return n.a.rights.Within(s, requester)
}

// Expect implements [commands.Rooms].
func (n needs) Expect(id protocol.ActionID, attempt int) { n.a.relay.Expect(id, attempt) }

// Began implements [commands.Rooms].
func (n needs) Began(j *actions.Job, run commands.Run, acks *commands.Acknowledged) {
	act := j.Action()
	n.a.relay.Began(act.ID, relay.Standing{Attempt: act.Attempt, Run: run, Acks: acks}, j.Spec().Kind.Interactive())
}

// bytesOf tells the relay about actions, as [relay.Actions].
type bytesOf struct{ a *Agent }

// Standing implements [relay.Actions].
func (b bytesOf) Standing(id protocol.ActionID) (relay.Standing, bool) {
	j := b.a.actions.Job(id)
	if j == nil {
		return relay.Standing{}, false
	}
	at := relay.Standing{Attempt: j.Action().Attempt}
	if b.a.commands != nil {
		at.Run, at.Acks = b.a.commands.Running(id)
	}
	return at, true
}

// News implements [relay.Actions].
func (b bytesOf) News(id protocol.ActionID) <-chan struct{} { return b.a.actions.News(id) }

// Supplied implements [relay.Actions].
func (b bytesOf) Supplied(id protocol.ActionID) { b.a.actions.Supplied(id) }

// Unsupplied implements [relay.Actions].
func (b bytesOf) Unsupplied(id protocol.ActionID, why error) {
	if j := b.a.actions.Job(id); j != nil {
		j.Finish(queue.Step{Event: protocol.EventFail, Detail: "its input did not arrive: " + why.Error()})
	}
}

// Record implements [relay.Actions].
func (b bytesOf) Record(r audit.Record) bool {
	return b.a.loop.Disk(b.a.cfg.Queue.Audit().Record(b.a.loop.Steps(), r))
}

// Action implements [relay.Actions].
func (b bytesOf) Action(ctx context.Context, id protocol.ActionID) (Action, error) {
	return b.a.Action(ctx, id)
}
