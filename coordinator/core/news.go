package core

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/hostler-io/hostler/protocol"
)

// News hands the newest state of actions to those who follow them. The zero
// value is ready.
type News struct {
	mu        sync.Mutex
	followers map[protocol.ActionID][]chan Action
	batches   []*BatchNews // few: each is a person who waits
}

// Follow returns a channel that holds the newest that was told of an action, and
// a function to call when it is not read any more. An action without an id
// says that it has changed and has to be read.
func (n *News) Follow(id protocol.ActionID) (<-chan Action, func()) {
	ch := make(chan Action, 1)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.followers == nil {
		n.followers = make(map[protocol.ActionID][]chan Action)
	}
	n.followers[id] = append(n.followers[id], ch)
	return ch, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		left := slices.DeleteFunc(n.followers[id], func(c chan Action) bool { return c == ch })
		if n.followers[id] = left; len(left) == 0 {
			delete(n.followers, id)
		}
	}
}

// Tell gives followers what has just become durable. One action's news are told
// in the order in which they did.
func (n *News) Tell(a Action) { n.put(a.ID, a) }

// Ask makes followers read the action.
func (n *News) Ask(id protocol.ActionID) { n.put(id, Action{}) }

// AskAll makes all followers read: many actions of a host have ended at once, for a
// reason that is rare.
func (n *News) AskAll() {
	n.mu.Lock()
	ids, batches := slices.Collect(maps.Keys(n.followers)), slices.Clone(n.batches)
	n.mu.Unlock()
	for _, f := range batches {
		f.noteAll()
	}
	for _, id := range ids {
		n.Ask(id)
	}
}

func (n *News) put(id protocol.ActionID, a Action) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, ch := range n.followers[id] {
		select {
		case <-ch: // it was not read yet
		default:
		}
		ch <- a
	}
	for _, f := range n.batches {
		if a.ID.IsZero() || a.Batch == f.batch {
			f.note(id, a)
		}
	}
}

// BatchNews collects the changes of the actions of a batch for one goroutine that
// follows them.
type BatchNews struct {
	news  *News
	batch protocol.BatchID

	mu      sync.Mutex
	changed map[protocol.ActionID]Action // zero: it has to be read
	all     bool                         // everything has to be read
	wake    chan struct{}                // has room for one
}

// FollowBatch begins to follow a batch.
func (n *News) FollowBatch(id protocol.BatchID) *BatchNews {
	f := &BatchNews{news: n, batch: id, changed: make(map[protocol.ActionID]Action), wake: make(chan struct{}, 1)}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.batches = append(n.batches, f)
	return f
}

// Close ends it.
func (f *BatchNews) Close() {
	n := f.news
	n.mu.Lock()
	defer n.mu.Unlock()
	n.batches = slices.DeleteFunc(n.batches, func(o *BatchNews) bool { return o == f })
}

// Next waits for changes and returns the actions that changed since, by id: a zero
// action has to be read, and so has the whole batch if all is true. An error is the
// cause of ctx.
func (f *BatchNews) Next(ctx context.Context) (changed map[protocol.ActionID]Action, all bool, err error) {
	select {
	case <-f.wake:
	case <-ctx.Done():
		return nil, false, context.Cause(ctx)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	changed, all = f.changed, f.all
	f.changed, f.all = make(map[protocol.ActionID]Action), false
	return changed, all, nil
}

func (f *BatchNews) note(id protocol.ActionID, a Action) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.changed[id] = a
	f.poke()
}

func (f *BatchNews) noteAll() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = true
	f.poke()
}

func (f *BatchNews) poke() {
	select {
	case f.wake <- struct{}{}:
	default: // it has been told
	}
}
