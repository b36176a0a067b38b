package core

import "sync"

// Hub wakes those who wait for a change of something named by a key.
type Hub struct {
	mu      sync.Mutex
	waiters map[any]*waiters
}

type waiters struct {
	ch chan struct{}
	n  int
}

// On returns a channel that is closed at the next Fire of key, and a function
// to call when the channel is not read any more. It must be asked before
// the state is read, so that no change falls in between.
func (h *Hub) On(key any) (<-chan struct{}, func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.waiters == nil {
		h.waiters = make(map[any]*waiters)
	}
	w, ok := h.waiters[key]
	if !ok {
		w = &waiters{ch: make(chan struct{})}
		h.waiters[key] = w
	}
	w.n++
	return w.ch, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		// A key that is never fired again must not stay for ever.
		if w.n--; w.n == 0 && h.waiters[key] == w {
			delete(h.waiters, key)
		}
	}
}

// Fire wakes all that wait for a change of one of the keys.
func (h *Hub) Fire(keys ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, key := range keys {
		if w, ok := h.waiters[key]; ok {
			close(w.ch)
			delete(h.waiters, key)
		}
	}
}

// EventsKey is the key of a [Hub] for "there are new events".
type EventsKey struct{}
