// Package window decides which bytes of a stream travel, and when, between the
// two ends of a connection that may lose, repeat, delay and reorder chunks.
//
// All positions are absolute offsets in the stream. The receiver sends a credit
// (protocol.Credit): an offset, before which it needs nothing any more, and a
// window, the number of bytes behind that offset that may come. So a credit is
// receipt and permission in one, and repeating one does no harm. The sender sends
// nothing that no credit allows, but for the beginning of some streams. A chunk
// carries its offset; the receiver puts it where it belongs, or drops it.
//
// The package has two senders and two receivers, for the four places that move
// streams of bytes:
//
//   - The agent sends the output of commands with a [Sender] for each stream.
//     The first bytes go unasked. The coordinator alone decides when something
//     was lost, by asking for it again; the sender then decides whether the
//     bytes may still be on their way. It knows its connections: what an earlier
//     one carried and no credit covers is lost.
//   - The coordinator receives output with a [Collector]. It holds a head that
//     grows and, once the command has ended, perhaps a tail, with a gap between
//     them that were not asked for. It asks for what a client follows, else for
//     the head and the tail. What has arrived is not yet durable: it asks from
//     the durable offset on, because a credit lets the host forget.
//   - The coordinator sends the input of actions with a [Resender]: a Sender
//     that also sends again by itself, because a credit may be lost as well. It
//     measures how long a chunk and its credit take.
//   - The agent receives input with a [Receiver]. It takes chunks that follow
//     upon each other and nothing else, and hands them to a sink. It asks from
//     the offset on that the sink has taken.
//
// The code is pure: offsets and times go in, decisions come out. Nothing here
// reads a clock, waits, or copies a byte of a stream. No value is safe for
// concurrent use.
package window

import "time"

// Range is the bytes of a stream from From up to and without To.
type Range struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
}

// backoff is how long to wait before the next of several tries that had no
// answer: first, then twice as long after each, up to last.
func backoff(first, last time.Duration, tries int) time.Duration {
	return min(last, first<<min(tries, 5))
}

// asking is what a receiver remembers of its credits.
type asking struct {
	limit  int64 // the end of the credit that went furthest: bytes before it may come
	newest Range // the newest credit
	open   bool  // it may have reached the sender
	tries  int   // requests in a row without an answer
}

// ask notes a credit.
func (a *asking) ask(offset, window int64) {
	a.newest, a.open = Range{offset, offset + window}, true
	a.limit = max(a.limit, a.newest.To)
}

// covers reports whether the newest credit serves as well as one with this offset
// and window: it allows the next byte, and the other would end less than step
// behind it.
func (a *asking) covers(offset, window, step int64) bool {
	return a.open && offset >= a.newest.From && offset < a.newest.To && offset+window-a.newest.To < step
}
