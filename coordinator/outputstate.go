package coordinator

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"syscall"

	"github.com/hostler-io/hostler/protocol"
)

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

// maxGone is how many holes one stream is told to have. Of more, what lies
// between the first two is given up.
const maxGone = 8

// Removed reports whether nothing of it is kept any more.
func (s OutputState) Removed() bool { return s.RemovedMS > 0 }

// readable returns up to where bytes can be read from an offset on: the offset
// itself if it is not held. gone is then where what is gone there ends, or 0.
func (s OutputState) readable(offset int64) (until, gone int64) {
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

// punch gives back the space of what is gone now and was not before.
func punch(f *os.File, now, before []Range) error {
	for _, r := range now {
		for _, b := range before {
			if b.From == r.From {
				r.From = min(b.To, r.To)
			}
		}
		if r.From == r.To {
			continue
		}
		const hole = 0x1 | 0x2 // FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE
		if err := syscall.Fallocate(int(f.Fd()), hole, r.From, r.To-r.From); err != nil {
			return fmt.Errorf("punching %d bytes out of %s: %w", r.To-r.From, f.Name(), err)
		}
	}
	return nil
}
