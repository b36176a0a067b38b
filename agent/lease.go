package agent

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/hostler-io/hostler/protocol"
)

// leaseEvery is how often a lease is asked for: eighteen times within the time
// to live of a grant.
const leaseEvery = 5 * time.Second

// lease asks to keep what the host holds, which proves that it is alive, and
// takes the grants. It touches neither the disk nor the loop: a disk that hangs
// for half a minute must not cost a lease. Nothing is held yet, so a grant that
// does not come has no consequence yet.
func (a *Agent) lease(ctx context.Context) error {
	ticker := time.NewTicker(leaseEvery)
	defer ticker.Stop()
	gate := &leaseGate{voice: a.voice}
	var number uint64
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
			number++
			a.askLease(ctx, number)
		case m := <-a.grants:
			if err := a.grant(gate, m); err != nil {
				if code, ok := errors.AsType[protocol.Code](err); ok {
					count(a.counters.refused, code)
				}
				a.cfg.Log.Debug("a grant was refused", "error", err)
			}
		}
	}
}

// askLease sends one lease, if the coordinator has answered.
func (a *Agent) askLease(ctx context.Context, number uint64) {
	seq, chal, ok := a.voice.next(protocol.TypeLease, a.cfg.BootMS())
	if !ok {
		return
	}
	h := a.header(protocol.TypeLease)
	h.Seq, h.Chal = seq, chal
	payload, err := a.seal(protocol.Lease{Header: h, Number: number, Boot: a.cfg.Boot, Inst: a.voice.inst, Beat: a.voice.newestBeat()})
	if err != nil {
		a.cfg.Log.Error("a lease cannot be signed", "error", err)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, leaseEvery)
	defer cancel()
	if err := a.cfg.Link.Publish(ctx, a.topic(protocol.ChannelLease), payload, false); err != nil {
		select {
		case a.lost <- seq.Conn:
		default: // the loop has been told
		}
		return
	}
	count(a.counters.sent, protocol.TypeLease)
}

// grant takes one grant: what is held may be kept for its time to live from the
// moment on which this process sent what it answers.
func (a *Agent) grant(gate *leaseGate, m inbound) error {
	x := a.expect(m.topic, a.cfg.Trust.Ring())
	gate.gate.Seen = a.voice.seen()
	x.Fresh = gate
	msg, err := protocol.Open(m.payload, x)
	if err != nil {
		return err
	}
	var g protocol.Grant
	if err := msg.Decode(&g); err != nil {
		return err
	}
	gate.gate.Accept(protocol.ChannelGrant, &msg.Header)
	if at, ok := a.voice.sentAt(g.Heard); ok {
		now := a.cfg.BootMS()
		if until := a.leaseUntil.Load(); until > 0 {
			a.leaseLow.Store(min(a.leaseLow.Load(), until-now))
		} else {
			a.leaseLow.Store(math.MaxInt64)
		}
		a.leaseUntil.Store(at + g.TTLms)
		a.grantAt.Store(now)
	}
	count(a.counters.received, protocol.TypeGrant)
	return nil
}

// leaseLeft returns how long the newest grant is good for, and the least that
// ever was left: before the first grant nothing of both.
func (a *Agent) leaseLeft() (left, lowest time.Duration) {
	until := a.leaseUntil.Load()
	if until == 0 {
		return 0, 0
	}
	ms := until - a.cfg.BootMS()
	return time.Duration(ms) * time.Millisecond, time.Duration(min(ms, a.leaseLow.Load())) * time.Millisecond
}

// leaseGate is what the lease has seen before. It belongs to its goroutine.
type leaseGate struct {
	voice *voice
	gate  protocol.CoordinatorGate
}

// Fresh takes grants that answer what this process has sent, in their order.
func (g *leaseGate) Fresh(t protocol.Topic, h *protocol.Header) error {
	if _, ok := g.voice.sentAt(h.Heard); !ok {
		return fmt.Errorf("%w: %d/%d/%d", protocol.ErrHeard, h.Heard.Inc, h.Heard.Conn, h.Heard.K)
	}
	return g.gate.Fresh(t.Channel, h)
}

// Term takes the term that the loop has made durable, and no other: a newer one
// is learnt by the answer to the next hello.
func (g *leaseGate) Term(h *protocol.Header) error {
	if h.Term != g.gate.Seen {
		return fmt.Errorf("%w: a grant of term %d/%d", protocol.ErrTerm, h.Term.Ring, h.Term.Counter)
	}
	return nil
}
