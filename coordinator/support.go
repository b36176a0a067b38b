package coordinator

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

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
