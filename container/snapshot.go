package container

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Snapshotter is a runtime that keeps earlier states of the files of its containers. They
// go with their container.
type Snapshotter interface {
	// Snapshot keeps the files as they are now. Of a container that runs, files that
	// change meanwhile are kept as they are read, one after the other. One of that name
	// and key is nil, another one of that name ErrExists.
	Snapshot(ctx context.Context, name string, s Snapshot) error
	// Snapshots returns those that there are, in the order in which they were made.
	Snapshots(ctx context.Context, name string) ([]Snapshot, error)
	// Rollback gives a stopped container the files of a snapshot, which stays. One that
	// runs is ErrBusy. It may be done again.
	Rollback(ctx context.Context, name, snapshot string) error
	// DropSnapshot removes one; ErrNotFound if it is not there.
	DropSnapshot(ctx context.Context, name, snapshot string) error
}

// Historian is a runtime whose containers can take their snapshots to another host: it makes
// a container with those that stand in its image.
type Historian interface {
	Snapshotter
	// KeepsHistory reports whether its storage can, as far as that is known.
	KeepsHistory() bool
	// WithSnapshot calls do with the root directory of a container as it was at a snapshot.
	// The path holds until do returns, in this process. The owners are users of the host. There
	// being no such snapshot is ErrNotFound.
	WithSnapshot(ctx context.Context, name, snapshot string, do func(root string) error) error
}

// Snapshot is an earlier state of the files of a container.
type Snapshot struct {
	Name string `json:"name"`
	// Key is that of the action that has asked for it.
	Key string `json:"key,omitzero"`
	// Order counts the snapshots of a container, from 1. The clock may have jumped
	// between two; their order never does.
	Order uint64 `json:"order"`
	// MadeMS is when it was made, in Unix milliseconds of the host's clock.
	MadeMS  int64 `json:"made_ms"`
	Entries int   `json:"entries"`
	Bytes   int64 `json:"bytes"` // of its files, as they are shown
	// Shared tells that the file system shared the data with the container when it was
	// made, so that it took no room of its own.
	Shared bool `json:"shared,omitzero"`
	// Paused tells that the container did not run while it was made.
	Paused bool `json:"paused,omitzero"`
	// Scheduled tells that a schedule has made it, which may remove it, too.
	Scheduled bool `json:"scheduled,omitzero"`
	// Damaged tells that its record cannot be read, so that it cannot be used.
	Damaged bool `json:"damaged,omitzero"`
}

// Compare orders snapshots as they were made, damaged ones first.
func (s Snapshot) Compare(o Snapshot) int {
	return cmp.Or(cmp.Compare(s.Order, o.Order), strings.Compare(s.Name, o.Name))
}

// maxSnapshot is how long the name of a snapshot may be.
const maxSnapshot = 63

// CheckSnapshot reports what is wrong with the name of a snapshot, if anything.
func CheckSnapshot(name string) error {
	if name == "" || len(name) > maxSnapshot {
		return fmt.Errorf("the name of a snapshot has 1 to %d characters, not %d", maxSnapshot, len(name))
	}
	for i, c := range []byte(name) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case i > 0 && strings.IndexByte("-_.", c) >= 0:
		default:
			return fmt.Errorf("%q is no name of a snapshot: want letters, digits and, not at the beginning, any of ._-", name)
		}
	}
	return nil
}

// Surplus returns the snapshots that may go: all but the newest of each of the last days
// and of the last weeks that have one. The newest always stays, and so do those that are
// damaged.
//
// Days and weeks (UTC, from Monday) are counted, not reckoned from now, so a host that was
// off for a year loses nothing. What a clock that has jumped makes suspicious stays, and
// takes the place of no other snapshot: one dated after now, or before one that was made earlier.
func Surplus(all []Snapshot, days, weeks int, now time.Time) (gone []Snapshot) {
	all = slices.Clone(all)
	slices.SortFunc(all, Snapshot.Compare)
	var sound []Snapshot
	for _, s := range all {
		if s.Damaged || s.MadeMS > now.UnixMilli() || len(sound) > 0 && s.MadeMS < sound[len(sound)-1].MadeMS {
			continue
		}
		sound = append(sound, s)
	}
	keep := make(map[uint64]bool)
	newest := func(most int, of func(time.Time) string) {
		last := ""
		for _, s := range slices.Backward(sound) {
			if most == 0 {
				return
			}
			if bucket := of(time.UnixMilli(s.MadeMS).UTC()); bucket != last {
				keep[s.Order], last = true, bucket
				most--
			}
		}
	}
	newest(1, func(time.Time) string { return "any" })
	newest(days, func(t time.Time) string { return t.Format(time.DateOnly) })
	newest(weeks, func(t time.Time) string {
		year, week := t.ISOWeek()
		return fmt.Sprintf("%d-%d", year, week)
	})
	for _, s := range sound {
		if !keep[s.Order] {
			gone = append(gone, s)
		}
	}
	return gone
}
