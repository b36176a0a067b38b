package window

import (
	"time"

	"github.com/hostler-io/hostler/protocol"
)

// Sender is the sending side of a stream. The zero value sends nothing until the
// first credit.
type Sender struct {
	have  int64     // offset of the newest credit: all before it has arrived
	next  int64     // offset of the next chunk
	limit int64     // where permission ends
	since time.Time // since when the byte at have is on its way, if next is behind it
	conn  uint64    // the newest connection that carried something
	first int64     // offset of the first byte that it carried
}

// NewSender returns a sender that may send so many bytes before the first credit.
func NewSender(unasked int64) Sender { return Sender{limit: unasked} }

// Next is the offset of the next chunk.
func (s *Sender) Next() int64 { return s.next }

// Have is the offset of the newest credit.
func (s *Sender) Have() int64 { return s.have }

// Room is how many bytes may be sent now.
func (s *Sender) Room() int64 { return max(0, s.limit-s.next) }

// Allow takes a credit. What may still be on its way is not sent once more, or a
// slow line would carry nothing else. The sender goes back to the offset only if
// an earlier connection carried what is missing, if the byte at the offset is on
// its way for longer than patience, or if the receiver asks for something else
// than what follows: it has lost what it had, or goes on elsewhere. A credit
// without a window asks for nothing: it ends permission, and nothing is sent
// again for it.
func (s *Sender) Allow(offset, window int64, patience time.Duration, now time.Time) {
	moved := offset > s.have && offset <= s.next
	same := offset == s.have && offset < s.next
	switch {
	case same && window == 0:
	case offset < s.first, !moved && !same, same && now.Sub(s.since) > patience:
		s.next, s.first = offset, offset
	case moved:
		s.since = now
	}
	s.have, s.limit = offset, offset+window
}

// Sent notes that a connection has taken the n bytes from Next on. A sender that
// does not know its connections gives the same number each time.
func (s *Sender) Sent(conn uint64, n int64, now time.Time) {
	if s.conn != conn {
		s.conn, s.first = conn, s.next
	}
	if s.next == s.have {
		s.since = now
	}
	s.next += n
}

// Stop ends permission until the next credit: there is nothing more to send.
func (s *Sender) Stop() { s.limit = s.next }

// A Resender is the sending side of a stream whose receiver may be silent for a
// minute after a loss: it sends again what no credit covers in time. The zero
// value sends nothing until the first credit.
type Resender struct {
	Sender
	tries   int           // in a row without progress
	probe   int64         // offset whose passing is timed; 0 is none
	probeAt time.Time     // when it was sent
	trip    time.Duration // from sending to credit, the newest that was measured
}

const (
	// resendFirst is after what time a Resender sends again, at the least. On a
	// slow line the measured time is added, twice.
	resendFirst = 2 * time.Second
	// resendLast is the longest time between two tries.
	resendLast = time.Minute
)

// Allow takes a credit.
func (r *Resender) Allow(offset, window int64, now time.Time) {
	if offset > r.have {
		r.tries = 0
	}
	r.Sender.Allow(offset, window, max(2*r.trip, resendFirst/2), now)
	if r.probe > 0 && offset >= r.probe {
		r.trip, r.probe = now.Sub(r.probeAt), 0
	}
}

// Chunk is how many bytes the next chunk may carry, at most: half of the window,
// so that the next is on its way while one arrives. None if nothing may be sent.
func (r *Resender) Chunk() int64 {
	return min(chunkOf(r.limit-r.have), r.Room())
}

// chunkOf is the largest chunk for a window.
func chunkOf(window int64) int64 {
	return min(max(window/2, protocol.LeastChunk), protocol.ChunkSize)
}

// Sent notes that n bytes were sent.
func (r *Resender) Sent(n int64, now time.Time) {
	r.Sender.Sent(0, n, now)
	if r.probe == 0 && r.tries == 0 {
		r.probe, r.probeAt = r.next, now
	}
}

// Overdue is how long until what was sent is to be sent again; false if nothing
// is on its way.
func (r *Resender) Overdue(now time.Time) (time.Duration, bool) {
	if r.next <= r.have {
		return 0, false
	}
	return backoff(2*r.trip+resendFirst, resendLast, r.tries) - now.Sub(r.since), true
}

// Again goes back to the newest credit if what was sent is overdue.
func (r *Resender) Again(now time.Time) {
	if left, waits := r.Overdue(now); waits && left <= 0 {
		r.next, r.probe = r.have, 0
		r.tries++
	}
}
