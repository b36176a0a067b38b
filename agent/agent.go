package agent

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hostler-io/hostler/agent/actions"
	"github.com/hostler-io/hostler/agent/commands"
	"github.com/hostler-io/hostler/agent/containers"
	"github.com/hostler-io/hostler/agent/lease"
	"github.com/hostler-io/hostler/agent/loop"
	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/agent/relay"
	"github.com/hostler-io/hostler/agent/rights"
	"github.com/hostler-io/hostler/agent/uplink"
	"github.com/hostler-io/hostler/agent/wire"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/audit"
)

// Agent is the engine of one host. Its exported methods may be called from any
// goroutine.
type Agent struct {
	cfg     Config
	loop    *loop.Loop
	traffic *wire.Traffic
	gauges  atomic.Pointer[Metrics] // what the loop saw when it last turned
	wire    *wire.Host
	numbers *wire.Numbers

	// The rooms. Each owns its state; rooms.go says what each may ask of another.
	uplink     *uplink.Uplink
	lease      *lease.Lease // nil without a coordinator
	actions    *actions.Actions
	rights     *rights.Rights
	relay      *relay.Relay
	commands   *commands.Active // nil if this host runs none
	containers *containers.Containers

	granted granted

	// Owned by the loop.
	self                             queue.Identity
	unrecorded                       []audit.Record // that the disk has not taken yet
	alarm                            alarm
	ruling                           ruling
	ends                             int // of commands, since the last that were forgotten for their number
	lookSoon, forgetSoon, retainSoon *loop.Timer
}

// errStopping is the cause with which workers are ended.
var errStopping = errors.New("the agent is stopping")

// New checks the configuration. Nothing happens before Run.
func New(cfg Config) (*Agent, error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("agent: %w", err)
	}
	cfg = cfg.withDefaults()
	a := &Agent{
		cfg:     cfg,
		loop:    loop.New(loop.Config{Boot: cfg.Boot, BootMS: cfg.BootMS, Now: cfg.Now, Rand: cfg.Rand, Log: cfg.Log}),
		traffic: wire.NewTraffic(),
		wire:    &wire.Host{ID: cfg.Host, Fleet: cfg.Fleet, FleetName: cfg.FleetName, Signer: cfg.Signer, Trust: cfg.Trust},
		numbers: &wire.Numbers{},
		granted: make(granted, 1),
	}
	a.ruling.tell = cfg.Rules
	a.gauges.Store(&Metrics{})
	a.furnish()
	a.lookSoon = a.loop.Timer(a.lookAround)
	a.forgetSoon, a.retainSoon = a.loop.Timer(a.forget), a.loop.Timer(a.retain)
	a.loop.OnDisk(a.tryDisk)
	return a, nil
}

// Run serves until ctx ends and returns its cause, or the error that makes it
// impossible to go on: a queue that is damaged. A disk that is full is none. It
// runs once. Commands and containers go on when it returns.
//
// The loop ends first, so that the goodbye still finds a connection; then the
// rest is told to stop and waited for.
func (a *Agent) Run(ctx context.Context) error {
	serving, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(errStopping)
	g, running := errgroup.WithContext(serving)
	defer a.loop.Begin(ctx, running)()

	if err := a.recover(ctx); err != nil {
		a.loop.End()
		return fmt.Errorf("recovering: %w", err)
	}
	if a.cfg.Link != nil {
		g.Go(func() error { return a.uplink.Run(running) }) // the connection, what goes up, and Trust
		g.Go(func() error { return a.lease.Run(running) })  // leases ⇄ grants: no disk, no loop
		g.Go(func() error { return a.granted.follow(running, a.loop, a.containers) })
		g.Go(func() error { return a.relay.Run(running) }) // chunks → payloads and terminals
	}
	g.Go(func() error { a.containers.Run(running); return nil }) // full looks at containers, and their changes
	if a.cfg.Commands != nil {
		g.Go(func() error { a.commands.Sweep(running, a.cfg.Queue.Has); return nil }) // runs of unknown actions
	}
	if a.cfg.Watch != nil {
		g.Go(func() error { // what is measured
			return a.cfg.Watch(running, func(alert protocol.Alert) error {
				_, err := loop.Ask(running, a.loop, func() (struct{}, error) {
					return struct{}{}, a.alarm.other(a, alert)
				})
				return err
			})
		})
	}
	g.Go(func() error {
		defer stop(errStopping)
		return a.turn(ctx, running) // everything that decides
	})
	err := g.Wait()
	a.relay.Wait()
	if err == errStopping {
		err = context.Cause(ctx)
	}
	return err
}

// recover reads the queue and takes up what was under way: it is the ordinary
// start path, whatever ended the process before. While the disk is full it
// tries again each second; containers and commands go on without it.
func (a *Agent) recover(ctx context.Context) error {
	for {
		err := a.remember(ctx)
		if !errors.Is(err, queue.ErrDisk) {
			return err
		}
		a.cfg.Log.Error("the queue cannot be used; trying again", "error", err)
		a.shrink(ctx)
		select {
		case <-time.After(loop.RetryDisk):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// shrink makes room on a disk that is too full to start on: by what was set aside for
// that, and by the output of commands whose end is durable.
func (a *Agent) shrink(ctx context.Context) {
	a.cfg.Queue.Spend()
	ended, err := a.cfg.Queue.Ended(ctx)
	if err != nil || a.commands == nil {
		return // it is tried again
	}
	all := make([]commands.Ended, 0, len(ended))
	for _, e := range ended {
		all = append(all, commands.Ended{ID: e.ID, AtMS: e.EndedMS, Owed: !e.Reported})
	}
	a.commands.Shrink(all, a.cfg.OutputTotal, a.cfg.OutputAge)
}

// remember fills the loop's state from the queue.
func (a *Agent) remember(ctx context.Context) error {
	var err error
	if a.self, err = a.cfg.Queue.Begin(ctx, a.loop.When()); err != nil {
		return err
	}
	var inst protocol.Nonce
	if _, err := a.cfg.Rand.Read(inst[:]); err != nil {
		return fmt.Errorf("drawing the instance: %w", err)
	}
	alerts, err := a.cfg.Queue.Alerts(ctx)
	if err != nil {
		return err
	}
	a.alarm.load(alerts)
	rules, err := queue.Rules(ctx, a.cfg.Queue)
	if err != nil {
		return err
	}
	if a.cfg.Link != nil { // else there is no coordinator any more whose rules they are
		a.ruling.take(rules)
	}
	if err := a.uplink.Load(ctx, a.self, inst, alerts); err != nil {
		return err
	}
	kept, err := a.cfg.Queue.Containers(ctx)
	if err != nil {
		return err
	}
	nets, err := queue.Networks(ctx, a.cfg.Queue)
	if err != nil {
		return err
	}
	a.containers.Load(kept, nets, a.self, alerts)
	if err := a.rights.Load(a.self.Store); err != nil {
		return err
	}
	open, err := a.cfg.Queue.Unfinished(ctx)
	if err != nil {
		return err
	}
	a.actions.Load(open, a.self.AcceptSeq)
	needed := a.actions.Needed()
	a.relay.Sweep(func(d protocol.Digest) bool { return needed[d] })
	return nil
}

// turn is the one goroutine that owns the state. Each turn takes what happened,
// makes it durable, then starts what may start, then sends what is to be sent.
// Orders that came together share a transaction, and so do commands that ended
// together.
func (a *Agent) turn(ctx, running context.Context) error {
	defer a.loop.End()
	a.lookSoon.In(0)
	a.forgetSoon.In(forgetEvery)
	if a.commands != nil {
		a.retainSoon.In(forgetEvery)
	}
	a.spare()
	a.alarm.tell(a)
	a.actions.Resume()
	for a.loop.Fatal() == nil {
		a.actions.Flush()
		a.actions.StartWork()
		a.uplink.Pump()
		a.publishGauges()
		select {
		case call := <-a.loop.Calls():
			a.loop.Call(call)
		case <-a.uplink.News():
			a.uplink.Take()
		case <-a.relay.Owed():
			a.uplink.TellCredits()
		case <-a.loop.Wake():
			a.loop.OnTime()
		case <-ctx.Done():
			a.shutdown()
			return errStopping
		case <-running.Done(): // something beside the loop has failed
			a.shutdown()
			return errStopping
		}
	}
	a.shutdown()
	return a.loop.Fatal()
}

// shutdown ends the work that can be ended without harm: commands and
// containers go on, operations on containers get some time and are taken up by
// the next process otherwise.
func (a *Agent) shutdown() {
	a.loop.Shutdown(a.cfg.Drain, a.actions.Flush)
	containers.Closing(a.containers)
	a.uplink.Pump()
	a.uplink.Goodbye()
}

// Pauses of the loop.
const (
	forgetEvery = time.Minute
	forgetNext  = time.Second // while there is more
)

// lookAround is the full look at everything, the safety net under the watchers.
func (a *Agent) lookAround() {
	a.lookSoon.In(a.cfg.CheckEvery)
	a.containers.Look()
	if a.commands != nil {
		a.commands.Look()
	}
	a.uplink.Listen()
	a.hostChanged()
}

// spare sees to it that ends of actions have space set aside, commands room for their
// directories, and the audit log takes records, before anything new is accepted.
func (a *Agent) spare() {
	if a.loop.Disk(a.cfg.Queue.Ready()) && a.commands != nil {
		a.loop.Disk(a.commands.Room())
	}
}

// tryDisk looks whether the disk works again, by writing what could not be
// written, and makes room on it.
func (a *Agent) tryDisk() {
	a.alarm.tell(a)
	a.retain()
	if a.actions.Retry() && a.writeRecords() && a.loop.Disk(a.cfg.Queue.Probe(a.loop.Steps(), a.loop.When())) && (a.commands == nil || a.loop.Disk(a.commands.Room())) && a.loop.Mended() {
		a.alarm.tell(a)
		a.actions.Rebegin()
	}
}

// maxUnrecorded is how many records wait in memory for a disk that takes nothing,
// the reserve included. Beyond that the oldest go: they are about containers that
// keep failing, and the log of the process has them.
const maxUnrecorded = 1000

// writeRecords writes the records that wait, and reports whether none is left. As
// long as one waits, the agent is degraded and accepts nothing new.
func (a *Agent) writeRecords() bool {
	if len(a.unrecorded) == 0 {
		return true
	}
	if !a.loop.Disk(a.cfg.Queue.Audit().RecordDone(a.loop.Steps(), a.unrecorded)) {
		a.unrecorded = a.unrecorded[max(0, len(a.unrecorded)-maxUnrecorded):]
		return false
	}
	a.unrecorded = nil
	a.spare()
	return true
}

// forget removes old actions and what they have left.
func (a *Agent) forget() {
	a.forgetSoon.In(forgetEvery)
	gone, err := a.cfg.Queue.Forget(a.loop.Steps(), a.loop.When())
	if !a.loop.Disk(err) || len(gone) == 0 || a.cfg.Commands == nil {
		return
	}
	a.forgetSoon.In(forgetNext)
	a.commands.Forget(gone)
}

// askedSoon is how long after a connection was made the coordinator has asked for
// all output that it misses.
const askedSoon = 2 * time.Minute

// retain removes what is too old or too much of what ended commands have left.
func (a *Agent) retain() {
	a.retainSoon.In(forgetEvery)
	if a.commands == nil {
		return
	}
	ended, err := a.cfg.Queue.Ended(a.loop.Steps())
	if !a.loop.Disk(err) || len(ended) == 0 {
		return
	}
	line := a.uplink.Standing()
	asked := line.Connected && a.loop.BootMS()-line.SinceMS >= askedSoon.Milliseconds()
	all := make([]commands.Ended, 0, len(ended))
	for _, e := range ended {
		owed := a.cfg.Link != nil && (!e.Reported || !asked || a.relay.Sending(e.ID))
		all = append(all, commands.Ended{ID: e.ID, AtMS: e.EndedMS, Owed: owed})
	}
	a.commands.Retain(all, a.cfg.OutputTotal, a.cfg.OutputAge)
}

// WriteSamples sends lines of samples to the coordinator of a, see [relay.Relay.WriteSamples].
func WriteSamples(ctx context.Context, a *Agent, lines []byte) error {
	return a.relay.WriteSamples(ctx, lines)
}

// BulkSession is what the agent wants of each of its second connections. The owner
// of the connection asks for it.
func (a *Agent) BulkSession() uplink.Opening {
	return uplink.Opening{
		Filters: []string{protocol.HostFilter(a.cfg.FleetName, a.cfg.Host, protocol.ChannelIn)},
		Handle:  a.relay.Handle,
		Up:      func(func(string, []byte, bool) error) { a.relay.Renew() },
	}
}
