package relay

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"syscall"

	"github.com/hostler-io/hostler/coordinator/core"
)

// maxGone is how many holes one stream is told to have. Of more, what lies
// between the first two is given up.
const maxGone = 8

// withGone returns what is gone when a range is, too.
func withGone(gone []core.Range, more core.Range) []core.Range {
	all := append(slices.Clone(gone), more)
	slices.SortFunc(all, func(a, b core.Range) int { return cmp.Compare(a.From, b.From) })
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
func punch(f *os.File, now, before []core.Range) error {
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
