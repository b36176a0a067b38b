package window

import "time"

// Verdict is what a receiver does with a chunk.
type Verdict int

// The verdicts. The zero value is invalid.
const (
	Follows Verdict = iota + 1 // it begins where the stream has come to: take it
	Overlap                    // its first bytes are here already, its last are not
	Repeat                     // all of it is here already
	Gap                        // something before it is missing
	Beyond                     // no credit allows it
)

// judge compares the n bytes from offset on with a stream of which all before next
// is here and all before limit may come.
func judge(next, limit, offset, n int64) Verdict {
	end := offset + n
	switch {
	case offset > next:
		return Gap
	case offset < next && end <= next:
		return Repeat
	case end > limit:
		return Beyond
	case offset < next:
		return Overlap
	}
	return Follows
}

// Receiver is the receiving side of a stream that is taken in order by a sink.
type Receiver struct {
	asking
	next int64 // all before it has arrived
	have int64 // the sink has taken all before it
}

const (
	// askFirst and askLast are the pauses until a Receiver asks again for what did
	// not come.
	askFirst = 2 * time.Second
	askLast  = time.Minute
	// askSoon is how long a credit waits for more company when little has come.
	askSoon = 50 * time.Millisecond
)

// NewReceiver returns a receiver whose sink has all before offset.
func NewReceiver(offset int64) Receiver {
	return Receiver{asking: asking{limit: offset}, next: offset, have: offset}
}

// Next is the offset up to which all has arrived.
func (r *Receiver) Next() int64 { return r.next }

// Have is the offset up to which the sink has taken all.
func (r *Receiver) Have() int64 { return r.have }

// Limit is how far credits have allowed.
func (r *Receiver) Limit() int64 { return r.limit }

// Judge says what a chunk of n bytes is. It changes nothing.
func (r *Receiver) Judge(offset, n int64) Verdict { return judge(r.next, r.limit, offset, n) }

// Arrived takes the n bytes of a chunk that follows.
func (r *Receiver) Arrived(n int64) { r.next, r.tries = r.next+n, 0 }

// Taken notes that the sink has taken n more bytes. It reports whether a credit is
// due now, with a window of that size.
func (r *Receiver) Taken(n, window int64) (due bool) {
	r.have += n
	return !r.covers(r.have, window, window/4)
}

// Ask notes a credit, which has the offset of Have.
func (r *Receiver) Ask(window int64) { r.ask(r.have, window) }

// behind reports whether the sink has come further than the newest credit says.
func (r *Receiver) behind() bool { return r.open && r.have > r.newest.From }

// Patience is how long a receiver to which nothing comes waits until it asks
// again.
func (r *Receiver) Patience() time.Duration {
	if r.behind() {
		return askSoon
	}
	return backoff(askFirst, askLast, r.tries)
}

// Again notes that Patience has passed, and the receiver asks once more.
func (r *Receiver) Again() {
	if !r.behind() {
		r.tries++
	}
}
