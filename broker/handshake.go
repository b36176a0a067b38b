package broker

import (
	"net"
	"sync"
	"sync/atomic"
)

// handshaker is the connection below TLS. A handshake computes for half a millisecond, and thousands
// of them begin at once when a fleet comes back: all others in the process, such as those who answer
// people, would each time wait until every one of them has had the processor. So only as many handshakes
// compute at a time as there are turns; one that waits for its other end holds none. What a handshake
// sends is so little that a new connection always takes it, so a turn is never held for the other end.
type handshaker struct {
	net.Conn
	turns *turns // nil after the handshake
	begun bool   // it has had a turn
	mine  bool   // it has one
	gone  atomic.Bool
}

// Read implements [net.Conn]. During the handshake its goroutine is the only one that reads.
func (h *handshaker) Read(b []byte) (int, error) {
	if h.turns == nil {
		return h.Conn.Read(b)
	}
	h.leave()
	n, err := h.Conn.Read(b)
	h.turns.take(h.begun)
	h.begun, h.mine = true, true
	if h.gone.Load() { // while it waited
		return 0, net.ErrClosed
	}
	return n, err
}

// Close implements [net.Conn].
func (h *handshaker) Close() error {
	h.gone.Store(true)
	return h.Conn.Close()
}

// leave ends the turn, if there is one.
func (h *handshaker) leave() {
	if h.mine {
		h.mine = false
		h.turns.give()
	}
}

// over ends the part of the connection in which it waits for turns.
func (h *handshaker) over() {
	h.leave()
	h.turns = nil
}

// turns are those of handshakes. Who has begun goes before who has not: if all went forward together, all
// would be late together, lose their places in the lobby to others, and begin anew.
type turns struct {
	mu    sync.Mutex
	free  int
	queue [2][]chan struct{} // who has begun, and who has not; who came first in front
}

// take waits for a turn.
func (t *turns) take(begun bool) {
	t.mu.Lock()
	if t.free > 0 {
		t.free--
		t.mu.Unlock()
		return
	}
	q := &t.queue[1]
	if begun {
		q = &t.queue[0]
	}
	turn := make(chan struct{})
	*q = append(*q, turn)
	t.mu.Unlock()
	<-turn
}

// give ends a turn: the next one has it.
func (t *turns) give() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.queue {
		if q := &t.queue[i]; len(*q) > 0 {
			close((*q)[0])
			*q = (*q)[1:]
			return
		}
	}
	t.free++
}
