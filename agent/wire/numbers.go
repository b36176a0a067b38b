package wire

import (
	"sync"

	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/fresh"
)

// Numbers are the numbers of this process's state messages, with what proves that
// the coordinator hears it and when each was sent: a message is numbered by the
// process, its connection, and its place on that. The loop and the lease share
// them. Numbers are safe for concurrent use; their mutex is never held while
// anything is done.
type Numbers struct {
	mu   sync.Mutex
	inc  uint64
	inst protocol.Nonce
	conn uint64 // up now; 0 is none
	k    uint64
	chal protocol.Nonce // zero until the hello of conn was answered
	term protocol.Term  // newest that is durable
	sent fresh.SentWindow
}

// Begin begins the numbers of a process.
func (n *Numbers) Begin(inc uint64, inst protocol.Nonce, term protocol.Term) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.inc, n.inst, n.term = inc, inst, term
}

// Connected begins the numbers of a connection.
func (n *Numbers) Connected(conn uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.conn, n.k, n.chal = conn, 0, protocol.Nonce{}
}

// Disconnected ends a connection, unless a newer one is up.
func (n *Numbers) Disconnected(conn uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.conn == conn {
		n.conn, n.chal = 0, protocol.Nonce{}
	}
}

// Unheard makes a hello come first again on the same connection, whose numbers go
// on: the coordinator was restarted.
func (n *Numbers) Unheard() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.chal = protocol.Nonce{}
}

// Answered takes the challenge of an answered hello.
func (n *Numbers) Answered(conn uint64, chal protocol.Nonce) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.conn == conn {
		n.chal = chal
	}
}

// SawTerm takes a term that is durable.
func (n *Numbers) SawTerm(t protocol.Term) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.term = t
}

// Term is the newest term that is durable.
func (n *Numbers) Term() protocol.Term {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.term
}

// Next numbers a state message that is about to be sent at a time of the boot
// clock. Without a challenge there is only the hello to send: ok is false. An ack
// is not remembered: nothing answers one, and while much comes down there are
// hundreds in a second, behind which the newest lease would be forgotten.
func (n *Numbers) Next(t protocol.Type, bootMS int64) (s protocol.Seq, chal protocol.Nonce, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.chal.IsZero() {
		return protocol.Seq{}, protocol.Nonce{}, false
	}
	s = n.number()
	if t != protocol.TypeAck {
		n.sent.Sent(s, bootMS)
	}
	return s, n.chal, true
}

// Hello numbers a hello. It says false when there is no connection.
func (n *Numbers) Hello(bootMS int64) (protocol.Seq, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.conn == 0 {
		return protocol.Seq{}, false
	}
	s := n.number()
	n.sent.Sent(s, bootMS)
	return s, true
}

func (n *Numbers) number() protocol.Seq {
	n.k++
	return protocol.Seq{Inc: n.inc, Conn: n.conn, K: n.k}
}

// SentAt is when this process sent a state message that can be answered, by the
// boot clock.
func (n *Numbers) SentAt(s protocol.Seq) (bootMS int64, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.sent.At(s)
}

// Inst is what tells this process from every other.
func (n *Numbers) Inst() protocol.Nonce {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.inst
}
