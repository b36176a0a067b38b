package window

import (
	"cmp"
	"slices"
)

// Held tells which bytes of a stream are here: a head, perhaps a tail, and the
// gaps in the head.
type Held struct {
	Have int64 // bytes 0 to Have are held, but for those of Gone
	// Bytes TailFrom to TailTo are held as well; equal if there is no tail.
	TailFrom, TailTo int64
	// Gone are the bytes below Have that are not held any more, or never were
	// because their sender had dropped them: in order, apart, at most maxGone.
	Gone []Range
}

// maxGone is how many gaps one stream is told to have. Of more, what lies between
// the first two is given up.
const maxGone = 8

// Readable returns up to where bytes can be read from an offset on: the offset
// itself if it is not held. gone is then where the gap ends that the offset is in,
// or 0.
func (h Held) Readable(offset int64) (until, gone int64) {
	switch {
	case offset >= h.TailFrom && offset < h.TailTo:
		return h.TailTo, 0
	case offset >= h.Have:
		return offset, 0
	}
	until = h.Have
	for _, r := range h.Gone {
		if offset >= r.From && offset < r.To {
			return offset, r.To
		}
		if r.From > offset {
			until = min(until, r.From)
		}
	}
	return until, 0
}

// tailed reports whether there is a tail.
func (h *Held) tailed() bool { return h.TailTo > h.TailFrom }

// skip goes on behind bytes that the sender no longer has.
func (h *Held) skip(to int64) {
	h.Gone = withGone(h.Gone, Range{h.Have, to})
	h.Have = to
}

// join lets the head go on behind the tail once it has reached it.
func (h *Held) join() {
	if h.tailed() && h.Have >= h.TailFrom {
		h.Have, h.TailFrom, h.TailTo = max(h.Have, h.TailTo), 0, 0
	}
}

// shrink gives up the middle of a head that is longer than is kept.
func (h *Held) shrink() {
	if to := (h.Have - keptTail) / keptStep * keptStep; to > keptHead {
		h.Gone = withGone(h.Gone, Range{keptHead, to})
	}
}

// withGone returns what is gone when a range is, too.
func withGone(gone []Range, more Range) []Range {
	all := append(slices.Clone(gone), more)
	slices.SortFunc(all, func(a, b Range) int { return cmp.Compare(a.From, b.From) })
	apart := all[:1]
	for _, r := range all[1:] {
		last := &apart[len(apart)-1]
		if r.From > last.To {
			apart = append(apart, r)
			continue
		}
		last.To = max(last.To, r.To)
	}
	for len(apart) > maxGone {
		apart[1].From = apart[0].From
		apart = apart[1:]
	}
	return apart
}
