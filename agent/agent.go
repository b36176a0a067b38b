package agent

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hostler-io/hostler/agent/commands"
	"github.com/hostler-io/hostler/agent/lease"
	"github.com/hostler-io/hostler/agent/loop"
	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/agent/relay"
	"github.com/hostler-io/hostler/agent/wire"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/protocol"
)

// Agent is the engine of one host. Its exported methods may be called from any
// goroutine.
type Agent struct {
	cfg      Config
	loop     *loop.Loop
	counters *counters
	wire     *wire.Host
	voice    *wire.Numbers
	lease    *lease.Lease
	relay    *relay.Relay
	commands *commands.Active // nil if this host runs none

	// What others tell the loop.
	inbox    chan inbound    // messages from the coordinator
	linked   chan uint64     // a connection is up; the newest alone
	lost     chan uint64     // a connection failed
	outgoing chan outbound   // from the loop to the sender
	trusted  chan struct{}   // Trust may know more now
	listings chan listing    // containers as a runtime sees them
	pokes    []chan struct{} // ask for a listing, one for each runtime
	docs     chan inbound    // rings and revocations, for Trust
	fetches  chan uint64     // a ring to fetch
	gen      atomic.Uint64   // counts what was seen of containers, to tell old looks

	// Owned by the loop.
	self    queue.Identity
	streams map[protocol.Stream]*place
	gate    protocol.CoordinatorGate
	fleet   []byte // the newest word of the coordinator to its fleet, as it came
	link    connection
	ahead   map[protocol.Stream]*held // orders and controls that wait for a ring
	due     [deadlines]*loop.Timer
	jobs    map[protocol.ActionID]*job
	lanes   lanes
	changes map[protocol.ActionID]chan struct{} // closed at the next change of an action
	ends    []unsaved                           // of this turn of the loop, not durable yet
	unsaved []unsaved                           // ends that the disk did not take
	staged  []staged                            // actions of this turn of the loop, not durable yet
	// stagedAfter is where the stream of orders stood before those that are staged.
	stagedAfter protocol.Position
	managed     map[protocol.CTID]*tracked
	foreign     map[container.Kind][]container.Info
	unlooked    []container.Kind // runtimes whose containers were not seen yet
	alerts      map[string]protocol.AlertInfo
	beat        heartbeat
	rights      rights
	ring        uint64              // number of the newest ring that was recorded
	kept        protocol.Checkpoint // as self has it, once it was read
	keptRing    uint64              // the ring that it was judged by
	refused     refusalLog
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
		cfg:      cfg,
		loop:     loop.New(loop.Config{Boot: cfg.Boot, BootMS: cfg.BootMS, Now: cfg.Now, Rand: cfg.Rand, Log: cfg.Log}),
		counters: newCounters(),
		wire:     &wire.Host{ID: cfg.Host, Fleet: cfg.Fleet, FleetName: cfg.FleetName, Signer: cfg.Signer, Trust: cfg.Trust},
		voice:    &wire.Numbers{},
		inbox:    make(chan inbound, 1024),
		linked:   make(chan uint64, 1),
		lost:     make(chan uint64, 1),
		outgoing: make(chan outbound, 512),
		trusted:  make(chan struct{}, 1),
		listings: make(chan listing),
		docs:     make(chan inbound, 4),
		fetches:  make(chan uint64, 1),
		ahead:    make(map[protocol.Stream]*held),
		jobs:     make(map[protocol.ActionID]*job),
		lanes:    lanes{limit: cfg.Lanes, hostRuns: cfg.HostRuns, sessions: cfg.Sessions},
		changes:  make(map[protocol.ActionID]chan struct{}),
		managed:  make(map[protocol.CTID]*tracked),
		foreign:  make(map[container.Kind][]container.Info),
		alerts:   make(map[string]protocol.AlertInfo),
	}
	for _, r := range cfg.Runtimes {
		a.pokes = append(a.pokes, make(chan struct{}, 1))
		a.unlooked = append(a.unlooked, r.Kind())
	}
	if cfg.Link != nil {
		a.lease = lease.New(lease.Config{
			Host: a.wire, Numbers: a.voice, Traffic: a.counters.traffic, Boot: cfg.Boot, BootMS: cfg.BootMS,
			Publish: cfg.Link.Publish, Lost: a.lostConn, Log: cfg.Log,
		})
	}
	a.makeTimers()
	a.relay = a.newRelay()
	if cfg.Commands != nil {
		a.commands = commands.New(commands.Config{
			Host: cfg.Host, Fleet: cfg.Fleet, Runner: cfg.Commands, RunDirs: cfg.RunDirs, Supervisor: cfg.Supervisor, Mover: cfg.Mover,
			Unseal: cfg.Unseal, Input: a.relay.Payload, RecordSessions: cfg.RecordSessions, RecordBytes: cfg.RecordBytes, RecordOrEnd: cfg.RecordOrEnd,
			BootMS: cfg.BootMS, Now: cfg.Now, Log: cfg.Log,
		}, a.loop, runs{a})
	}
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
		g.Go(func() error { return a.cfg.Link.Run(running, a.open) }) // the connection
		g.Go(func() error { return a.send(running) })                 // sealed messages → connection
		g.Go(func() error { return a.lease.Run(running) })            // leases ⇄ grants: no disk, no loop
		g.Go(func() error { return a.trust(running) })                // rings and revocations → Trust
		g.Go(func() error { return a.relay.Run(running) })            // chunks → payloads and terminals
	}
	for i, r := range a.cfg.Runtimes {
		g.Go(func() error { return a.look(running, r, a.pokes[i]) }) // full looks at containers
		if w, ok := r.(container.Watcher); ok {
			g.Go(func() error { return a.watch(running, r.Kind(), w, a.pokes[i]) }) // changes of containers
		}
	}
	if a.cfg.Commands != nil {
		g.Go(func() error { a.commands.Sweep(running, a.cfg.Queue.Has); return nil }) // runs of unknown actions
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
		a.cfg.Log.Error("the queue cannot be read; trying again", "error", err)
		select {
		case <-time.After(loop.RetryDisk):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
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
	a.voice.Begin(a.self.Inc, inst, a.self.Term)
	a.gate = protocol.CoordinatorGate{Seen: a.self.Term, Store: a.self.Coord}
	if err := a.loadStreams(ctx); err != nil {
		return err
	}
	if err := a.loadContainers(ctx); err != nil {
		return err
	}
	if a.cfg.Trust != nil {
		a.ring = a.cfg.Trust.Ring()
	}
	if err := a.loadPolicy(); err != nil {
		return err
	}
	open, err := a.cfg.Queue.Unfinished(ctx)
	if err != nil {
		return err
	}
	clear(a.jobs)
	a.lanes.entries = nil
	for _, act := range open {
		a.adopt(act)
	}
	needed := make(map[protocol.Digest]bool)
	for _, j := range a.jobs {
		needed[j.spec.StdinSHA256] = true
	}
	a.relay.Sweep(func(d protocol.Digest) bool { return needed[d] })
	return nil
}

// turn is the one goroutine that owns the state. Each turn takes what happened,
// makes it durable, then starts what may start, then sends what is to be sent.
// Orders that came together share a transaction, and so do commands that ended
// together.
func (a *Agent) turn(ctx, running context.Context) error {
	defer a.loop.End()
	a.at(dueLook, 0)
	a.at(dueForget, forgetEvery)
	if a.cfg.Commands != nil {
		a.at(dueRuns, forgetEvery)
	}
	a.spare()
	a.resume()
	for a.loop.Fatal() == nil {
		a.takeOrders()
		a.takeEnds()
		a.startWork()
		a.pump()
		a.publishGauges()
		select {
		case call := <-a.loop.Calls():
			a.loop.Call(call)
		case m := <-a.inbox:
			a.receive(m)
			a.drain()
		case conn := <-a.linked:
			a.connected(conn)
		case conn := <-a.lost:
			a.disconnected(conn)
		case l := <-a.listings:
			a.listed(l)
		case <-a.trusted:
			a.trustMoved()
		case <-a.relay.Owed():
			a.tellCredits()
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

// drain takes what else has come, up to a bound, so that what belongs together
// is answered together.
func (a *Agent) drain() {
	for range 64 {
		select {
		case m := <-a.inbox:
			a.receive(m)
		default:
			return
		}
	}
}

// shutdown ends the work that can be ended without harm: commands and
// containers go on, operations on containers get some time and are taken up by
// the next process otherwise.
func (a *Agent) shutdown() {
	a.loop.Shutdown(a.cfg.Drain, a.takeEnds)
	a.pump()
	a.goodbye()
}

// deadline is something that is due at a time.
type deadline int

// The deadlines of the loop.
const (
	dueHello     deadline = iota // hello again, until it is answered
	dueAck                       // a receipt for what came down
	dueReport                    // reports without a receipt
	dueAlert                     // alerts without a receipt
	dueHeartbeat                 // the host has changed
	dueFlush                     // what was receipted is still on the disk
	dueKeep                      // a container is due for its next start
	dueRing                      // give up waiting for a ring
	dueExpire                    // start budgets of actions that wait
	dueLook                      // full look at all containers
	dueForget                    // forget old actions
	dueSteps                     // say which operations on containers take long
	dueRuns                      // remove what old actions have left
	deadlines
)

// Pauses of the loop.
const (
	expireEvery = time.Second
	forgetEvery = time.Minute
	forgetNext  = time.Second // while there is more
)

// makeTimers says what is done at each deadline. Those of reports and alerts only
// wake the loop: the pump, which follows every turn, looks by itself.
func (a *Agent) makeTimers() {
	for d, do := range [deadlines]func(){
		dueHello:     a.hello,
		dueAck:       a.ack,
		dueReport:    func() {},
		dueAlert:     func() {},
		dueHeartbeat: a.sendHeartbeat,
		dueFlush:     a.flush,
		dueKeep:      a.correct,
		dueRing:      a.giveUpRing,
		dueExpire:    a.expire,
		dueLook:      a.lookAround,
		dueForget:    a.forget,
		dueSteps:     a.lookAtSteps,
		dueRuns: func() {
			a.at(dueRuns, forgetEvery)
			a.retainRuns()
		},
	} {
		a.due[d] = a.loop.Timer(do)
	}
	a.loop.OnDisk(a.tryDisk)
}

// at makes something due after a pause, unless it is due earlier already.
func (a *Agent) at(d deadline, pause time.Duration) { a.due[d].In(pause) }

// lookAround is the full look at everything, the safety net under whoever tells of
// changes.
func (a *Agent) lookAround() {
	a.at(dueLook, a.cfg.CheckEvery)
	a.lookAll()
	if a.commands != nil {
		a.commands.Look()
	}
	a.listen()
	a.noteChange()
}

// spare sees to it that ends of actions have space set aside, before anything new
// is accepted into the rest of the disk.
func (a *Agent) spare() {
	if !a.cfg.Queue.Reserved() {
		a.loop.Disk(fmt.Errorf("no space is set aside for ends: %w", queue.ErrDisk))
	}
}

// tryDisk looks whether the disk works again, by writing what could not be
// written.
func (a *Agent) tryDisk() {
	for len(a.unsaved) > 0 {
		u := a.unsaved[0]
		a.unsaved = a.unsaved[1:]
		if !a.save(u) {
			return // it is in the list again
		}
	}
	if a.loop.Disk(a.cfg.Queue.Probe(a.loop.Steps())) && a.loop.Mended() {
		a.noteChange()
	}
}

// forget removes old actions and what they have left.
func (a *Agent) forget() {
	a.at(dueForget, forgetEvery)
	gone, err := a.cfg.Queue.Forget(a.loop.Steps(), a.loop.When())
	if !a.loop.Disk(err) || len(gone) == 0 || a.cfg.Commands == nil {
		return
	}
	a.at(dueForget, forgetNext)
	a.commands.Forget(gone)
}
