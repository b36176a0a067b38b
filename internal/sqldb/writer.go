package sqldb

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hostler-io/hostler/internal/failpoint"
)

// Update runs fn on the writer's goroutine and returns after the commit: nil means
// that all of fn's effects are on disk, an error that none of them are (see ErrIO
// for the one doubt). An error of fn undoes fn alone and is returned as it is. A
// commit that fails, or a disk that does while any function of the batch runs,
// fails every function of the batch alike.
//
// fn may be run more than once for one call, so it has no effects but through tx
// and starts by resetting what it computes for the caller. It does no I/O, waits
// for nothing, and calls neither Update nor View: every other writer waits for it.
// A panic of fn undoes fn and continues in the caller as a [*PanicError].
//
// When ctx ends before fn was started, fn is not run and the cause of ctx is
// returned. Afterwards ctx no longer matters: the answer is waited for.
func (db *DB) Update(ctx context.Context, fn func(*Tx) error) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	u := &update{fn: fn, done: make(chan struct{})}
	if err := db.writer.queue.push(u); err != nil {
		return err
	}
	select {
	case <-u.done:
	case <-ctx.Done():
		if u.claim(abandoned) {
			return context.Cause(ctx)
		}
		<-u.done
	}
	if u.panicked != nil {
		panic(u.panicked)
	}
	return u.err
}

// update is one waiting call of Update.
type update struct {
	fn    func(*Tx) error
	state atomic.Int32

	// Set by the writer before done is closed.
	err      error
	panicked *PanicError
	done     chan struct{}
}

// The states of an update. It leaves waiting once.
const (
	waiting int32 = iota
	running
	abandoned
)

func (u *update) claim(state int32) bool { return u.state.CompareAndSwap(waiting, state) }

func (u *update) answer(err error) {
	u.err = err
	close(u.done)
}

// call runs the function. The caller's panic is kept for it; runtime.Goexit goes
// on and ends the writer.
func (u *update) call(tx *Tx) (err error) {
	defer func() {
		tx.ended = true
		if v := recover(); v != nil {
			u.panicked = &PanicError{Value: v, Stack: debug.Stack()}
			err = u.panicked
		}
	}()
	return u.fn(tx)
}

// queue holds the updates that wait, in order. It is as long as there are callers.
type queue struct {
	mu     sync.Mutex
	items  []*update
	closed bool
	wake   chan struct{} // holds a token when the writer has something to look at
}

func (q *queue) push(u *update) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return ErrClosed
	}
	q.items = append(q.items, u)
	q.signal()
	return nil
}

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.signal()
}

// pop returns the next update whose caller still waits, claimed for running, or
// nil. last reports that none will come any more.
func (q *queue) pop() (u *update, last bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.items) > 0 {
		u, q.items = q.items[0], q.items[1:]
		if u.claim(running) {
			return u, false
		}
	}
	q.items = nil
	return nil, q.closed
}

// writer owns the writing connection. The fields below queue belong to run, and
// to close after run has ended.
type writer struct {
	queue   queue
	stats   counters
	stopped chan struct{} // closed when run ends

	path   string
	cache  int
	used   *atomic.Uint64 // statements
	log    *slog.Logger
	undone func()
	renew  func() // renews the reading connections when nothing can be written
	max    int
	window time.Duration
	conn   *conn     // nil after a failed batch until the next one opens it again
	batch  []*update // ran in the open transaction, not yet answered
}

func newWriter(cfg Config, c *conn, used *atomic.Uint64, renew func()) *writer {
	c.used = used
	return &writer{
		queue:   queue{wake: make(chan struct{}, 1)},
		stopped: make(chan struct{}),
		path:    cfg.Path,
		cache:   cfg.CacheKiB,
		used:    used,
		log:     cfg.Log,
		undone:  cfg.Undone,
		renew:   renew,
		max:     cfg.MaxBatch,
		window:  cfg.BatchWindow,
		conn:    c,
		batch:   make([]*update, 0, cfg.MaxBatch),
	}
}

// drain ends the writer after it has answered everything that waits.
func (w *writer) drain() {
	w.queue.close()
	<-w.stopped
}

// close ends the connection; run must have ended.
func (w *writer) close() error {
	if w.conn == nil {
		return nil
	}
	return w.conn.close()
}

func (w *writer) run() {
	defer close(w.stopped)
	defer w.abort() // does nothing unless a function ended this goroutine
	for {
		u, last := w.queue.pop()
		switch {
		case u != nil:
			w.serve(u)
		case last:
			return
		default:
			<-w.queue.wake
		}
	}
}

// abort answers all callers when an update called runtime.Goexit, as t.FailNow
// does: it ends the goroutine and cannot be held up. The connection is dropped
// with its open transaction.
func (w *writer) abort() {
	w.queue.close()
	err := fmt.Errorf("%w: an update called runtime.Goexit", ErrClosed)
	if len(w.batch) > 0 {
		w.fail(err)
	}
	for u, _ := w.queue.pop(); u != nil; u, _ = w.queue.pop() {
		u.answer(err)
	}
}

// serve runs first and what waits behind it, commits once and answers all.
func (w *writer) serve(first *update) {
	started := time.Now()
	beginErr := w.begin()
	for u := first; u != nil; u = w.next(started) {
		w.batch = append(w.batch, u)
		if beginErr != nil {
			continue // who waits now need not wait for the same failure again
		}
		if err := w.step(u); err != nil {
			w.fail(err)
			return
		}
	}
	if beginErr != nil {
		w.fail(beginErr)
		return
	}
	if err := w.commit(); err != nil {
		w.fail(err)
		return
	}
	w.succeed()
}

// next returns the update that still fits into the batch, or nil.
func (w *writer) next(started time.Time) *update {
	if len(w.batch) >= w.max || time.Since(started) >= w.window {
		return nil
	}
	u, _ := w.queue.pop()
	if u == nil {
		// Callers that the last commit has answered may be about to come back; this
		// lets those that can run do so, and returns at once if there are none.
		runtime.Gosched()
		u, _ = w.queue.pop()
	}
	return u
}

// begin opens the transaction of a batch.
func (w *writer) begin() error {
	if w.conn == nil {
		c, err := connect(context.Background(), w.path, readWrite, w.cache)
		if err != nil {
			return fmt.Errorf("reopening the database: %w", classify(err))
		}
		c.used = w.used
		w.conn = c
		w.log.Warn("database connection replaced after a failed commit", "path", w.path)
	}
	if err := w.conn.run("BEGIN IMMEDIATE"); err != nil {
		return fmt.Errorf("beginning a batch: %w", err)
	}
	return nil
}

// step runs one function so that it can be undone alone. What it returns has ended
// the whole transaction; the function's own error is kept in u.
func (w *writer) step(u *update) error {
	// Before the first of a batch there is nothing to be kept, so it needs no
	// savepoint: most batches have one function.
	first := len(w.batch) == 1
	if !first {
		if err := w.conn.run("SAVEPOINT step"); err != nil {
			return fmt.Errorf("before an update: %w", err)
		}
	}
	tx := &Tx{ctx: context.Background(), conn: w.conn}
	u.err = u.call(tx)
	if tx.lost != nil {
		return fmt.Errorf("an update of the batch: %w", tx.lost)
	}
	if u.err != nil {
		w.undone()
	}
	var after []string
	switch {
	case first && u.err != nil:
		after = []string{"ROLLBACK", "BEGIN IMMEDIATE"}
	case first:
	case u.err != nil:
		after = []string{"ROLLBACK TO step", "RELEASE step"}
	default:
		after = []string{"RELEASE step"}
	}
	for _, query := range after {
		if err := w.conn.run(query); err != nil {
			return fmt.Errorf("after an update: %s: %w", query, err)
		}
	}
	return nil
}

// commit makes the batch durable.
func (w *writer) commit() error {
	failpoint.Before(failpoint.BatchCommitted)
	if err := w.conn.run("COMMIT"); err != nil {
		return fmt.Errorf("committing a batch: %w", err)
	}
	failpoint.After(failpoint.BatchCommitted)
	return nil
}

// succeed answers a batch that is durable.
func (w *writer) succeed() {
	w.stats.committed(w.batch)
	for _, u := range w.batch {
		close(u.done)
	}
	w.reset()
}

// fail answers a batch of which nothing is kept. The connection is not trusted
// again: closing it undoes whatever SQLite believes to be open.
func (w *writer) fail(err error) {
	if isReadOnly(err) {
		w.renew()
	}
	if w.conn != nil {
		err = errors.Join(err, w.conn.close())
		w.conn = nil
	}
	w.undone()
	w.stats.lost(w.batch)
	for _, u := range w.batch {
		u.answer(err)
	}
	w.reset()
}

func (w *writer) reset() {
	clear(w.batch) // the functions hold their callers' memory
	w.batch = w.batch[:0]
}

// counters is the live form of Stats.
type counters struct {
	mu    sync.Mutex
	stats Stats
}

func (c *counters) committed(batch []*update) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, u := range batch {
		if u.err != nil {
			c.stats.Failed++
		} else {
			c.stats.Updates++
		}
	}
	c.stats.Commits++
	c.stats.MaxBatch = max(c.stats.MaxBatch, uint64(len(batch)))
}

func (c *counters) lost(batch []*update) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.Failed += uint64(len(batch))
	c.stats.Lost++
}

func (c *counters) snapshot() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stats
}
