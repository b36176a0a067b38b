package core

import (
	"context"
	"sync"
	"time"
)

// Every calls a step now and at each interval until ctx ends. A step that fails is tried
// again at the next one.
func (b *Base) Every(ctx context.Context, interval time.Duration, failed string, step func(context.Context) error) error {
	t := time.NewTicker(interval)
	defer t.Stop()
	for {
		if err := step(ctx); err != nil && ctx.Err() == nil {
			b.Log.ErrorContext(ctx, failed, "err", err)
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return nil
		}
	}
}

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
