package wire

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hostler-io/hostler/internal/throttle"
	"github.com/hostler-io/hostler/protocol"
)

// Stats counts messages since the start. It is safe for concurrent use.
type Stats struct {
	received  atomic.Uint64
	published atomic.Uint64
	dropped   atomic.Uint64
	log       *slog.Logger
	boot      func() int64   // milliseconds on the boot clock
	refusals  throttle.Lines // so that a flood of forgeries cannot fill a disk
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

// Counts returns what was counted since the start.
func (s *Stats) Counts() Counts {
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

// Received counts a message that came in.
func (s *Stats) Received() { s.received.Add(1) }

// Dropped counts a message that was dropped because a host's queue was full.
func (s *Stats) Dropped() { s.dropped.Add(1) }

// Refuse counts and logs a message of a topic that was refused. It returns err,
// which may be nil.
func (s *Stats) Refuse(topic string, err error) error {
	if err == nil {
		return nil
	}
	s.Count(err)
	if skipped, ok := s.refusals.Pass(time.Duration(s.boot()) * time.Millisecond); ok {
		s.log.Warn("message refused", "topic", fmt.Sprintf("%.100q", topic), "code", string(CodeOf(err)), "more", skipped, "err", err)
	}
	return err
}

// CodeOf is the code under which a refusal is counted.
func CodeOf(err error) protocol.Code {
	if code, ok := errors.AsType[protocol.Code](err); ok {
		return code
	}
	return protocol.ErrPayload
}

// Count counts a refusal under its code.
func (s *Stats) Count(err error) {
	code := CodeOf(err)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refused == nil {
		s.refused = make(map[protocol.Code]uint64)
	}
	s.refused[code]++
}
