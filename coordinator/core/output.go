package core

import "github.com/hostler-io/hostler/protocol"

// OutputState tells which bytes of an output stream are in its file here.
type OutputState struct {
	Action  protocol.ActionID
	Attempt int
	FD      protocol.FD
	Have    int64 // bytes 0 to Have are held, but for those of Gone
	// Bytes TailFrom to TailTo are held as well; equal if there is no tail.
	TailFrom, TailTo int64
	// Gone are the bytes below Have that are not held any more, or never were
	// because their host had dropped them: in order, apart, at most maxGone.
	Gone []Range
	// RemovedMS is when all of it was removed; 0 while it is kept. Unix
	// milliseconds, for people.
	RemovedMS int64
}

// Range is the bytes of a stream from From up to and without To.
type Range struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
}

// Removed reports whether nothing of it is kept any more.
func (s OutputState) Removed() bool { return s.RemovedMS > 0 }

// Readable returns up to where bytes can be read from an offset on: the offset
// itself if it is not held. gone is then where what is gone there ends, or 0.
func (s OutputState) Readable(offset int64) (until, gone int64) {
	switch {
	case offset >= s.TailFrom && offset < s.TailTo:
		return s.TailTo, 0
	case offset >= s.Have:
		return offset, 0
	}
	until = s.Have
	for _, r := range s.Gone {
		if offset >= r.From && offset < r.To {
			return offset, r.To
		}
		if r.From > offset {
			until = min(until, r.From)
		}
	}
	return until, 0
}
