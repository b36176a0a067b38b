// Package loop is the one goroutine of an agent that decides, as its rooms see
// it: the turn in which they may touch their state, deadlines, work that is done
// beside it, and what it means that the disk takes nothing.
//
// A room's state belongs to the loop unless its type says otherwise: it changes
// in calls that the loop makes, and nowhere else. Work that waits is done by a
// worker ([Loop.Worker]), which comes back into the loop with what it found.
// Calls from other goroutines enter by [Ask].
package loop

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/protocol"
)

// ErrStopped tells that the agent is not running (any more).
var ErrStopped = errors.New("the agent is not running")

// RetryDisk is the pause until a disk that failed is tried again.
const RetryDisk = time.Second

// Config is what a loop is made from. All of it is required.
type Config struct {
	Boot   string           // names the present boot
	BootMS func() int64     // CLOCK_BOOTTIME in milliseconds
	Now    func() time.Time // the wall clock, which only people rely on
	Rand   io.Reader        // of jitter
	Log    *slog.Logger
}

// Loop is what the rooms share of the goroutine that owns them. Ask, Tell, Worker,
// Stopped and the clocks may be used by any goroutine; everything else belongs to
// the loop.
type Loop struct {
	cfg      Config
	started  time.Time
	calls    chan func()
	stopped  chan struct{} // closed when the loop has ended
	workers  sync.WaitGroup
	contexts contexts

	timers   []*Timer
	wake     *time.Timer
	disk     *Timer
	degraded string
	fatal    error
	stopping bool
	moved    bool // something that the metrics tell has changed
}

// contexts are those of one run.
type contexts struct {
	serving  context.Context // of what runs beside the loop
	work     context.Context // of operations on containers
	watching context.Context // of workers that only watch
	steps    context.Context // of the queue: never ends, steps are short
	endWork  context.CancelFunc
	endWatch context.CancelFunc
}

// New returns a loop. Nothing happens before Begin.
func New(cfg Config) *Loop {
	return &Loop{cfg: cfg, started: time.Now(), calls: make(chan func()), stopped: make(chan struct{})}
}

// Begin makes the contexts of a run. serving ends with what runs beside the loop;
// the others end by [Loop.Shutdown]. The returned function releases them.
func (l *Loop) Begin(ctx, serving context.Context) (release func()) {
	c := contexts{serving: serving, steps: context.WithoutCancel(ctx)}
	c.work, c.endWork = context.WithCancel(c.steps)
	c.watching, c.endWatch = context.WithCancel(c.steps)
	l.contexts = c
	return func() { c.endWork(); c.endWatch() }
}

// Serving is the context of goroutines that end with the agent.
func (l *Loop) Serving() context.Context { return l.contexts.serving }

// Work is the context of operations on containers: it ends when a shutdown has
// waited for long enough.
func (l *Loop) Work() context.Context { return l.contexts.work }

// Watching is the context of workers that only watch: it ends at once when the
// agent stops.
func (l *Loop) Watching() context.Context { return l.contexts.watching }

// Steps is the context of steps of the queue. It never ends.
func (l *Loop) Steps() context.Context { return l.contexts.steps }

// Calls are functions that wait to be run, each by [Loop.Call].
func (l *Loop) Calls() <-chan func() { return l.calls }

// Call runs a function that was waiting, and those that wait behind it, up to a
// bound.
func (l *Loop) Call(call func()) {
	call()
	for range 64 {
		select {
		case call := <-l.calls:
			call()
		default:
			return
		}
	}
}

// Worker runs do beside the loop and, if the loop is still there, what do returns
// inside it.
func (l *Loop) Worker(do func() func()) {
	l.workers.Go(func() {
		if then := do(); then != nil {
			l.Tell(then)
		}
	})
}

// Beside is Worker with a context that ends at once when the agent stops: of work
// that only watches.
func (l *Loop) Beside(do func(ctx context.Context) func()) {
	ctx := l.Watching()
	l.Worker(func() func() { return do(ctx) })
}

// Tell has the loop run a function, and reports whether it did.
func (l *Loop) Tell(call func()) bool {
	done := make(chan struct{})
	select {
	case l.calls <- func() { defer close(done); call() }:
		<-done
		return true
	case <-l.stopped:
		return false
	}
}

// Ask runs fn in the loop and returns what it returned, or [ErrStopped].
func Ask[T any](ctx context.Context, l *Loop, fn func() (T, error)) (T, error) {
	var (
		result T
		err    error
		done   = make(chan struct{})
	)
	call := func() { result, err = fn(); close(done) }
	select {
	case l.calls <- call:
	case <-l.stopped:
		return result, ErrStopped
	case <-ctx.Done():
		return result, context.Cause(ctx)
	}
	// The loop runs what it has taken before it ends.
	<-done
	return result, err
}

// Stopped is closed when the loop has ended.
func (l *Loop) Stopped() <-chan struct{} { return l.stopped }

// End marks the loop as ended. It is called once.
func (l *Loop) End() { close(l.stopped) }

// Stopping reports whether the agent is shutting down: nothing new begins.
func (l *Loop) Stopping() bool { return l.stopping }

// Shutdown ends the work that can be ended without harm and returns when it has
// ended: workers that watch end at once, operations on containers get until
// patience is over, and are taken up by the next process otherwise. after is
// called after each call that a worker has made.
func (l *Loop) Shutdown(patience time.Duration, after func()) {
	l.stopping = true
	ended := make(chan struct{})
	go func() { l.workers.Wait(); close(ended) }() // waited for below
	l.contexts.endWatch()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		select {
		case call := <-l.calls:
			call()
			after()
		case <-timer.C:
			l.contexts.endWork()
		case <-ended:
			return
		}
	}
}

// Now is the loop's own clock, which never stands still or goes back.
func (l *Loop) Now() time.Duration { return max(1, time.Since(l.started)) }

// WallMS is the wall clock in Unix milliseconds.
func (l *Loop) WallMS() int64 { return l.cfg.Now().UnixMilli() }

// BootMS is the boot clock in milliseconds.
func (l *Loop) BootMS() int64 { return l.cfg.BootMS() }

// When is the time of a step of the queue.
func (l *Loop) When() queue.Now {
	return queue.Now{WallMS: l.WallMS(), BootMS: l.BootMS(), Boot: l.cfg.Boot}
}

// Jitter is a random number in [0, 1).
func (l *Loop) Jitter() float64 {
	var b [2]byte
	if _, err := l.cfg.Rand.Read(b[:]); err != nil {
		return 0.5 // the spread of retries is no reason to fail
	}
	return float64(uint16(b[0])<<8|uint16(b[1])) / (1 << 16)
}

// Disk handles the error of a step of the queue. It reports whether the step was
// made; if not, the caller leaves everything as it was.
func (l *Loop) Disk(err error) bool {
	switch {
	case err == nil:
		return true
	case errors.Is(err, queue.ErrDisk):
		why := "the disk is full or failing"
		if errors.Is(err, queue.ErrAudit) {
			why = "the audit log of this host takes no records"
		}
		if l.degraded == "" {
			l.cfg.Log.Error(why+"; nothing new is accepted", "error", err)
		}
		l.degraded, l.moved = why, true
		if l.disk != nil {
			l.disk.In(RetryDisk)
		}
		return false
	case errors.Is(err, queue.ErrUnknown), errors.Is(err, queue.ErrExists), errors.Is(err, queue.ErrFull):
		return false // an answer, for the caller
	case errors.Is(err, protocol.ErrTransition):
		l.cfg.Log.Error("a step was not made", "error", err)
		return false
	}
	l.fatal = fmt.Errorf("the agent's queue: %w", err)
	return false
}

// OnDisk sets what tries the disk again while it fails. It is called once.
func (l *Loop) OnDisk(try func()) { l.disk = l.Timer(try) }

// Degraded says why nothing new is accepted; empty if all is well.
func (l *Loop) Degraded() string { return l.degraded }

// Mended notes that the disk works, and reports whether it did not before.
func (l *Loop) Mended() bool {
	if l.degraded == "" {
		return false
	}
	l.degraded = ""
	l.cfg.Log.Info("the disk and the audit log work again; new actions are accepted")
	return true
}

// Fatal is the error that makes it impossible to go on: a queue that is damaged.
func (l *Loop) Fatal() error { return l.fatal }

// Moved notes that something has changed that the metrics tell.
func (l *Loop) Moved() { l.moved = true }

// TakeMoved reports whether something has changed since it was last asked.
func (l *Loop) TakeMoved() bool {
	moved := l.moved
	l.moved = false
	return moved
}
