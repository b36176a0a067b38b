package coordinator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hostler-io/hostler/coordinator/access"
	"github.com/hostler-io/hostler/coordinator/actions"
	"github.com/hostler-io/hostler/coordinator/alerting"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/coordinator/explain"
	"github.com/hostler-io/hostler/coordinator/fencing"
	"github.com/hostler-io/hostler/coordinator/hostlink"
	"github.com/hostler-io/hostler/coordinator/journal"
	"github.com/hostler-io/hostler/coordinator/members"
	"github.com/hostler-io/hostler/coordinator/mirror"
	"github.com/hostler-io/hostler/coordinator/policies"
	"github.com/hostler-io/hostler/coordinator/recovery"
	"github.com/hostler-io/hostler/coordinator/relay"
	"github.com/hostler-io/hostler/coordinator/samples"
	"github.com/hostler-io/hostler/coordinator/wire"
	"github.com/hostler-io/hostler/coordinator/workloads"
	"github.com/hostler-io/hostler/fence"
	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/audit"
	"github.com/hostler-io/hostler/unique"
)

// Retention is how much of the past is kept.
type Retention struct {
	// AuditRecords is how many records of the audit log are kept. Default
	// 1,000,000: four months of one action every 40 s, or some 300 MB.
	AuditRecords uint64
	// ActionAge is how long actions that have ended are kept, and enrolments and
	// invites. Default 90 days.
	ActionAge time.Duration
	// Actions is how many actions that have ended are kept; what ended first goes
	// first. Default 200,000.
	Actions int
	// OutputTotal is how much output is kept of actions that have ended, in bytes
	// on the disk; what ended first goes first. Default 10 GiB.
	OutputTotal int64
	// OutputAge is how long it is kept after the end. Default 30 days.
	OutputAge time.Duration
}

// Leases are what unique containers are held by.
type Leases struct {
	// Lease are the times. Default: [unique.Default].
	Lease unique.Timing
	// MinSelfFence is the least self-fence by which the end of a lease is believed.
	// Default: guard.
	MinSelfFence unique.SelfFence
	// Copies is what becomes of one that runs where it may not. Default: stop_stale.
	Copies unique.Copies
	// Placing is how they are placed. Default: [workloads.DefaultPlacing].
	Placing workloads.Placing
}

// Fences are what hosts are cut off with. Without Programs no host can be switched off, and
// persons alone can confirm that one is.
type Fences struct {
	// FencePolicy is what the fleet wants. Default: [fence.DefaultPolicy].
	FencePolicy fence.Policy
	Programs    fencing.Programs
	// Secret reads a secret of a device by the name of its file.
	Secret func(file string) (string, error)
	// Witness says what is wrong with the coordinator's own network, before a host is
	// fenced. Default: nothing is asked.
	Witness func(context.Context) string
}

// Publishing is how hosts and other programs work with the broker, and what of the hosts
// goes on to others.
type Publishing struct {
	// Plain has the hosts mirrored as unsigned JSON.
	Plain bool
	// Window is the reconnect window for so many hosts: over which time they come back
	// when the broker closes their connections. Default: none.
	Window func(hosts int) time.Duration
	// Samples takes the samples of hosts that reach no database. Default: none are taken.
	Samples samples.Sink
}

// Config is what a Coordinator is made of.
type Config struct {
	Store     core.Store
	Fleet     protocol.FleetID
	FleetName protocol.FleetName
	Signer    protocol.Signer
	Trust     core.Keys
	Rings     core.RingStore
	HostKeys  core.HostKeys
	Viewers   core.ViewerKeys
	Authority core.Authority
	Broker    core.Broker
	// OutputDir is where output of commands is kept, one directory per action. The
	// same name with "-reserve" appended is set aside for a full disk.
	OutputDir string
	// PayloadDir is where payloads are kept until their actions have ended, each
	// under its digest.
	PayloadDir string
	// MaxPayload is the largest payload that is taken, in bytes. Default 10 GiB.
	MaxPayload int64
	// Addresses are those that join codes name, "host:port" of the HTTPS API,
	// and BrokerAddresses those that hosts connect to.
	Addresses       []string
	BrokerAddresses []string
	// Policies are in force from the start. Default: no approval is asked for here,
	// and each host's own policy decides.
	Policies policies.Policies
	// Notices says where notifications of alerts go. Default: nowhere.
	Notices alerting.Notices
	Leases
	Fences
	Publishing
	Retention
	// Now is the wall clock: for people and for start budgets.
	Now func() time.Time
	// Boot is a clock that no one can set, in milliseconds (CLOCK_BOOTTIME).
	Boot func() int64
	// Rand is the source of challenges, secrets and ids.
	Rand io.Reader
	Log  *slog.Logger // default: discarded
}

func (c *Config) validate() error {
	switch {
	case c.Store == nil, c.Signer == nil, c.Trust == nil, c.Rings == nil, c.HostKeys == nil, c.Viewers == nil, c.Authority == nil, c.Broker == nil:
		return errors.New("coordinator: store, signer, keys, authority and broker are needed")
	case c.Fleet.IsZero() || c.FleetName == "":
		return errors.New("coordinator: the fleet's id and name are needed")
	case c.OutputDir == "" || c.PayloadDir == "":
		return errors.New("coordinator: the directories for output and payloads are needed")
	case c.MaxPayload < 0 || c.MaxPayload > protocol.MaxPayload:
		return fmt.Errorf("coordinator: payloads of %d bytes cannot be", c.MaxPayload)
	case c.Now == nil, c.Boot == nil, c.Rand == nil:
		return errors.New("coordinator: clocks and a source of randomness are needed")
	}
	if c.MaxPayload == 0 {
		c.MaxPayload = 10 << 30
	}
	if c.OutputTotal == 0 {
		c.OutputTotal = 10 << 30
	}
	if c.OutputAge == 0 {
		c.OutputAge = 30 * 24 * time.Hour
	}
	if c.AuditRecords == 0 {
		c.AuditRecords = 1_000_000
	}
	if c.ActionAge == 0 {
		c.ActionAge = 90 * 24 * time.Hour
	}
	if c.Actions == 0 {
		c.Actions = 200_000
	}
	if c.Lease == (unique.Timing{}) {
		c.Lease = unique.Default()
	}
	if err := c.Lease.Check(); err != nil {
		return fmt.Errorf("coordinator: %w", err)
	}
	c.MinSelfFence = cmp.Or(c.MinSelfFence, unique.FenceGuard)
	c.Copies = cmp.Or(c.Copies, unique.StopStale)
	if c.FencePolicy.Order == "" {
		c.FencePolicy = fence.DefaultPolicy()
	}
	if err := c.FencePolicy.Check(); err != nil {
		return fmt.Errorf("coordinator: %w", err)
	}
	c.Placing = cmp.Or(c.Placing, workloads.DefaultPlacing())
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return nil
}

// Coordinator answers requests and messages. All methods are safe for
// concurrent use once New returned.
type Coordinator struct {
	cfg  Config
	base *core.Base
	log  *slog.Logger
	wire *wire.Wire

	access    *access.Room
	actions   *actions.Room
	rules     *policies.Room
	alerts    *alerting.Room
	approvals *actions.Approvals
	journal   *journal.Room
	relay     *relay.Room
	explain   *explain.Room
	recovery  *recovery.Room
	hosts     *hostlink.Conversations
	members   *members.Room
	workloads *workloads.Room
	fencing   *fencing.Room
	samples   *samples.Room // nil if none are taken

	// removed is closed when a ring came into force that does not name us.
	removed     chan struct{}
	removedOnce sync.Once

	workers core.Workers // one per host that has messages waiting
	ctx     context.Context
	stop    context.CancelCauseFunc
}

// New counts the start, so that everything said from now on is of a newer term
// than what was said before, and loads the hosts. It says nothing yet: Run
// does.
func New(ctx context.Context, cfg Config) (*Coordinator, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	c := &Coordinator{cfg: cfg, log: cfg.Log, removed: make(chan struct{})}
	c.ctx, c.stop = context.WithCancelCause(context.Background())
	c.base = &core.Base{
		Fleet: cfg.Fleet, FleetName: cfg.FleetName, Keys: cfg.Trust, Broker: cfg.Broker, Now: cfg.Now, Boot: cfg.Boot, Rand: cfg.Rand, Log: cfg.Log, Ctx: c.ctx,
	}
	c.base.Store = core.Watch(cfg.Store, func(n uint64, h core.Host, sure bool) {
		c.workloads.Stored(n, h, sure)
		c.alerts.Stored(n, h, sure)
	})
	c.access = access.New(c.base, cfg.Authority, cfg.Viewers)
	var term protocol.Term
	err := core.Update(ctx, cfg.Store, failpoint.TermCounted, func(tx core.Tx) (err error) {
		ring, digest := cfg.Trust.RingInForce()
		if term, err = core.CountStart(tx, ring); err != nil {
			return err
		}
		what := cfg.Policies.Record() // they may have changed while no coordinator ran
		what["ring"] = ring
		return c.base.Record(tx, core.Self(), audit.Record{Verb: "coordinator.start", Object: fmt.Sprint(term.Counter), Digest: digest, Detail: what})
	})
	if err != nil {
		return nil, fmt.Errorf("count this start: %w", err)
	}
	c.wire = wire.New(c.base, cfg.Signer, term)
	c.hosts = hostlink.New(c.base, c.wire)
	if c.relay, err = relay.New(c.base, relay.Config{
		Wire: c.wire, Receipts: c.hosts, Action: func(ctx context.Context, id protocol.ActionID) (core.Action, error) { return c.actions.Get(ctx, id) }, Start: c.workers.Start,
		Lets:      func(ctx context.Context, by core.Actor, a core.Action) error { return c.rules.Lets(ctx, by, a) },
		OutputDir: cfg.OutputDir, OutputTotal: cfg.OutputTotal, OutputAge: cfg.OutputAge, PayloadDir: cfg.PayloadDir, MaxPayload: cfg.MaxPayload,
	}); err != nil {
		return nil, err
	}
	c.recovery = recovery.New(c.base, cfg.Signer.Key(), term)
	c.journal = journal.New(c.base, journal.Config{
		Signer: cfg.Signer, Term: term, Outputs: c.relay.Output, Recovering: c.recovery.IsRecovering, RecoveredMS: c.recovery.MadeMS, Sealed: c.hosts.Sealed,
		Records: cfg.AuditRecords, ActionAge: cfg.ActionAge, Actions: cfg.Actions,
	})
	c.base.OnWritten(c.journal.Written)
	c.approvals = actions.NewApprovals(c.base)
	c.rules = policies.New(c.base, cfg.Policies)
	c.workloads = workloads.New(c.base, workloads.Config{
		Timing: cfg.Lease, Min: cfg.MinSelfFence, Copies: cfg.Copies, Term: term, Placing: cfg.Placing,
		Propose: func(ctx context.Context, host protocol.HostID, spec []byte) (core.Action, error) {
			return c.actions.ProposeSelf(ctx, host, spec)
		},
		Reachable: func(host protocol.HostID) bool { here, _ := c.hosts.Here(host); return here },
		Left:      func(host protocol.HostID) bool { return c.hosts.Presence(host).Connectivity == core.Goodbye },
		Fencing:   fencingOf{c},
		Removed:   cfg.Rings.RemovedCoordinator,
	})
	c.fencing = fencing.New(c.base, fencing.Config{
		Policy: cfg.FencePolicy, TTL: cfg.Lease.TTL, Term: term, Programs: cfg.Programs, Workloads: c.workloads, Hosts: fencingOf{c}, Secret: cfg.Secret, Witness: cfg.Witness,
	})
	c.actions = actions.New(c.base, actions.Config{
		Workloads: c.workloads, Approvals: c.approvals, Dispatch: c.hosts, Payloads: c.relay.Payloads, Policies: c.rules, Forgotten: c.journal.Forgotten,
	})
	c.alerts = alerting.New(c.base, c.hosts, cfg.Notices, c.concerns)
	c.explain = explain.New(c.base, c.hosts, c.approvals)
	c.members = members.New(c.base, members.Config{
		Rings: cfg.Rings.Rings, HostKeys: cfg.HostKeys, Authority: cfg.Authority, Links: c.hosts, Others: othersOf{c},
		Addresses: cfg.Addresses, BrokerAddresses: cfg.BrokerAddresses,
	})
	talk := hostlink.Config{
		Standing: c.members, Output: c.relay.Output, Evidence: c.recovery, Questions: c.recovery,
		Approvals: c.approvals, Policies: c.rules, Rules: c.alerts, Grants: c.workloads, Acked: c.relay.Terminals.Acked, Input: c.relay.Input.Credit,
		Told: c.explain.Heard, NewestSeal: c.journal.NewestSeal, Window: cfg.Window, Start: c.workers.Start,
	}
	if cfg.Samples != nil {
		c.samples = samples.New(c.base, samples.Config{Sink: cfg.Samples, Receipts: c.hosts})
		talk.Samples = c.samples
	}
	c.hosts.Join(talk)
	if err := c.loadHosts(ctx); err != nil {
		return nil, fmt.Errorf("load the hosts: %w", err)
	}
	return c, nil
}

// loadHosts tells Trust whom to believe.
func (c *Coordinator) loadHosts(ctx context.Context) error {
	return c.base.View(ctx, func(tx core.Tx) error {
		if err := c.access.Load(tx); err != nil {
			return fmt.Errorf("the viewers: %w", err)
		}
		if err := c.recovery.Load(tx); err != nil {
			return fmt.Errorf("the newest recovery: %w", err)
		}
		if err := c.workloads.Load(tx); err != nil {
			return fmt.Errorf("the unique workloads: %w", err)
		}
		if err := c.fencing.Load(tx); err != nil {
			return fmt.Errorf("the fences: %w", err)
		}
		members := 0
		defer func() { hostlink.Expect(c.hosts, members) }()
		return core.EachHost(tx, func(h core.Host) error {
			if h.State == core.HostApproved {
				members++
			}
			if err := c.members.LoadHost(h); err != nil {
				return err
			}
			return c.recovery.LoadHost(tx, h)
		})
	})
}

// Journal hands out the room of the audit log and of events.
func (c *Coordinator) Journal() *journal.Room { return c.journal }

// Explain hands out the room that says why actions wait.
func (c *Coordinator) Explain() *explain.Room { return c.explain }

// Recoveries hands out the room that recovers what a restored store lacks.
func (c *Coordinator) Recoveries() *recovery.Room { return c.recovery }

// Policies hands out the room of policies.
func (c *Coordinator) Policies() *policies.Room { return c.rules }

// Alerts hands out the room of alerts and of their rules.
func (c *Coordinator) Alerts() *alerting.Room { return c.alerts }

// Approvals hands out who judges approvals.
func (c *Coordinator) Approvals() *actions.Approvals { return c.approvals }

// Actions hands out the room of what people ask for.
func (c *Coordinator) Actions() *actions.Room { return c.actions }

// Members hands out the room of hosts and of those that want to be some.
func (c *Coordinator) Members() *members.Room { return c.members }

// Access hands out the room of tokens and viewers.
func (c *Coordinator) Access() *access.Room { return c.access }

// Workloads hands out the room of unique workloads.
func (c *Coordinator) Workloads() *workloads.Room { return c.workloads }

// Fencing hands out the room of fence devices and of fences.
func (c *Coordinator) Fencing() *fencing.Room { return c.fencing }

// Samples hands out the room of samples, nil if none are taken.
func (c *Coordinator) Samples() *samples.Room { return c.samples }

// Relay hands out the room of output, payloads and terminals.
func (c *Coordinator) Relay() *relay.Room { return c.relay }

// Term returns the term of this process.
func (c *Coordinator) Term() protocol.Term { return c.wire.Term() }

// Stats returns what was counted of messages since the start.
func (c *Coordinator) Stats() wire.Counts { return c.wire.Counts() }

// Ingest takes a message from the broker. It never waits for the disk.
func (c *Coordinator) Ingest(topic string, payload []byte) error {
	return c.hosts.Ingest(topic, payload)
}

// tick is how often hosts are looked at: resends, silence, expiry.
const tick = time.Second

// slowTick is how often what waits for people is looked at although nothing has
// happened: what looks only when something happens is stuck by one event that
// gets lost.
const slowTick = time.Minute

// Run serves until ctx ends: it resends what no receipt covers, expires what
// no host began, and marks silent hosts. It returns the cause of the end.
func (c *Coordinator) Run(ctx context.Context) error {
	defer c.workers.Close()
	defer c.stop(errors.New("the coordinator ended"))
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return c.tickLoop(ctx) })
	g.Go(func() error { return c.journal.SealLoop(ctx) })
	g.Go(func() error { return c.keepLoop(ctx) })
	g.Go(func() error { return c.alerts.Run(ctx) })
	g.Go(func() error { return c.fencing.Run(ctx) })
	if c.cfg.Plain {
		g.Go(func() error { return mirror.New(c.base, c.hosts).Run(ctx) })
	}
	g.Go(func() error { return c.relay.Payloads.SweepLoop(ctx) })
	g.Go(func() error {
		select {
		case <-ctx.Done():
		case <-c.removed:
			c.relay.Terminals.End()
			return fmt.Errorf("ring %d: %w", c.cfg.Trust.Ring(), core.ErrRemoved)
		}
		c.relay.Terminals.End()
		c.stop(context.Cause(ctx))
		return nil
	})
	if err := g.Wait(); err != nil && ctx.Err() == nil {
		return err
	}
	c.sayState(false)
	return context.Cause(ctx)
}

func (c *Coordinator) tickLoop(ctx context.Context) error {
	t := time.NewTicker(tick)
	defer t.Stop()
	slow := time.NewTicker(slowTick)
	defer slow.Stop()
	c.sayState(true)
	c.actions.LookAtWaiting(ctx) // policies and rings may have changed while no coordinator ran
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-slow.C:
			c.actions.LookAtWaiting(ctx)
			c.hosts.LookAtHeld()
			continue
		case <-t.C:
		}
		c.access.Expire()
		if err := c.access.RecordWrong(ctx); err != nil {
			c.log.ErrorContext(ctx, "cannot record wrong tokens", "err", err)
		}
		c.hosts.Tick(ctx)
		c.workloads.Tick(ctx)
		if err := c.actions.Expire(ctx); err != nil {
			c.log.ErrorContext(ctx, "cannot expire actions", "err", err)
		}
		if err := c.journal.TrimEvents(ctx); err != nil {
			c.log.ErrorContext(ctx, "cannot forget old events", "err", err)
		}
	}
}

// keepEvery is how often it is looked whether there is something to remove, and
// keepSoon the pause before that when the disk has no room.
const (
	keepEvery = time.Minute
	keepSoon  = time.Second
)

// keepLoop removes the output of ended actions that is too old, or too much, and
// then the records of actions: one after the other, because neither expects the other
// to take away what it looks at.
func (c *Coordinator) keepLoop(ctx context.Context) error {
	t := time.NewTicker(keepEvery)
	defer t.Stop()
	for {
		if err := c.relay.Output.Tidy(ctx); err != nil && ctx.Err() == nil {
			c.log.ErrorContext(ctx, "cannot remove old output; it is tried again", "err", err)
		}
		if err := c.journal.Forget(ctx); err != nil && ctx.Err() == nil {
			c.log.ErrorContext(ctx, "cannot forget what ended long ago; it is tried again", "err", err)
		}
		select {
		case <-t.C:
		case <-c.relay.Output.Pressed():
			if !pause(ctx, keepSoon) {
				return nil
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// pause waits. It reports false if ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// SayState publishes the retained word of the coordinator to its fleet. It is
// called after the broker was restarted.
func (c *Coordinator) SayState() { c.sayState(true) }

func (c *Coordinator) sayState(online bool) {
	t := protocol.FleetTopic(c.cfg.FleetName, protocol.ChannelCoordinator)
	m := protocol.CoordinatorState{Header: c.wire.Header(protocol.TypeCoordinator, protocol.Everybody), Online: online}
	m.Seq = c.wire.NextSeq()
	// The owner of the broker calls SayState when it is up.
	if err := c.wire.Publish(t, m); err != nil {
		c.log.Error("cannot sign the coordinator's state", "err", err)
	}
}

// Recovery says why the coordinator decides nothing, empty if it does.
func (c *Coordinator) Recovery() string { return c.base.Recovery() }

// Keys returns the keys of the ring in force: who may approve, among others.
func (c *Coordinator) Keys() []protocol.Member { return c.cfg.Trust.Members() }
