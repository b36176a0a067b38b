package core

import (
	"errors"
	"math"
)

// eventBits are those of an event's id that count; the ones above are of the ring with
// which the newest recovery was made. 2^53, which JSON can carry, has room for two
// million of them.
const eventBits = 32

// EventsBegin returns the id behind which the events begin, those that are not kept any
// more included. newest is the newest id.
func EventsBegin(newest uint64) uint64 { return newest >> eventBits << eventBits }

// EventsRestart returns the id behind which the events begin after a recovery with a
// ring, if last was the newest before it.
func EventsRestart(last, ring uint64) uint64 {
	return max(EventsBegin(last)+1<<eventBits, ring<<eventBits)
}

// NewestSeal returns the newest seal, zero before the first.
func NewestSeal(tx Tx) (Seal, error) {
	s, err := tx.Audit.SealUpTo(math.MaxInt64)
	if errors.Is(err, ErrNotFound) {
		return Seal{}, nil
	}
	return s, err
}
