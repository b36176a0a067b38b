package coordinator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/protocol"
)

// Stats counts what happened since the start. It is safe for concurrent use.
type Stats struct {
	received  atomic.Uint64
	published atomic.Uint64
	dropped   atomic.Uint64
	mu        sync.Mutex
	refused   map[protocol.Code]uint64
}

// Counts is a snapshot of Stats.
type Counts struct {
	Received  uint64                   // messages that came in
	Published uint64                   // messages that went out
	Dropped   uint64                   // messages dropped because a host's queue was full
	Refused   map[protocol.Code]uint64 // messages refused, by reason; every code is present
}

// Stats returns what was counted since the start.
func (c *Coordinator) Stats() Counts {
	s := &c.stats
	n := Counts{
		Received: s.received.Load(), Published: s.published.Load(), Dropped: s.dropped.Load(),
		Refused: make(map[protocol.Code]uint64),
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, code := range protocol.Codes() {
		n.Refused[code] = s.refused[code]
	}
	return n
}

// refuse counts a refused message under its code.
func (s *Stats) refuse(err error) protocol.Code {
	code, ok := errors.AsType[protocol.Code](err)
	if !ok {
		code = protocol.ErrPayload
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refused == nil {
		s.refused = make(map[protocol.Code]uint64)
	}
	s.refused[code]++
	return code
}

// refusalLog writes at most one line a second about refused messages, so that
// a flood of forgeries cannot fill a disk.
type refusalLog struct {
	log  *slog.Logger
	boot func() int64
	mu   sync.Mutex
	next int64
	held uint64
}

func (r *refusalLog) init(log *slog.Logger, boot func() int64) { r.log, r.boot = log, boot }

func (r *refusalLog) add(topic string, code protocol.Code, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := r.boot(); now < r.next {
		r.held++
		return
	} else {
		r.next = now + 1000
	}
	r.log.Warn("message refused", "topic", fmt.Sprintf("%.100q", topic), "code", string(code), "more", r.held, "err", err)
	r.held = 0
}

// news hands the newest state of actions to those who follow them. The zero
// value is ready.
type news struct {
	mu        sync.Mutex
	followers map[protocol.ActionID][]chan core.Action
	batches   []*BatchFollowing // few: each is a person who waits
}

func (n *news) followBatch(f *BatchFollowing) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.batches = append(n.batches, f)
}

func (n *news) leaveBatch(f *BatchFollowing) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.batches = slices.DeleteFunc(n.batches, func(o *BatchFollowing) bool { return o == f })
}

// follow returns a channel that holds the newest that was told of an action, and
// a function to call when nobody looks at it any more. An action without an id
// says that it has changed and has to be read.
func (n *news) follow(id protocol.ActionID) (<-chan core.Action, func()) {
	ch := make(chan core.Action, 1)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.followers == nil {
		n.followers = make(map[protocol.ActionID][]chan core.Action)
	}
	n.followers[id] = append(n.followers[id], ch)
	return ch, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		left := slices.DeleteFunc(n.followers[id], func(c chan core.Action) bool { return c == ch })
		if n.followers[id] = left; len(left) == 0 {
			delete(n.followers, id)
		}
	}
}

// tell gives followers what has just become durable. One action's news are told
// in the order in which they did.
func (n *news) tell(a core.Action) { n.put(a.ID, a) }

// ask makes followers read the action.
func (n *news) ask(id protocol.ActionID) { n.put(id, core.Action{}) }

// askAll makes everybody read: many actions of a host have ended at once, for a
// reason that is rare.
func (n *news) askAll() {
	n.mu.Lock()
	ids, batches := slices.Collect(maps.Keys(n.followers)), slices.Clone(n.batches)
	n.mu.Unlock()
	for _, f := range batches {
		f.noteAll()
	}
	for _, id := range ids {
		n.ask(id)
	}
}

func (n *news) put(id protocol.ActionID, a core.Action) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, ch := range n.followers[id] {
		select {
		case <-ch: // nobody has looked at it yet
		default:
		}
		ch <- a
	}
	for _, f := range n.batches {
		if a.ID.IsZero() || a.Batch == f.id {
			f.note(id, a)
		}
	}
}

// workers are goroutines that end by themselves and that the Coordinator waits
// for in the end. The zero value is ready.
type workers struct {
	mu     sync.Mutex
	closed bool
	all    sync.WaitGroup
}

// start runs fn on a goroutine of its own. It reports false once close was
// called: nothing begins any more.
func (w *workers) start(fn func()) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		w.all.Go(fn)
	}
	return !w.closed
}

// close lets nothing begin any more and waits for what runs.
func (w *workers) close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.all.Wait()
}

// update runs one step of the crash table in a transaction of its own. Effects
// follow after it has returned nil.
func (c *Coordinator) update(ctx context.Context, step failpoint.Step, fn func(core.Tx) error) error {
	return core.Update(ctx, c.cfg.Store, step, fn)
}
