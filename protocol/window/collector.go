package window

import (
	"time"

	"github.com/hostler-io/hostler/protocol"
)

const (
	// renewed is how much further a credit goes than the one before it, unless
	// that is used up. A credit for each chunk would fill the way down of a slow
	// line.
	renewed = protocol.ChunkWindow / 8
	// keptHead and keptTail are how much of the beginning of a stream and of its
	// newest bytes is kept, as on its host. The rest is dropped in steps.
	keptHead = 32 << 20
	keptTail = 32 << 20
	keptStep = 1 << 20
	// What was asked for and did not come is asked for again after reaskFirst,
	// then after twice as long, up to reaskLast: on a slow line it is still on its
	// way, and asking takes the line's other direction.
	reaskFirst = 2 * time.Second
	reaskLast  = 64 * time.Second
	// followEvery is how often the sender hears that a client follows a command
	// that waits for its followers: three times within protocol.OutputPatience.
	followEvery = 10 * time.Second
)

// Collector is the receiving side of a stream of output, of which not all is
// wanted: what a client follows, and always its beginning and, once its end is
// known, its last bytes. Times are durations since any fixed point of one
// monotonic clock.
type Collector struct {
	asking
	held     Held             // durable
	arrived  Held             // with what is not durable yet
	tailFrom int64            // where a tail was asked to begin; 0 for none
	total    *protocol.Output // how much there is, once the command has ended
	whole    bool             // all of it is wanted when it has ended: a part is of no use
	begun    bool             // the command has, as far as is known
	lost     bool             // the sender has no more of what is missing
	askedAt  time.Duration    // of the newest credit that asks for bytes, or of the newest progress
	creditAt time.Duration    // of the newest credit
}

// NewCollector returns a collector of a stream of which that is durable. The first
// bytes of each stream come unasked.
func NewCollector(held Held, whole bool) Collector {
	return Collector{asking: asking{limit: protocol.OutputKept}, held: held, arrived: held, whole: whole}
}

// Held is what is durable.
func (c *Collector) Held() Held { return c.held }

// Arrived is what is here, durable or not.
func (c *Collector) Arrived() Held { return c.arrived }

// Total is how much there is of the stream; nil until its command has ended.
func (c *Collector) Total() *protocol.Output { return c.total }

// Lost reports whether the sender has no more of what is missing.
func (c *Collector) Lost() bool { return c.lost }

// Begin notes that the command has begun. Before, its host has nothing to say, and
// may forget that it was asked.
func (c *Collector) Begin() { c.begun = true }

// End notes how much there is of the stream of a command that has ended. What the
// host dropped, and nobody will ever send, then counts as held, once all before
// it is held.
func (c *Collector) End(total *protocol.Output) {
	c.total = total
	c.settle()
}

// Lose notes that nothing more will come.
func (c *Collector) Lose() { c.lost = true }

// Restore replaces what is here: less is there than was known.
func (c *Collector) Restore(held Held) { c.held, c.arrived = held, held }

// settle joins what follows upon the head with it.
func (c *Collector) settle() {
	if _, to, ok := Dropped(c.total, c.arrived.Have); ok {
		c.arrived.skip(to)
	}
	c.arrived.join()
}

// Dropped returns the range that the host dropped, if an offset is within it.
func Dropped(t *protocol.Output, offset int64) (from, to int64, within bool) {
	if t == nil || t.Dropped == 0 {
		return 0, 0, false
	}
	from, to = t.DropAt, t.DropAt+t.Dropped
	return from, to, offset >= from && offset < to
}

// Wants returns where the host should go on, and how many bytes from there. What
// is not durable yet is wanted still: a credit lets the host forget. ahead is up
// to where followers want the stream; 0 if there are none.
func (c *Collector) Wants(ahead int64) (offset, window int64) { return c.wantsBeyond(&c.held, ahead) }

// wantsBeyond returns what is wanted beyond what is held: all that is ahead of the
// followers, else the head and, once the end is known, the tail.
func (c *Collector) wantsBeyond(h *Held, ahead int64) (offset, window int64) {
	if c.lost || !c.begun {
		return h.Have, 0
	}
	if c.total == nil {
		return h.Have, clamp(ahead - h.Have)
	}
	to, end := ahead, c.total.Bytes
	headEnd, dropEnd := end, int64(0)
	if c.total.Dropped > 0 {
		headEnd, dropEnd = c.total.DropAt, c.total.DropAt+c.total.Dropped
	}
	if c.whole {
		to = end
	}
	if to = max(to, protocol.OutputKept); h.Have < min(headEnd, to) {
		return h.Have, clamp(to - h.Have)
	}
	from := max(h.Have, dropEnd)
	if ahead > 0 && from < to {
		to = min(to, end)
	} else {
		from, to = max(from, end-protocol.OutputKept), end
	}
	if h.tailed() && h.TailFrom <= from {
		from = max(from, h.TailTo)
	}
	return from, clamp(to - from)
}

func clamp(n int64) int64 { return min(max(n, 0), protocol.ChunkWindow) }

// Asked reports whether the newest credit asks for what is wanted, and may be on
// its way.
func (c *Collector) Asked(ahead int64) bool {
	offset, window := c.Wants(ahead)
	return window == 0 || c.covers(offset, window, renewed)
}

// Ask notes that a credit goes out now, and returns it. Without a window it says
// that a client follows a command that goes on; false if there is nothing to say
// at all.
func (c *Collector) Ask(ahead int64, now time.Duration) (offset, window int64, ok bool) {
	offset, window = c.Wants(ahead)
	c.creditAt = now
	if window > 0 {
		c.ask(offset, window)
		c.askedAt = now
		if offset > c.arrived.Have && !c.arrived.tailed() {
			c.tailFrom = offset
		}
	}
	return offset, window, window > 0 || c.begun && c.total == nil && ahead > 0
}

// Overdue reports whether to ask again: what was asked for did not come, or, if
// the command waits for its followers, it is time to say that there are some.
func (c *Collector) Overdue(ahead int64, waits bool, now time.Duration) bool {
	_, window := c.Wants(ahead)
	if window > 0 && now-c.askedAt >= backoff(reaskFirst, reaskLast, c.tries) {
		c.tries++
		return true
	}
	return waits && c.begun && c.total == nil && ahead > 0 && now-c.creditAt >= followEvery
}

// Reconnected notes that what was on its way is lost.
func (c *Collector) Reconnected() { c.open, c.tries = false, 0 }

// Judge says what a chunk of n bytes is. It changes nothing. Of one that is to be
// taken, the first keep bytes are to be written at the offset, and then given to
// Put with what will be here. A chunk is refused if it was repeated or if nobody
// asked for it.
func (c *Collector) Judge(offset, n int64) (then Held, keep int64, ok bool) {
	if t := c.total; t != nil && t.Dropped > 0 && offset < t.DropAt {
		n = min(n, t.DropAt-offset) // the host has zeros there
	}
	h, end := c.arrived, offset+n
	head := judge(h.Have, c.limit, offset, n)
	switch {
	case n > 0 && (head == Follows || head == Overlap):
		h.Have = end
	case h.tailed() && offset >= h.TailFrom && offset <= h.TailTo && end > h.TailTo && end <= c.limit:
		h.TailTo = end
	case !h.tailed() && c.tailFrom > 0 && offset == c.tailFrom && end <= c.limit:
		h.TailFrom, h.TailTo = offset, end
	default:
		return h, 0, false
	}
	return h, n, true
}

// Put notes that a chunk was written, which makes what is here that.
func (c *Collector) Put(then Held) {
	c.arrived, c.begun = then, true
	c.settle()
	c.arrived.shrink()
}

// Jump takes the host's word that a part of a stream is gone, from offset up to
// to. It reports whether that changes what is here.
func (c *Collector) Jump(offset, to int64) bool {
	if offset > c.arrived.Have || to <= c.arrived.Have || !c.open {
		return false
	}
	c.arrived.skip(to)
	c.settle()
	c.arrived.shrink()
	return true
}

// Nothing takes the host's word that it has nothing from offset on. Of a command
// that has not ended that means nothing yet.
func (c *Collector) Nothing(offset, ahead int64) {
	if wanted, window := c.wantsBeyond(&c.arrived, ahead); window > 0 && wanted == offset && c.total != nil {
		c.lost = true
	}
}

// Commit notes that what had arrived is durable now. More may have arrived
// meanwhile.
func (c *Collector) Commit(durable Held, now time.Duration) {
	c.held, c.tries, c.askedAt = durable, 0, now
}

// Undo forgets what arrived and could not be made durable. It is asked for again
// in its turn: asking at once would send the same chunk round and round for as
// long as the disk is full.
func (c *Collector) Undo(now time.Duration) { c.arrived, c.askedAt = c.held, now }
