package sqldb

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
)

// View runs fn in a transaction that only reads: all its statements see the
// database as it was at the first of them, whatever is committed meanwhile. It
// waits for one of Config.Readers connections. When ctx ends, the waiting and the
// statements end with its error. fn's error is returned as it is.
//
// fn may take its time, but the log cannot shrink behind a View that runs.
func (db *DB) View(ctx context.Context, fn func(*Tx) error) error {
	c, err := db.views.acquire(ctx)
	if err != nil {
		return err
	}
	healthy := false // also after a panic: the connection is then closed
	defer func() { db.views.release(c, healthy) }()
	if err := c.run("BEGIN"); err != nil {
		return fmt.Errorf("beginning a view: %w", err)
	}
	tx := &Tx{ctx: ctx, conn: c}
	defer func() { tx.ended = true }()
	err = fn(tx)
	// Nothing was written, and a rollback works in the middle of a statement.
	healthy = c.run("ROLLBACK") == nil
	return err
}

// readers is the pool of reading connections. They are opened when needed.
type readers struct {
	path  string
	cache int
	used  *atomic.Uint64 // statements
	slots chan struct{}  // one token for each View that runs
	done  chan struct{}  // closed by close

	mu     sync.Mutex
	idle   []*conn
	age    uint64 // of the connections that are opened now
	closed bool
}

func newReaders(cfg Config, used *atomic.Uint64) *readers {
	return &readers{path: cfg.Path, cache: cfg.CacheKiB, used: used, slots: make(chan struct{}, cfg.Readers), done: make(chan struct{})}
}

func (r *readers) acquire(ctx context.Context) (*conn, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	select {
	case r.slots <- struct{}{}:
	case <-r.done:
		return nil, ErrClosed
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	c, err := r.pick(ctx)
	if err != nil {
		<-r.slots
		return nil, err
	}
	return c, nil
}

func (r *readers) pick(ctx context.Context) (*conn, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, ErrClosed
	}
	if last := len(r.idle) - 1; last >= 0 {
		c := r.idle[last]
		r.idle = r.idle[:last]
		return c, nil
	}
	c, err := connect(ctx, r.path, readOnly, r.cache)
	if err != nil {
		return nil, fmt.Errorf("opening a reading connection: %w", classify(err))
	}
	c.used, c.age = r.used, r.age
	return c, nil
}

func (r *readers) release(c *conn, healthy bool) {
	r.mu.Lock()
	keep := healthy && c.age == r.age
	if keep {
		r.idle = append(r.idle, c)
	}
	r.mu.Unlock()
	if !keep {
		_ = c.close() // it only read; what failed was told to its View
	}
	<-r.slots
}

// renew closes each connection when no View uses it, and has others opened. All
// connections of a process share the index of the log as the first of them could open
// it: one that was opened while nothing could be written would keep the writer from
// writing for as long as it lives.
func (r *readers) renew() {
	r.mu.Lock()
	old := r.idle
	r.idle = nil
	r.age++
	r.mu.Unlock()
	for _, c := range old {
		_ = c.close() // it only read
	}
}

// close refuses new Views, waits for those that run, and closes the connections.
func (r *readers) close() error {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	close(r.done)
	for range cap(r.slots) {
		r.slots <- struct{}{}
	}
	var errs []error
	for _, c := range r.idle {
		errs = append(errs, c.close())
	}
	return errors.Join(errs...)
}
