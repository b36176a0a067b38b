// Package lease asks to keep what this host holds, which proves that the host is
// alive, and takes the coordinator's grants, in a goroutine of its own.
//
// It must be in time even when a disk hangs for half a minute, so it touches
// neither the disk nor the agent's loop: what it needs of them, numbers and the
// term in force, is in [wire.Numbers].
package lease

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"sync/atomic"
	"time"

	"github.com/hostler-io/hostler/agent/wire"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/fresh"
)

// every is how often a lease is asked for until a grant says how long it is good for, and
// the most that leases are apart. The coordinator wants one sooner if it needs it.
const every = 30 * time.Second

// patience is how long the connection may take for a lease.
const patience = 5 * time.Second

// Config is what a lease is asked for with. All of it is required.
type Config struct {
	Host    *wire.Host
	Numbers *wire.Numbers
	Traffic *wire.Traffic
	Boot    string       // names the present boot
	BootMS  func() int64 // the boot clock
	// Publish hands a message to the connection. It may wait for room.
	Publish func(ctx context.Context, topic string, payload []byte, retained bool) error
	// Lost is told of a connection that has failed. It does not wait.
	Lost func(conn uint64)
	// Guard kills what is held when the agent cannot; nil if this host has none, and then
	// nothing is held.
	Guard Guard
	// Changed is told that the grant has changed. It does not wait.
	Changed func()
	Log     *slog.Logger
}

// Lease is the lease of this host. Its methods may be called by any goroutine.
type Lease struct {
	cfg    Config
	grants chan wire.Message
	until  atomic.Int64  // boot clock; 0 before the first grant
	low    atomic.Int64  // the least that was left when a grant came, in ms
	at     atomic.Int64  // boot clock of the newest grant
	sleep  atomic.Int64  // boot clock until which the host is silent; 0 if it will not be
	soon   chan struct{} // one place: a lease is to go out now
	holder holder
}

// New returns a lease that was not granted yet.
func New(cfg Config) *Lease {
	l := &Lease{cfg: cfg, grants: make(chan wire.Message, 8), soon: make(chan struct{}, 1)}
	l.holder.init(&l.cfg)
	return l
}

// Take takes a grant as it came. It never waits: a grant that finds no room is
// lost, as on any other part of the way, and Take is false.
func (l *Lease) Take(m wire.Message) bool {
	select {
	case l.grants <- m:
		return true
	default:
		return false
	}
}

// Run asks for leases and takes grants until ctx ends, and returns its cause. What is
// held when a grant has ended is killed by the guard.
func (l *Lease) Run(ctx context.Context) error {
	pause := every
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	g := &gate{numbers: l.cfg.Numbers}
	var number uint64
	for {
		if now := l.holder.every(); now != pause {
			pause = now
			ticker.Reset(pause)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-l.holder.released:
			l.holder.catchUp(ctx)
		case <-ticker.C:
			l.holder.catchUp(ctx)
			number++
			l.ask(ctx, number)
		case <-l.soon:
			ticker.Reset(pause)
			number++
			l.ask(ctx, number)
		case m := <-l.grants:
			if err := l.grant(ctx, g, m); err != nil {
				l.cfg.Traffic.Refused(err)
				l.cfg.Log.Debug("a grant was refused", "error", err)
			}
		}
	}
}

// ask sends one lease, if the coordinator has answered.
func (l *Lease) ask(ctx context.Context, number uint64) {
	n := l.cfg.Numbers
	seq, chal, ok := n.Next(protocol.TypeLease, l.cfg.BootMS())
	if !ok {
		return
	}
	h := l.cfg.Host.Header(protocol.TypeLease)
	h.Seq, h.Chal = seq, chal
	payload, err := l.cfg.Host.Seal(protocol.Lease{Header: h, Number: number, Boot: l.cfg.Boot, Inst: n.Inst(), SleepMS: l.sleepMS(), Held: l.holder.told(), Took: l.holder.took()})
	if err != nil {
		l.cfg.Log.Error("a lease cannot be signed", "error", err)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := l.cfg.Publish(ctx, l.cfg.Host.Topic(protocol.ChannelLease), payload, false); err != nil {
		l.cfg.Lost(seq.Conn)
		return
	}
	l.cfg.Traffic.Sent(protocol.TypeLease)
}

// grant takes one grant: what is held may be kept for its time to live from the
// moment at which this process sent what the grant answers.
func (l *Lease) grant(ctx context.Context, gate *gate, m wire.Message) error {
	if term := l.cfg.Numbers.Term(); term != gate.coordinator.Seen {
		gate.coordinator = fresh.CoordinatorGate{Seen: term} // numbers begin anew with a term
	}
	msg, err := l.cfg.Host.Open(m, l.cfg.Host.Trust.Ring(), gate)
	if err != nil {
		return err
	}
	var g protocol.Grant
	if err := msg.Decode(&g); err != nil {
		return err
	}
	gate.coordinator.Accept(protocol.ChannelGrant, &msg.Header)
	if at, ok := l.cfg.Numbers.SentAt(g.Heard); ok {
		now := l.cfg.BootMS()
		if until := l.until.Load(); until > 0 {
			l.low.Store(min(l.low.Load(), until-now))
		} else {
			l.low.Store(math.MaxInt64)
		}
		l.until.Store(at + g.TTLms)
		l.at.Store(now)
		l.holder.granted(ctx, g.Held, msg.Header.Seq, at, g.TTLms)
	}
	l.cfg.Traffic.Received(protocol.TypeGrant)
	return nil
}

// Sleep tells the coordinator with every lease until then that the host will be silent
// for a time, because it sleeps; none takes that back.
func (l *Lease) Sleep(d time.Duration) {
	until := int64(0)
	if d > 0 {
		until = l.cfg.BootMS() + d.Milliseconds()
	}
	l.sleep.Store(until)
	l.Soon()
}

// Soon asks for a lease now, and goes on from there.
func (l *Lease) Soon() {
	select {
	case l.soon <- struct{}{}:
	default:
	}
}

func (l *Lease) sleepMS() int64 {
	until := l.sleep.Load()
	if until == 0 {
		return 0
	}
	return max(0, until-l.cfg.BootMS())
}

// UntilMS is when the newest grant ends by the boot clock; 0 before the first.
func (l *Lease) UntilMS() int64 { return l.until.Load() }

// GrantedMS is when the newest grant came by the boot clock; 0 before the first.
func (l *Lease) GrantedMS() int64 { return l.at.Load() }

// Left returns how long the newest grant is good for, and the least that ever was
// left; both are 0 before the first grant.
func (l *Lease) Left() (left, lowest time.Duration) {
	until := l.until.Load()
	if until == 0 {
		return 0, 0
	}
	ms := until - l.cfg.BootMS()
	return time.Duration(ms) * time.Millisecond, time.Duration(min(ms, l.low.Load())) * time.Millisecond
}

// gate is what the lease has seen before. It belongs to its goroutine.
type gate struct {
	numbers     *wire.Numbers
	coordinator fresh.CoordinatorGate
}

// Fresh takes grants that answer what this process has sent, in their order.
func (g *gate) Fresh(t protocol.Topic, h *protocol.Header) error {
	if _, ok := g.numbers.SentAt(h.Heard); !ok {
		return fmt.Errorf("%w: %d/%d/%d", protocol.ErrHeard, h.Heard.Inc, h.Heard.Conn, h.Heard.K)
	}
	return g.coordinator.Fresh(t.Channel, h)
}

// Term takes the term that the loop has made durable, and no other: a newer one
// is learnt by the answer to the next hello.
func (g *gate) Term(h *protocol.Header) error {
	if h.Term != g.coordinator.Seen {
		return fmt.Errorf("%w: a grant of term %d/%d", protocol.ErrTerm, h.Term.Ring, h.Term.Counter)
	}
	return nil
}
