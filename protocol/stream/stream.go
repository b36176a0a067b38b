// Package stream is how items arrive exactly once and in order over a broker
// that may lose, repeat, delay, reorder and invent messages.
//
// A stream belongs to one database (its store id) and one direction between
// one host and the coordinator. The sender gives each item a dense number,
// from 1, and keeps it in an outbox row until a receipt covers it. Items are
// chained: h_n = SHA-256(h_{n-1} ‖ SHA-256(item)), so that number and digest
// together name a whole history. The receiver commits the effect of item n and
// its own position (n, h_n) in one transaction and only then sends a receipt.
// A receipt is cumulative and frees what it covers, and nothing else.
//
// A receiver that says "I have n" with another digest than ours has another
// history: one of the two databases was rolled back or swapped. That is for
// the caller to act upon; nothing here forgets an item because of it.
//
// The code is pure: positions, times and random numbers go in, verdicts come
// out. Both sides keep the positions in their databases.
package stream

import (
	"crypto/sha256"
	"slices"
	"time"

	"github.com/hostler-io/hostler/protocol"
)

// Window is how many items may be under way without a receipt.
const Window = 64

// Link returns the chain digest of an item that follows prev; the first item
// follows the zero digest.
func Link(prev protocol.Digest, item []byte) protocol.Digest {
	sum := sha256.Sum256(item)
	return sha256.Sum256(append(prev[:], sum[:]...))
}

// Next returns the position of a new item behind p.
func Next(p protocol.Position, item []byte) protocol.Position {
	p.N++
	p.H = Link(p.H, item)
	return p
}

// Verdict is what a receiver does with an item.
type Verdict int

// The verdicts. The zero value is invalid.
const (
	Deliver   Verdict = iota + 1 // next in line: commit effect and position, then receipt
	Duplicate                    // had already: receipt again, no effect
	Gap                          // something before it is missing: drop it, receipt at once
	Foreign                      // of another store than the one in force: drop it
)

// Receive judges an item that came from store and has number n against what
// the receiver has durably.
func Receive(have protocol.Position, store protocol.StoreID, n uint64) Verdict {
	switch {
	case store != have.Store:
		return Foreign
	case n <= have.N:
		return Duplicate
	case n == have.N+1:
		return Deliver
	}
	return Gap
}

// Covers is what a sender concludes from a receipt.
type Covers int

// The conclusions. The zero value is invalid.
const (
	Frees   Covers = iota + 1 // rows up to the receipt's number may go
	Nothing                   // older than what is already free, or of another store
	Ahead                     // the receiver has more than was ever sent: we were rolled back
	Differs                   // same number, other history: one side was rolled back or swapped
)

// Receipt judges a receipt. sent is the newest item of the sender, freed the
// newest position that was already freed, and chain tells the digest of an
// item that is still in the outbox.
func Receipt(sent, freed, have protocol.Position, chain func(n uint64) (protocol.Digest, bool)) Covers {
	switch {
	case have.Store != sent.Store || have.N < freed.N:
		return Nothing
	case have.N > sent.N:
		return Ahead
	case have.N == freed.N:
		if have.H != freed.H {
			return Differs
		}
		return Nothing
	}
	if h, ok := chain(have.N); !ok || h != have.H {
		return Differs
	}
	return Frees
}

// Behind reports that a receiver has less than what it had receipted before:
// its database was rolled back, and the items in between are gone from the
// outbox. It proves that only of a position that cannot be an old one: that of
// a current hello, or of the first receipt of a new term. Any other may simply
// be late.
func Behind(freed, have protocol.Position) bool {
	return have.Store == freed.Store && have.N < freed.N
}

// Resend decides when items go out (again). The zero value is ready for a
// stream of which nothing was freed; otherwise tell it by Freed. It is not safe
// for concurrent use. Times are durations since any fixed point of one
// monotonic clock.
type Resend struct {
	low   uint64 // everything up to low is freed
	high  uint64 // everything up to high was sent on this connection
	tries int
	at    time.Duration // when the unreceipted are due again
}

// Delays between resends: 2 s, doubling to 60 s.
const (
	firstDelay = 2 * time.Second
	lastDelay  = time.Minute
)

// Connected forgets what was sent: on a new connection everything goes out at
// once.
func (r *Resend) Connected() { r.high, r.tries = r.low, 0 }

// Freed tells that a receipt covered everything up to n. Progress starts the
// delays anew.
func (r *Resend) Freed(n uint64, now time.Duration, jitter float64) {
	if n > r.low {
		r.low, r.tries = n, 0
		r.high = max(r.high, n)
		r.at = now + r.delay(jitter)
	}
}

// Due returns the first and last number to send now, none if first > last.
// newest is the newest item of the stream. jitter is a random number in
// [0, 1) that spreads the next resend.
func (r *Resend) Due(newest uint64, now time.Duration, jitter float64) (first, last uint64) {
	last = min(newest, r.low+Window)
	switch {
	case r.high > r.low && now >= r.at:
		first = r.low + 1
		r.tries++
	case last > r.high:
		first = r.high + 1
	default:
		return 1, 0
	}
	if first == r.low+1 {
		r.at = now + r.delay(jitter)
	}
	r.high = max(r.high, last)
	return first, last
}

// Wake returns when Due should be asked next; false if nothing waits for a
// receipt.
func (r *Resend) Wake() (time.Duration, bool) { return r.at, r.high > r.low }

// Idle reports that Due sends nothing, now and later, until there is an item beyond newest or
// a new connection.
func (r *Resend) Idle(newest uint64) bool { return r.high == r.low && newest <= r.low }

func (r *Resend) delay(jitter float64) time.Duration {
	d := lastDelay
	if r.tries < 5 {
		d = firstDelay << r.tries
	}
	// Half fixed, half random: a fleet that lost its broker does not come
	// back in step, and nothing is sent faster than the first delay's half.
	return d/2 + time.Duration(jitter*float64(d/2))
}

// Find returns the position of a stream in a list, the zero position if it is
// not there.
func Find(list []protocol.Position, s protocol.Stream) protocol.Position {
	if i := slices.IndexFunc(list, func(p protocol.Position) bool { return p.Stream == s }); i >= 0 {
		return list[i]
	}
	return protocol.Position{}
}
