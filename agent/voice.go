package agent

import (
	"sync"

	"github.com/hostler-io/hostler/protocol"
)

// voice is what the loop and the lease share: how this process numbers its state
// messages, what proves that the coordinator hears it, and when it sent them. It
// has the agent's one mutex, which is never held while anything is done.
type voice struct {
	mu   sync.Mutex
	inc  uint64
	inst protocol.Nonce
	conn uint64 // up now; 0 is none
	k    uint64
	chal protocol.Nonce // zero until the hello of conn was answered
	term protocol.Term  // newest that is durable
	beat uint64         // the newest heartbeat's number
	sent protocol.SentWindow
}

func (v *voice) begin(inc uint64, inst protocol.Nonce, term protocol.Term) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.inc, v.inst, v.term = inc, inst, term
}

// connected begins the numbers of a connection.
func (v *voice) connected(conn uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.conn, v.k, v.chal = conn, 0, protocol.Nonce{}
}

// disconnected ends a connection, unless a newer one is up.
func (v *voice) disconnected(conn uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.conn == conn {
		v.conn, v.chal = 0, protocol.Nonce{}
	}
}

// unheard makes a hello come first again on the same connection, whose numbers go
// on: the coordinator has begun anew.
func (v *voice) unheard() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.chal = protocol.Nonce{}
}

// answered takes the challenge of an answered hello.
func (v *voice) answered(conn uint64, chal protocol.Nonce) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.conn == conn {
		v.chal = chal
	}
}

func (v *voice) saw(t protocol.Term) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.term = t
}

func (v *voice) seen() protocol.Term {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.term
}

// told notes the number of a heartbeat that is about to be sent.
func (v *voice) told(beat uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.beat = beat
}

func (v *voice) newestBeat() uint64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.beat
}

// next numbers a state message that is about to be sent at a time of the boot
// clock. Without a challenge there is only the hello to send: ok is false. An ack
// is not remembered: nothing answers one, and while much comes down there are
// hundreds in a second, behind which the newest lease would be forgotten.
func (v *voice) next(t protocol.Type, bootMS int64) (s protocol.Seq, chal protocol.Nonce, ok bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.chal.IsZero() {
		return protocol.Seq{}, protocol.Nonce{}, false
	}
	s = v.number()
	if t != protocol.TypeAck {
		v.sent.Sent(s, bootMS)
	}
	return s, v.chal, true
}

// hello numbers a hello. It says false when there is no connection.
func (v *voice) hello(bootMS int64) (protocol.Seq, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.conn == 0 {
		return protocol.Seq{}, false
	}
	s := v.number()
	v.sent.Sent(s, bootMS)
	return s, true
}

func (v *voice) number() protocol.Seq {
	v.k++
	return protocol.Seq{Inc: v.inc, Conn: v.conn, K: v.k}
}

// sentAt is when this process sent a state message that can be answered, by the
// boot clock.
func (v *voice) sentAt(s protocol.Seq) (bootMS int64, ok bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.sent.At(s)
}
