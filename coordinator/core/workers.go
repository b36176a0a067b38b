package core

import "sync"

// Workers are goroutines that end by themselves and that their owner waits for in
// the end. The zero value is ready.
type Workers struct {
	mu     sync.Mutex
	closed bool
	all    sync.WaitGroup
}

// Start runs fn on a goroutine of its own. It reports false once Close was
// called: nothing begins any more.
func (w *Workers) Start(fn func()) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		w.all.Go(fn)
	}
	return !w.closed
}

// Close lets nothing begin any more and waits for what runs.
func (w *Workers) Close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.all.Wait()
}
