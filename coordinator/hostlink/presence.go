package hostlink

import (
	"fmt"
	"sync"
	"time"

	"github.com/hostler-io/hostler/coordinator/core"
	vigil "github.com/hostler-io/hostler/coordinator/presence"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/fresh"
)

// heardFresh is how young the newest sign of a host must be for an order to be
// numbered: what cannot arrive now waits here and not on the wire. A host sends a lease at
// least every 30 s; one that is older than heardDue is asked for.
const heardFresh, heardDue = time.Minute, 32 * time.Second

// presence is what was heard of one host and how much of it is proven. It is
// memory only: no method waits for the store, and none reads a clock. Its
// methods may be called from any goroutine.
type presence struct {
	mu      sync.Mutex
	gate    fresh.HostGate
	store   protocol.StoreID // the host's database as of its newest proven hello
	heard   protocol.Seq     // newest message that carried the current challenge
	heardAt int64            // boot clock, ms; 0 if the host was not heard yet
	askedAt int64            // boot clock, when it was asked for a lease
	seenMS  int64            // wall clock, for people
	ring    uint64           // the number of its ring, as its newest state message has it
	proven  bool             // the current challenge came back: the host is there now
	claims  *protocol.Hello  // the newest hello, until it is proven
	left    bool             // the host said goodbye
	broken  bool             // the will of its connection came
	vigil   vigil.Host       // what people are told
	told    vigil.State      // what they were told last
	toldInc uint64           // start of the agent's process of which they were told
	helloAt int64            // boot clock when hellos began to count
	hellos  int              // hellos answered since then
}

// reset forgets the gate and with it the proof of a fork: after a person has
// readmitted the host, that proof must not count any more.
func (p *presence) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gate, p.vigil = fresh.HostGate{}, vigil.Host{}
	p.told, p.toldInc = "", 0 // that it is back is told, though it was never away
	p.proven, p.helloAt = false, 0
}

// view is what people are told at a time of the boot clock and of the wall clock.
func (p *presence) view(bootMS, nowMS int64) core.Presence {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := vigil.Decide(p.vigil, vigil.Event{Kind: vigil.Tick}, bootMS)
	v := core.Presence{Connectivity: core.Connectivity(h.State), Reason: h.Reason(bootMS), SeenMS: p.seenMS, SinceMS: nowMS - (bootMS - h.SinceMS), Ring: p.ring}
	if h.State == vigil.Asleep {
		v.AsleepUntilMS = nowMS + h.UntilMS() - bootMS
	}
	if v.Silence, v.Heard = h.Silence(bootMS); !v.Heard {
		v.Silence = 0
	}
	return v
}

// hasRing notes which ring the host has in force.
func (p *presence) hasRing(n uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ring = n
}

// happened moves what people are told.
func (p *presence) happened(e vigil.Event, bootMS int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.vigil = vigil.Decide(p.vigil, e, bootMS)
}

// news returns what people are to be told now, once. That an agent was started again is
// told also if the host was not missed meanwhile.
func (p *presence) news(bootMS int64) (_ vigil.State, why string, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	moved, again := p.changed(bootMS)
	switch {
	case !moved && !again:
		return "", "", false
	case !moved:
		why = "its agent was started again"
	default:
		why = p.vigil.Reason(bootMS)
	}
	if p.told = p.vigil.State; again {
		p.toldInc = p.heard.Inc
	}
	return p.told, why, true
}

// changed reports whether people are to be told that the host is in another state, and that
// its agent was started again. It is called with mu held.
func (p *presence) changed(bootMS int64) (moved, again bool) {
	p.vigil = vigil.Decide(p.vigil, vigil.Event{Kind: vigil.Tick}, bootMS)
	if p.vigil.State == vigil.Unknown {
		return false, false
	}
	return p.vigil.State != p.told, p.vigil.State == vigil.Online && p.proven && p.heard.Inc != p.toldInc
}

// look is all that a look each second asks: whether a lease is overdue, whether there may be
// news, and whether the host is reachable. Of nearly all hosts it is the third alone.
func (p *presence) look(bootMS int64) (overdue, news, reachable bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	moved, again := p.changed(bootMS)
	_, _, reachable = p.within(bootMS)
	return p.overdue(bootMS), moved || again, reachable
}

// here reports whether the host was heard just now, and its connection is not lost.
func (p *presence) here(bootMS int64) bool {
	_, age, ok := p.reachable(bootMS)
	return ok && age <= vigil.Grace
}

// reachable reports whether an order given now is likely to arrive, and which
// message of the host it answers.
func (p *presence) reachable(bootMS int64) (heard protocol.Seq, age time.Duration, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.within(bootMS)
}

// within is reachable, called with mu held.
func (p *presence) within(bootMS int64) (heard protocol.Seq, age time.Duration, ok bool) {
	age = time.Duration(bootMS-p.heardAt) * time.Millisecond
	return p.heard, age, p.proven && !p.left && !p.broken && age < heardFresh
}

// overdue reports, once in a while, that a lease of a host that is there should have come.
// It is called with mu held.
func (p *presence) overdue(bootMS int64) bool {
	due := time.Duration(bootMS-max(p.heardAt, p.askedAt))*time.Millisecond > heardDue/4 && time.Duration(bootMS-p.heardAt)*time.Millisecond > heardDue
	if due = due && p.proven && !p.left && !p.broken; due {
		p.askedAt = bootMS
	}
	return due
}

// alive reports whether the host has proven itself, so that its leases need
// memory only.
func (p *presence) alive() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.proven && !p.broken
}

// conn returns the connection that said the newest hello, and its challenge.
func (p *presence) conn() (protocol.Seq, protocol.Nonce) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.gate.Conn()
}

// state judges a state message by the gate. A hello passes: it is judged
// together with its instance, which is in its payload.
func (p *presence) state(ch protocol.Channel, h *protocol.Header) error {
	if h.IsHello() {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.gate.State(ch, h.Seq, h.Chal)
}

// item judges the database that an item or a chunk comes from: it must be the
// one for which the host speaks now. Items that overtake the proof of a hello
// wait until they are sent again: taken in before, they would make that hello
// look as if the host had gone back.
func (p *presence) item(store protocol.StoreID) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case store.IsZero():
	case store != p.store:
		return fmt.Errorf("%w: store %s, the host's is %s", protocol.ErrStore, store, p.store)
	case p.claims != nil:
		return fmt.Errorf("%w: the hello is not proven yet", protocol.ErrStale)
	}
	return nil
}

// A host's hellos are answered once a second in the long run. A burst is
// answered at once: a host says hello again as soon as it learns of a new term.
const (
	helloBurst    = 4
	helloWindowMS = helloBurst * 1000
)

// hello takes a hello, for which a challenge was drawn. give is the challenge to
// answer with, zero for a hello of an earlier connection. current tells that the
// hello is the newest; early that too many were answered just now.
func (p *presence) hello(seq protocol.Seq, h *protocol.Hello, fresh protocol.Nonce, bootMS int64) (give protocol.Nonce, current, early bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	give, current = p.gate.Hello(seq, h.Inst, fresh)
	if p.helloAt == 0 || bootMS-p.helloAt >= helloWindowMS {
		p.helloAt, p.hellos = bootMS, 0
	}
	p.hellos++
	if current {
		p.claims, p.proven, p.left, p.broken = h, false, false, false
	}
	return give, current, p.hellos > helloBurst
}

// claimed returns the newest hello while nothing has proven it, else nil.
func (p *presence) claimed() *protocol.Hello {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.claims
}

// ignore drops what the newest hello claims: nothing of it is taken in.
func (p *presence) ignore() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.claims = nil
}

// accept makes the database of a proven hello the one for which the host speaks.
func (p *presence) accept(h *protocol.Hello) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.claims == h {
		p.claims = nil
	}
	p.store = h.Store
}

// returns tells whether a message of a connection would be the first one after a
// hello or a silence. A message of an earlier connection is refused.
func (p *presence) returns(seq protocol.Seq) (first bool, _ error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if conn, _ := p.gate.Conn(); !conn.SameConn(seq) {
		return false, fmt.Errorf("%w: a newer connection said hello meanwhile", protocol.ErrStale)
	}
	return !p.proven || p.broken, nil
}

// hear notes a message that carried the current challenge.
func (p *presence) hear(seq protocol.Seq, bootMS, nowMS int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.heard, p.heardAt, p.seenMS = seq, bootMS, nowMS
	p.proven, p.left, p.broken = p.claims == nil, false, false
}

// goodbye notes that the host has ended its connection on purpose.
func (p *presence) goodbye() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left, p.proven = true, false
}

// will notes that a connection broke: that makes a host late, never more.
func (p *presence) will() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.broken = true
}

// lapse ends the proof of a host that has been silent for so long that it is
// offline: what it says next is looked at as that of a host that comes back.
func (p *presence) lapse(bootMS int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Duration(bootMS-p.heardAt)*time.Millisecond > vigil.Away {
		p.proven = false
	}
}
