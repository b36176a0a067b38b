package agent

import (
	"iter"
	"maps"

	"github.com/hostler-io/hostler/agent/actions"
	"github.com/hostler-io/hostler/agent/commands"
	"github.com/hostler-io/hostler/agent/containers"
	"github.com/hostler-io/hostler/agent/drill"
	"github.com/hostler-io/hostler/agent/fencing"
	"github.com/hostler-io/hostler/agent/lease"
	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/agent/relay"
	"github.com/hostler-io/hostler/agent/rights"
	"github.com/hostler-io/hostler/agent/upgrade"
	"github.com/hostler-io/hostler/agent/uplink"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/audit"
	"github.com/hostler-io/hostler/protocol/contract"
)

// furnish makes the rooms and tells each which others it may ask.
func (a *Agent) furnish() {
	cfg := &a.cfg
	a.rights = rights.New(rights.Config{
		Host: cfg.Host, Fleet: cfg.Fleet, FleetName: cfg.FleetName, Policies: cfg.Policies, Trust: cfg.Trust,
		Loop: a.loop, UsedMS: cfg.Queue.UsedMS, Changed: a.hostChanged, Log: cfg.Log,
	})
	handlers := make(map[protocol.Kind]actions.Handler)
	a.actions = actions.New(actions.Config{
		Host: cfg.Host, Boot: cfg.Boot, Loop: a.loop, Store: cfg.Queue, Rooms: rooms{a}, Policy: a.rights, Inputs: rooms{a}, Handlers: handlers,
		Random: a.random, Lanes: cfg.Lanes, HostRuns: cfg.HostRuns, Sessions: cfg.Sessions, MaxOpen: cfg.MaxOpen, Log: cfg.Log,
	})
	r := relay.Config{
		Wire: a.wire, Numbers: a.numbers, Traffic: a.traffic, RunDirs: cfg.RunDirs, Payloads: cfg.Payloads, Senders: cfg.HostRuns + cfg.Lanes, Random: a.random,
		Loop: a.loop, Queue: cfg.Queue, Actions: a.actions, Join: a.rights.Join, Running: a.running, Log: cfg.Log,
	}
	if cfg.Link != nil {
		r.Bulk = cfg.Bulk
	}
	a.relay = relay.New(r)
	var coordinator *containers.Coordinator
	var leases containers.Leases
	if cfg.Link != nil {
		a.lease = lease.New(lease.Config{
			Host: a.wire, Numbers: a.numbers, Traffic: a.traffic, Boot: cfg.Boot, BootMS: cfg.BootMS,
			Publish: cfg.Link.Publish, Lost: func(conn uint64) { a.uplink.Lost(conn) }, Guard: cfg.Guard, Changed: a.granted.tell, Log: cfg.Log,
		})
		leases = a.lease
		coordinator = &containers.Coordinator{
			HeardMS: func() int64 { return uplink.HeardMS(a.uplink) },
			Keep:    func(c contract.Absence) error { return queue.KeepAbsence(a.loop.Steps(), cfg.Queue, c) },
		}
	}
	a.containers = containers.New(containers.Config{
		Coordinator: coordinator, Leases: leases, Group: cfg.Group, Probe: cfg.Probe, Runtimes: cfg.Runtimes, Network: cfg.Network, Loop: a.loop, Actions: a.actions,
		Apply: a.apply, Record: a.record, Seen: a.hostChanged, Witness: cfg.Witness, Leaving: cfg.Leaving, Limiter: cfg.Limiter, Backups: cfg.Backups, Volumes: cfg.Volumes, Log: cfg.Log,
	})
	if cfg.Commands != nil {
		a.commands = commands.New(commands.Config{
			Host: cfg.Host, Fleet: cfg.Fleet, Loop: a.loop, Actions: a.actions,
			Runner: cfg.Commands, RunDirs: cfg.RunDirs, Supervisor: cfg.Supervisor, Mover: cfg.Mover, Printers: cfg.Printers, Unseal: cfg.Unseal,
			Input: a.relay.Payload, RecordSessions: cfg.RecordSessions, RecordBytes: cfg.RecordBytes, RecordOrEnd: cfg.RecordOrEnd,
			Find: a.containers.Find, Within: a.rights.Within, Expect: a.relay.Expect, Began: a.began,
			Emptied: func(gone []protocol.ActionID) { a.loop.Disk(cfg.Queue.Emptied(a.loop.Steps(), gone)) },
			BootMS:  cfg.BootMS, Now: cfg.Now, Log: cfg.Log,
		})
	}
	maps.Copy(handlers, a.handlers())
	a.uplink = uplink.New(uplink.Config{
		Host: a.wire, Numbers: a.numbers, Traffic: a.traffic, Link: cfg.Link, Trust: cfg.Trust, Lease: a.lease, Loop: a.loop,
		Queue: cfg.Queue, Actions: a.actions, Relay: a.relay, Report: a.report, Policy: a.rights.Told, Rules: a.ruling.take, Raise: a.raise, Heard: func() { containers.Heard(a.containers) },
		Boot: cfg.Boot, SelfFence: cfg.SelfFence, Features: cfg.Features, Spread: cfg.Spread, QuietEvery: cfg.CheckEvery, Log: cfg.Log,
	})
}

// handlers says how actions of each kind are carried out.
func (a *Agent) handlers() map[protocol.Kind]actions.Handler {
	cfg := &a.cfg
	commands := commands.Handler{
		Active: a.commands, Inputs: cfg.Payloads != nil, Unseals: cfg.Unseal != nil, Moves: cfg.Mover != nil, Printers: cfg.Printers,
	}
	all := a.containers.Handlers()
	for _, k := range protocol.Kinds() {
		if info, _ := protocol.KindOf(k); info.Command {
			all[k] = commands
		}
	}
	all[protocol.KindHostUpgrade] = upgrade.New(upgrade.Config{
		Programs: cfg.Programs, Loop: a.loop, Actions: a.actions, Payload: a.relay.Payload,
		Connected: func() bool { return a.uplink.Standing().Connected }, Log: cfg.Log,
	})
	all[protocol.KindHostDrill] = drill.New(drill.Config{Faults: cfg.Faults, Loop: a.loop, Log: cfg.Log})
	all[protocol.KindHostFence] = fencing.New(a.loop, cfg.Fences)
	all[protocol.KindPing], all[protocol.KindPolicySet] = actions.Ping(), a.rights
	return all
}

func (a *Agent) random() (random [10]byte, err error) {
	_, err = a.cfg.Rand.Read(random[:])
	return random, err
}

// hostChanged follows a change of what the host tells of itself.
func (a *Agent) hostChanged() { a.uplink.Changed() }

// running is the command of an action, and what its followers acknowledge.
func (a *Agent) running(id protocol.ActionID) (commands.Run, *commands.Acknowledged) {
	if a.commands == nil {
		return nil, nil
	}
	return a.commands.Running(id)
}

// began has the bytes of a command carried.
func (a *Agent) began(j *actions.Job, run commands.Run, acks *commands.Acknowledged) {
	act := j.Action()
	a.relay.Began(act.ID, relay.Standing{Attempt: act.Attempt, Closed: act.Closed(j.Spec()), Run: run, Acks: acks}, j.Spec().Kind.Interactive())
}

// record writes records, or keeps them until the disk takes them.
func (a *Agent) record(records []audit.Record) {
	a.unrecorded = append(a.unrecorded, records...)
	a.writeRecords()
}

// report is what the host tells of itself; false until all its containers were
// seen.
func (a *Agent) report() (uplink.Report, bool) {
	if !a.containers.Looked() {
		return uplink.Report{}, false
	}
	h, policy := a.cfg.HostInfo(), a.rights.Info()
	h.Policy, h.Rules = &policy, new(a.ruling.info)
	h.Boot, h.UptimeMS, h.ClockMS, h.QueueDepth, h.Degraded = a.cfg.Boot, a.loop.BootMS(), a.loop.WallMS(), a.actions.Open(), a.loop.Degraded()
	all := a.containers.All()
	inventory := make([]protocol.Container, 0, len(all))
	for _, c := range all {
		inventory = append(inventory, c.Container)
	}
	r := uplink.Report{Host: h, Containers: inventory}
	r.Alerts = a.alarm.untold()
	return r, true
}

// raise makes a change of an alert durable.
func (a *Agent) raise(alert protocol.Alert) {
	a.apply(queue.Change{Alerts: []protocol.Alert{alert}})
}

// apply makes a change durable by itself, and reports whether the disk took it.
func (a *Agent) apply(c queue.Change) error {
	err := a.cfg.Queue.Apply(a.loop.Steps(), c, a.loop.When())
	if a.loop.Disk(err) {
		rooms{a}.Applied(c)
	}
	return err
}

// rooms is what the room of actions asks of the others, as [actions.Host] and
// [actions.Inputs].
type rooms struct{ a *Agent }

func (r rooms) ContainerName(id protocol.CTID) protocol.ContainerName {
	name, _, _ := r.a.containers.Find(id)
	return name
}

func (r rooms) Misnamed(s *protocol.Spec, pending iter.Seq[*protocol.Spec]) error {
	return r.a.containers.Misnamed(s, pending)
}

func (r rooms) Applied(c queue.Change) {
	r.a.containers.Applied(c)
	r.a.uplink.Alerted(c.Alerts)
	if len(c.Delete)+len(c.Put)+len(c.Alerts) > 0 {
		r.a.uplink.Changed()
	}
}

func (r rooms) Ended(act *queue.Action, s *protocol.Spec) {
	a := r.a
	a.relay.Ended(act.ID, act.Attempt)
	a.containers.Settled()
	containers.ActionEnded(a.containers, s.Kind)
	if info, _ := protocol.KindOf(s.Kind); !info.Command || a.commands == nil {
		return
	}
	if a.ends++; a.ends >= queue.KeepActions {
		a.ends = 0
		a.forgetSoon.In(forgetNext)
	}
	if a.commands.Tight() {
		a.retainSoon.In(forgetNext)
	}
}

func (r rooms) Reported(n uint64)           { r.a.uplink.Reported(n) }
func (r rooms) Moved()                      { r.a.uplink.ActionMoved() }
func (r rooms) Spare()                      { r.a.spare() }
func (r rooms) Lacks(s *protocol.Spec) bool { return r.a.relay.Lacks(s) }
func (r rooms) Sent(by string, s *protocol.Spec) error {
	return r.a.relay.Sent(by, s)
}
func (r rooms) Keep(id protocol.ActionID, s *protocol.Spec, lacks bool) {
	r.a.relay.Keep(id, s, lacks)
}
