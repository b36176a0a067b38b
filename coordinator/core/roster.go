package core

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/hostler-io/hostler/protocol"
)

// Roster is what a room needs of each host for its looks at all of them. The hosts are read
// once, and kept from then on as they are put: to read the records of ten thousand hosts takes
// seconds of processor time. Its methods may be called from any goroutine.
type Roster[T any] struct {
	// Of is what is needed of a host. It is set before the first call.
	Of func(Host) T

	reading sync.Mutex // held while they are read

	mu    sync.Mutex
	known map[protocol.HostID]numbered[T] // nil: they are to be read
}

// numbered is what is kept of a host, and the number of its put; 0 if it was read.
type numbered[T any] struct {
	n uint64
	v T
}

// Put takes a host that [Watch] tells of.
func (k *Roster[T]) Put(n uint64, h Host, sure bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch old, there := k.known[h.ID]; {
	case k.known == nil:
	case !sure:
		k.known = nil
	case !there || old.n < n:
		k.known[h.ID] = numbered[T]{n, k.Of(h)}
	}
}

// Load takes the hosts that are stored, which read hands to a function one by one. What is put
// meanwhile is newer.
func (k *Roster[T]) Load(read func(func(Host) error) error) error {
	k.mu.Lock()
	mine := make(map[protocol.HostID]numbered[T])
	k.known = mine
	k.mu.Unlock()
	err := read(func(h Host) error {
		v := k.Of(h)
		k.mu.Lock()
		defer k.mu.Unlock()
		if _, there := mine[h.ID]; !there {
			mine[h.ID] = numbered[T]{0, v}
		}
		return nil
	})
	if err != nil {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.known = nil
	}
	return err
}

// All returns what is kept, by the ids of the hosts.
func (k *Roster[T]) All(ctx context.Context, base *Base) ([]T, error) {
	k.reading.Lock()
	defer k.reading.Unlock()
	for {
		if all, ok := k.sorted(); ok {
			return all, nil
		}
		if err := k.Load(func(each func(Host) error) error {
			return base.View(ctx, func(tx Tx) error { return EachHost(tx, each) })
		}); err != nil {
			return nil, err
		}
	}
}

// sorted returns what is kept; false if nothing is.
func (k *Roster[T]) sorted() (all []T, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	all = make([]T, 0, len(k.known))
	for _, id := range slices.Sorted(maps.Keys(k.known)) {
		all = append(all, k.known[id].v)
	}
	return all, k.known != nil
}
