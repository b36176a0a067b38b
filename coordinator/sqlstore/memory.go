package sqlstore

import (
	"maps"
	"slices"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/protocol"
)

// memory holds rows that almost every Update asks for, as the newest Update left them,
// and what the one that runs is to write at its end. The rows are the truth: an Update
// that is undone, or fails, empties the memory. Only Updates use it, which run one after
// the other; a View reads the rows of its own moment.
type memory struct {
	hosts   map[protocol.HostID]core.Host // their standing
	streams map[streamKey]core.StreamState
	values  map[string]value
	event   *uint64 // newest id
	asked   numbers

	// What the Update that runs writes at its end.
	records [][]byte
	events  []core.Event
	moved   map[streamKey]core.StreamState
}

// value is that of a name, or that there is none.
type value struct {
	b       []byte
	missing bool
}

type streamKey struct {
	host   protocol.HostID
	stream protocol.Stream
}

// numbers are a range of a counter that was set aside, from next to last. The range is
// empty if next is 0 or above last: counters begin with 1. Only the order of the numbers
// matters, so a restart skips the rest of the range.
type numbers struct{ next, last uint64 }

// Bounds of the memory: a fleet of ten thousand hosts fits.
const (
	maxRemembered = 50_000  // of each kind of row
	maxValue      = 4 << 10 // bytes; policies may be longer, and are then read each time
)

// forget empties the memory. It is called on the goroutine of Updates.
func (m *memory) forget() { *m = memory{} }

// remember keeps a row. One too many makes the others go: they are read again.
func remember[K comparable, V any](rows *map[K]V, key K, v V) {
	if *rows == nil || len(*rows) >= maxRemembered {
		*rows = make(map[K]V)
	}
	(*rows)[key] = v
}

// recall returns a row from memory if this is an Update which knows it, and reads it
// otherwise.
func recall[K comparable, V any](t tx, rows func(*memory) *map[K]V, key K, read func() (V, error)) (V, error) {
	if t.memory == nil {
		return read()
	}
	if v, ok := (*rows(t.memory))[key]; ok {
		return v, nil
	}
	v, err := read()
	if err == nil {
		remember(rows(t.memory), key, v)
	}
	return v, err
}

// settled is list for what an Update writes at its end.
func settled[T any](t tx, fields func(*T) []any, query string, args ...any) ([]T, error) {
	if err := t.settle(); err != nil {
		return nil, err
	}
	return list(t.db, fields, query, args...)
}

// settle writes what waits for the end of the Update: what reads those tables, or
// changes them otherwise, calls it first.
func (t tx) settle() error {
	m := t.memory
	if m == nil {
		return nil
	}
	err := insertAll(t.db, appendAudit, m.records, func(b *[]byte) []any { return []any{*b} })
	if err == nil {
		err = insertAll(t.db, appendEvent, m.events, eventFields)
	}
	if err == nil {
		err = insertAll(t.db, putStream, slices.Collect(maps.Values(m.moved)), streamFields)
	}
	clear(m.moved)
	m.records, m.events = nil, nil
	return err
}
