package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/hostler-io/hostler/agent/containers"
	"github.com/hostler-io/hostler/agent/loop"
	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/agent/relay"
	"github.com/hostler-io/hostler/agent/rights"
	"github.com/hostler-io/hostler/agent/wire"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/contract"
	"github.com/hostler-io/hostler/protocol/limit"
	"github.com/hostler-io/hostler/terminal"
)

// What callers of the local API branch on, beside [queue.ErrFull],
// [queue.ErrDisk] and the codes of protocol for a spec that is wrong.
var (
	// ErrStopped: the agent is not running (any more).
	ErrStopped = loop.ErrStopped
	// ErrUnknown: no such action or container on this host.
	ErrUnknown = queue.ErrUnknown
	// ErrExists: an action of that id exists with another spec.
	ErrExists = queue.ErrExists
	// ErrFull: too many reports wait for the coordinator.
	ErrFull = queue.ErrFull
	// ErrDisk: the disk is full or failing; nothing new is taken. ErrAudit is ErrDisk
	// where the audit log of the host alone takes no records.
	ErrDisk  = queue.ErrDisk
	ErrAudit = queue.ErrAudit
	// ErrNotYours: the user may not take part in this session.
	ErrNotYours = rights.ErrNotYours
	// ErrOffline: no coordinator has answered.
	ErrOffline = errors.New("not connected to the coordinator")
)

// Action is one action as this host knows it.
type Action = queue.Action

// Status is the agent in one look.
type Status struct {
	Host      protocol.HostID
	Fleet     protocol.FleetID
	FleetName protocol.FleetName
	Boot      string
	Inc       uint64 // number of this process start
	Starts    uint64 // how many there were, this one included
	Store     protocol.StoreID
	// Link tells whether there is a coordinator at all, Connected whether it
	// has answered on the present connection, since SinceMS (boot clock).
	Link      bool
	Connected bool
	SinceMS   int64
	Conn      uint64 // connections of this process
	// LeaseUntilMS is when the newest grant ends, by the boot clock; 0 before
	// the first.
	LeaseUntilMS int64
	Ring         uint64
	Term         protocol.Term
	Waiting      int // accepted actions that have not begun
	Running      int
	Unsent       uint64 // reports and alerts without a receipt
	// Degraded says why nothing new is accepted; empty if all is well.
	Degraded   string
	Containers int // managed ones
	Broken     int
	Policy     PolicyStatus
}

// Container is a container as the agent knows and sees it.
type Container = containers.Container

// Status returns the present state.
func (a *Agent) Status(ctx context.Context) (Status, error) {
	return loop.Ask(ctx, a.loop, func() (Status, error) { return a.status(), nil })
}

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

// Trigger makes the agent look at everything now: it says hello again if the
// coordinator has not answered, resends what waits for a receipt, and corrects
// containers.
func (a *Agent) Trigger(ctx context.Context) error {
	_, err := loop.Ask(ctx, a.loop, func() (struct{}, error) {
		a.uplink.Trigger()
		a.containers.Look()
		a.containers.Settled()
		return struct{}{}, nil
	})
	return err
}

// HostChanged tells that something about the host has changed, such as an address: the next
// heartbeat looks at it, soon.
func HostChanged(ctx context.Context, a *Agent) error {
	_, err := loop.Ask(ctx, a.loop, func() (struct{}, error) { a.hostChanged(); return struct{}{}, nil })
	return err
}

// Sleep tells the coordinator that the host will be silent for a time, because it
// sleeps; none takes that back. An agent that ends forgets it, the coordinator does not.
func Sleep(a *Agent, d time.Duration) {
	if a.lease != nil {
		a.lease.Sleep(d)
	}
}

// HeartbeatNow sends a full heartbeat. It returns [ErrOffline] when no coordinator
// has answered.
func (a *Agent) HeartbeatNow(ctx context.Context) error {
	sent, err := loop.Ask(ctx, a.loop, func() (bool, error) { return a.uplink.HeartbeatNow(), nil })
	if err == nil && !sent {
		return ErrOffline
	}
	return err
}

// Propose accepts an action of the host's own people. The id makes a second
// call with the same spec harmless; a zero id is replaced by a new one. A spec
// that is wrong is [protocol.ErrSpec] or [protocol.ErrUnknownKind], what the
// policy does not let the requester do [protocol.ErrNotApproved]; neither is
// kept. On nil the action is durable.
func (a *Agent) Propose(ctx context.Context, id protocol.ActionID, spec []byte, requester string) (Action, error) {
	return loop.Ask(ctx, a.loop, func() (Action, error) {
		if a.loop.Stopping() {
			return Action{}, ErrStopped
		}
		return a.actions.Propose(id, spec, requester)
	})
}

// Uploads takes the inputs of actions that are asked for on the host itself.
func Uploads(a *Agent) *relay.Uploads { return a.relay.Uploads() }

// Action returns an action, or [ErrUnknown].
func (a *Agent) Action(ctx context.Context, id protocol.ActionID) (Action, error) {
	return a.cfg.Queue.Action(ctx, id)
}

// Actions returns up to limit actions, newest first, that were accepted before
// the one of the given accept_seq; 0 starts with the newest.
func (a *Agent) Actions(ctx context.Context, before uint64, limit int) ([]Action, error) {
	return a.cfg.Queue.Actions(ctx, before, limit)
}

// WaitAction waits until an action is in a final state and returns it; when
// ctx ends first, its present state and the cause.
func (a *Agent) WaitAction(ctx context.Context, id protocol.ActionID) (Action, error) {
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

// CancelLocal asks for the end of an action. It returns as soon as the request
// is durable: CANCELLED is reached when nothing of the action is left.
func (a *Agent) CancelLocal(ctx context.Context, id protocol.ActionID) (Action, error) {
	return loop.Ask(ctx, a.loop, func() (Action, error) {
		if a.loop.Stopping() {
			return Action{}, ErrStopped
		}
		act, err := a.actions.Cancel(protocol.Position{}, id)
		a.loop.Disk(err)
		return act, err
	})
}

// Output has a user of this host read what a command has written: see
// [relay.Relay.Output].
func (a *Agent) Output(ctx context.Context, id protocol.ActionID, user string, fd protocol.FD, offset int64, follow, hold bool) (*relay.Reader, error) {
	return a.relay.Output(ctx, id, user, fd, offset, follow, hold)
}

// Attach attaches a user of this host to a session: see [relay.Relay.Attach].
func (a *Agent) Attach(ctx context.Context, id protocol.ActionID, user string, peer terminal.Peer, look bool) (*relay.Attachment, error) {
	return a.relay.Attach(ctx, id, user, peer, look)
}

// Containers returns all containers of the host, managed ones first, each by
// name.
func (a *Agent) Containers(ctx context.Context) ([]Container, error) {
	return loop.Ask(ctx, a.loop, func() ([]Container, error) { return a.containers.All(), nil })
}

// OfflinePreview is what becomes of the containers of an agent's host if it hears nothing
// of its coordinator for another period, and restarts at the end of it if reboot is set.
func OfflinePreview(ctx context.Context, a *Agent, period time.Duration, reboot bool) ([]contract.Forecast, error) {
	return loop.Ask(ctx, a.loop, func() ([]contract.Forecast, error) { return containers.Preview(a.containers, period, reboot), nil })
}

// Remembered returns what an agent remembers of a container that it keeps, and the limits
// that the kernel keeps for it.
func Remembered(ctx context.Context, a *Agent, name string) (containers.Details, limit.Limits, error) {
	d, err := loop.Ask(ctx, a.loop, func() (containers.Details, error) {
		d, ok := containers.DetailsOf(a.containers, name)
		if !ok {
			return d, fmt.Errorf("%w: container %.80q is not kept here", ErrUnknown, name)
		}
		return d, nil
	})
	if err == nil && d.Digest == "" {
		d.Digest = digestOf(ctx, a.cfg.Runtimes, d.Runtime, name)
	}
	if err != nil || d.InitPID == 0 || a.cfg.Limiter == nil {
		return d, nil, err
	}
	effective, err := a.cfg.Limiter.Effective(d.Runtime, string(d.Name), d.InitPID)
	if err != nil {
		return d, nil, nil // it has ended just now
	}
	return d, effective, nil
}

// digestOf is the digest of the image that a container is made of; none of a template, and
// none while the runtime does not tell.
func digestOf(ctx context.Context, runtimes []container.Runtime, kind, name string) string {
	for _, r := range runtimes {
		if string(r.Kind()) == kind {
			info, _ := r.Inspect(ctx, name) // what is asked for is told without it, too
			return info.Digest
		}
	}
	return ""
}

// Metrics are counters since New and the newest gauges.
type Metrics struct {
	wire.Counts
	// Accepted and Ended count actions, the latter by final state.
	// Unapproved counts what the policy did not allow.
	Accepted, Unapproved uint64
	Ended                map[protocol.State]uint64
	// Starts counts containers started by the agent itself, StartFailures the
	// failures among them.
	Starts, StartFailures uint64
	Connected             bool
	Degraded              bool
	Waiting, Running      int
	Unsent                uint64
	Commits               uint64                  // durable ones of the queue
	Containers            map[container.State]int // managed ones
	// Lease is for how long the newest grant is good: negative, it has run out.
	// LeaseLowest is the least that it ever was. Both are 0 before the first.
	Lease, LeaseLowest time.Duration
}

// Metrics returns a snapshot. It never waits.
func (a *Agent) Metrics() Metrics {
	m := *a.gauges.Load()
	m.Containers = maps.Clone(m.Containers)
	m.Counts = a.traffic.Counts()
	m.Accepted, m.Ended, m.Unapproved = a.actions.Counters.Accepted.Load(), a.actions.Counters.Ended(), a.rights.Unapproved.Load()
	if a.lease != nil {
		m.Lease, m.LeaseLowest = a.lease.Left()
	}
	m.Starts, m.StartFailures = a.containers.Counters.Starts.Load(), a.containers.Counters.StartFailures.Load()
	m.Commits = a.cfg.Queue.Stats().Commits
	return m
}

// publishGauges tells the metrics what has changed in this turn of the loop.
func (a *Agent) publishGauges() {
	if !a.loop.TakeMoved() {
		return
	}
	line := a.uplink.Standing()
	m := Metrics{Connected: line.Connected, Degraded: a.loop.Degraded() != "", Waiting: a.actions.Waiting(), Unsent: line.Unsent}
	m.Running = a.actions.Open() - m.Waiting
	m.Containers, _ = a.containers.Count()
	a.gauges.Store(&m)
}

// LocalRoot is the requester of what root asks for on the host itself.
const LocalRoot = rights.LocalRoot

// PolicyStatus is the policy in force.
type PolicyStatus struct {
	protocol.PolicyInfo
	// FloorMS is the newest date at which an approver or owner is known to have
	// signed.
	FloorMS int64
}
