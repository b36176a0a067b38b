// Package fresh remembers what was heard, and tells new messages from those that
// were held back or replayed: [HostGate] for the coordinator, [CoordinatorGate] and
// [SentWindow] for a host. What a host keeps as proof is made by [Strengthen]. The
// package is pure: memory and time are arguments.
package fresh

import (
	"bytes"
	"cmp"
	"fmt"

	"github.com/hostler-io/hostler/protocol"
)

// HostGate is the coordinator's memory of the state messages of one host. It
// lives in memory only: after a restart no challenge is current, so nothing
// old counts as evidence until the host has said hello again. It is not safe
// for concurrent use; its zero value has seen nothing.
//
// A challenge is given to one hello. A process that carries it has received
// the answer, so it is alive now; a message that was held back cannot know it.
// Two processes that speak for one host (a copied key, a disk rolled back)
// thereby prove themselves: see [HostGate.State].
//
// A host that was readmitted, or enrolled again with another key, gets a new
// gate; it must then connect anew, since nothing else makes it say hello.
type HostGate struct {
	inst protocol.Nonce
	conn protocol.Seq // of the connection in force; K is that of its newest hello
	chal protocol.Nonce
	last map[protocol.Channel]uint64 // newest K per channel of that connection
	// probe answers hellos of processes older than the one in force. It stays
	// the same for as long as the gate: a sender that carries it has lived on after
	// a younger process had spoken, however many came in between. Were it made
	// anew for each hello, replays of one old hello could hide the fork.
	probe protocol.Nonce
}

// Conn returns the connection in force and its challenge; zero before the
// first hello.
func (g *HostGate) Conn() (protocol.Seq, protocol.Nonce) { return g.conn, g.chal }

// Hello takes a verified hello. It returns the challenge to answer with, zero
// for a hello that needs no answer, and whether the hello is the newest word
// of the newest process. offer is a fresh random challenge, used if one is
// needed: a repeated hello is answered with what it was given before.
//
// A hello by itself proves nothing about now: after a restart of the
// coordinator, when nothing is known, it may be years old. Its contents (the
// positions above all, which can show a host to be rolled back) are to be acted
// upon when the first message with the challenge is accepted; by [protocol.Seq.Takes]
// the newest current hello is then one that the host said in this term.
func (g *HostGate) Hello(s protocol.Seq, inst, offer protocol.Nonce) (give protocol.Nonce, current bool) {
	switch c := g.compare(s, inst); {
	case c > 0:
		*g = HostGate{inst: inst, conn: s, chal: offer, probe: g.probe, last: map[protocol.Channel]uint64{protocol.ChannelPresence: s.K}}
		return g.chal, true
	case c == 0:
		// Another message of this connection may have overtaken the hello; what
		// it told, its positions above all, is newer.
		current = true
		for _, k := range g.last {
			current = current && s.K > k
		}
		g.conn.K = max(g.conn.K, s.K)
		g.last[protocol.ChannelPresence] = max(g.last[protocol.ChannelPresence], s.K)
		return g.chal, current
	}
	if s.Inc == g.conn.Inc && inst == g.inst {
		// An earlier connection of the same process: late, and harmless.
		return protocol.Nonce{}, false
	}
	if g.probe.IsZero() {
		g.probe = offer
	}
	return g.probe, false
}

// compare orders a connection against the one in force: by process start, then
// by instance (two processes with one count are copies of each other; any
// order will do as long as it is one), then by connection.
func (g *HostGate) compare(s protocol.Seq, inst protocol.Nonce) int {
	if c := cmp.Compare(s.Inc, g.conn.Inc); c != 0 {
		return c
	}
	if c := bytes.Compare(inst[:], g.inst[:]); c != 0 {
		return c
	}
	return cmp.Compare(s.Conn, g.conn.Conn)
}

// State takes the header of any verified state message that is not a hello.
// It returns nil and remembers the message if it is the newest of its channel
// on the connection in force. [protocol.ErrFork] proves that a process which was
// superseded still lives; [protocol.ErrChallenge] and [protocol.ErrStale] are late messages.
func (g *HostGate) State(c protocol.Channel, s protocol.Seq, chal protocol.Nonce) error {
	if s.K == protocol.KWill {
		if s.Inc != g.conn.Inc || s.Conn != g.conn.Conn || g.last[c] >= protocol.KWill {
			return fmt.Errorf("%w: a will of connection %d/%d, %d/%d is in force", protocol.ErrStale, s.Inc, s.Conn, g.conn.Inc, g.conn.Conn)
		}
		g.last[c] = protocol.KWill
		return nil
	}
	switch {
	case !chal.IsZero() && chal == g.probe:
		return fmt.Errorf("%w: process start %d speaks although %d does", protocol.ErrFork, s.Inc, g.conn.Inc)
	case chal.IsZero() || chal != g.chal:
		return fmt.Errorf("%w: message %d/%d/%d", protocol.ErrChallenge, s.Inc, s.Conn, s.K)
	case s.Inc != g.conn.Inc || s.Conn != g.conn.Conn || s.K <= g.last[c]:
		return fmt.Errorf("%w: message %d/%d/%d on %s", protocol.ErrStale, s.Inc, s.Conn, s.K, c)
	}
	g.last[c] = s.K
	return nil
}

// SentWindow remembers when a process sent its newest state messages but acks,
// by the boot clock. A grant or order answers one of them, and its time counts
// from there: so no clock but the receiver's own takes part. It is not safe for
// concurrent use.
type SentWindow struct {
	sent [sentWindow]struct {
		seq protocol.Seq
		at  int64
	}
	next int
}

// sentWindow is how many sent state messages can be answered: at a lease every
// 5 s and as many heartbeats, more than ten minutes.
const sentWindow = 256

// Sent remembers a state message sent at a time of the boot clock, in
// milliseconds.
func (w *SentWindow) Sent(s protocol.Seq, bootMS int64) {
	w.sent[w.next].seq, w.sent[w.next].at = s, bootMS
	w.next = (w.next + 1) % sentWindow
}

// At returns when s was sent. It reports false for what this process did not
// send, or sent too long ago: such an answer is stale.
func (w *SentWindow) At(s protocol.Seq) (bootMS int64, ok bool) {
	for i := range w.sent {
		if w.sent[i].seq == s && s != (protocol.Seq{}) {
			return w.sent[i].at, true
		}
	}
	return 0, false
}

// CoordinatorGate is a host's memory of the coordinator's messages. It is not
// safe for concurrent use.
type CoordinatorGate struct {
	// Seen is the newest term; it survives restarts with the host's queue.
	Seen protocol.Term
	// Store is the coordinator's store in force, zero until something of the
	// term Seen has named one. It is kept together with Seen.
	Store protocol.StoreID
	last  map[protocol.Channel]protocol.Seq
}

// Fresh is check 11 for state messages that come down: newer than the last of
// its channel within its term.
func (g *CoordinatorGate) Fresh(c protocol.Channel, h *protocol.Header) error {
	if last := g.last[c]; h.Term.Compare(g.Seen) == 0 && h.Seq.Compare(last) <= 0 {
		return fmt.Errorf("%w: message %d/%d/%d on %s", protocol.ErrStale, h.Seq.Inc, h.Seq.Conn, h.Seq.K, c)
	}
	return nil
}

// Term is check 12: no coordinator that was superseded is obeyed, and another
// store is believed only in a newer term.
func (g *CoordinatorGate) Term(h *protocol.Header) error {
	c := h.Term.Compare(g.Seen)
	if c < 0 {
		return fmt.Errorf("%w: term %d/%d, %d/%d was seen", protocol.ErrTerm, h.Term.Ring, h.Term.Counter, g.Seen.Ring, g.Seen.Counter)
	}
	if c == 0 && !h.Store.IsZero() && !g.Store.IsZero() && h.Store != g.Store {
		return fmt.Errorf("%w: store %s, %s is in force", protocol.ErrStore, h.Store, g.Store)
	}
	return nil
}

// Accept remembers a message that passed. It reports whether the term is newer
// than Seen, which the caller makes durable before it acts on the message.
func (g *CoordinatorGate) Accept(c protocol.Channel, h *protocol.Header) (newTerm bool) {
	newTerm = h.Term.Compare(g.Seen) > 0
	if newTerm {
		// A coordinator that speaks in a newer term may have another store, even if the
		// first that it says does not name it.
		g.Seen, g.Store, g.last = h.Term, protocol.StoreID{}, nil
	}
	if !h.Store.IsZero() {
		g.Store = h.Store
	}
	if h.Seq != (protocol.Seq{}) {
		if g.last == nil {
			g.last = make(map[protocol.Channel]protocol.Seq)
		}
		g.last[c] = h.Seq
	}
	return newTerm
}
