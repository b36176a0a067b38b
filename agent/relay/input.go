package relay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hostler-io/hostler/agent/loop"
	"github.com/hostler-io/hostler/agent/wire"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/window"
)

// Numbers of what comes down.
const (
	// holdEvery is how often the connection is held open while a client reads
	// from it: more often than it would be closed for being idle.
	holdEvery = 10 * time.Second
	// holdSession is the same while a person types: a connection that was lost
	// is missed by a person, and not by a sender who tries again.
	holdSession = time.Second
	// maxFinished is how many streams are remembered that are over, to answer a
	// sender who has not heard of it.
	maxFinished = 256
	// maxArrived is how many bytes wait to be opened: all that was asked for, twice.
	// A broker that repeats chunks can fill no more of the memory.
	maxArrived = 2 * protocol.MaxInputWindow
)

// inputs are the streams that come down. Messages come from the link and are
// opened by a goroutine of their own, as each is a signature and a digest; each
// stream has one for its sink. The loop tells what they ask for.
type inputs struct {
	cfg       *Config
	terminals *terminals
	arrived   chan wire.Message
	waiting   atomic.Int64  // bytes in arrived, with what is being opened
	owed      chan struct{} // one place: credits wait to be told
	held      chan struct{} // one place: there is a stream, so there must be a connection
	wg        sync.WaitGroup

	mu       sync.Mutex
	streams  map[inputID]*inputStream
	finished map[inputID]int64 // the last credit
	again    map[inputID]bool  // finished ones whose credit is to be told again
}

type inputID struct {
	action  protocol.ActionID
	attempt int
}

func newInputs(cfg *Config, t *terminals) *inputs {
	return &inputs{cfg: cfg, terminals: t, arrived: make(chan wire.Message, 256), owed: make(chan struct{}, 1), held: make(chan struct{}, 1),
		streams: make(map[inputID]*inputStream), finished: make(map[inputID]int64), again: make(map[inputID]bool)}
}

// inputStream is one stream. All but what is made once is guarded by inputs.mu.
type inputStream struct {
	in    *inputs
	id    inputID
	sink  io.Writer
	size  int64 // of all
	quit  context.CancelFunc
	done  chan struct{}
	more  chan struct{} // one place: there is something in the queue
	err   error         // why it ended; read after done
	queue [][]byte
	gone  bool // nothing more comes: its sender does not have it
	due   bool // its credit is to be told
	sized bool // the window is known
	pacer pacer
	window.Receiver
}

// errInputOver is the end of a stream that has come to it.
var errInputOver = errors.New("the input is over")

// open begins to take what comes down for an attempt of an action, from an
// offset on: the sink has all before it, if need be from a process before this
// one. size is that of all of it, more than offset. The sink is written to by one
// goroutine: as long as it waits, its sender does; what it has taken is never sent
// again; an error ends the stream. open may be called from any goroutine; one
// stream of an attempt at a time.
func (i *inputs) open(id protocol.ActionID, attempt int, offset, size int64, sink io.Writer) *inputStream {
	ctx, quit := context.WithCancel(i.cfg.Loop.Serving())
	s := &inputStream{in: i, id: inputID{id, attempt}, sink: sink, size: size, quit: quit, done: make(chan struct{}), more: make(chan struct{}, 1),
		Receiver: window.NewReceiver(offset)}
	i.mu.Lock()
	i.streams[s.id] = s
	delete(i.finished, s.id)
	i.mu.Unlock()
	loop.Newest(i.held, struct{}{})
	i.wg.Go(func() {
		defer close(s.done)
		s.err = s.run(ctx)
		i.mu.Lock()
		defer i.mu.Unlock()
		if i.streams[s.id] == s {
			delete(i.streams, s.id)
		}
		if s.err == errInputOver {
			s.err = nil
			if len(i.finished) >= maxFinished {
				clear(i.finished)
			}
			i.finished[s.id], i.again[s.id] = s.Next(), true
			loop.Newest(i.owed, struct{}{})
		}
		quit()
	})
	return s
}

// wait waits for the end of the stream: nil if it came to its own.
func (s *inputStream) wait() error {
	<-s.done
	return s.err
}

// handle takes a message of the second connection. It never waits.
func (i *inputs) handle(topic string, payload []byte) {
	n := int64(len(payload))
	if i.waiting.Add(n) <= maxArrived {
		select {
		case i.arrived <- wire.Message{Topic: topic, Payload: payload}:
			return
		default:
		}
	}
	i.waiting.Add(-n)
	i.cfg.Traffic.Dropped()
}

// serve opens what comes.
func (i *inputs) serve(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case m := <-i.arrived:
			err := i.take(m)
			i.waiting.Add(-int64(len(m.Payload)))
			if err != nil {
				i.cfg.Traffic.Refused(err)
				i.cfg.Log.Debug("a chunk was refused", "error", err)
			}
		}
	}
}

// hold keeps the second connection open while a stream or a session needs it.
func (i *inputs) hold(ctx context.Context) {
	for {
		i.mu.Lock()
		wanted := len(i.streams) > 0
		i.mu.Unlock()
		wanted = wanted || i.terminals.any()
		var after <-chan time.Time
		if wanted {
			if err := i.cfg.Bulk.Connect(ctx); err != nil && ctx.Err() == nil {
				i.cfg.Log.Debug("the second connection is not held", "error", err)
			}
			pause := holdEvery
			if i.terminals.any() {
				pause = holdSession
			}
			after = time.After(pause)
		}
		select {
		case <-ctx.Done():
			return
		case <-after:
		case <-i.held:
		}
	}
}

// take opens one chunk and gives it to its stream. What does not follow upon
// what is there is dropped, and its sender told where to go on.
func (i *inputs) take(m wire.Message) error {
	msg, err := i.cfg.Wire.Open(m, i.cfg.Wire.Trust.Ring(), chunkGate{i.cfg.Numbers})
	if err != nil {
		return err
	}
	i.cfg.Traffic.Received(protocol.TypeIn)
	h := &msg.Header
	if h.FD == protocol.TTYInput {
		return i.terminals.take(msg)
	}
	id := inputID{h.Action, h.Attempt}
	i.mu.Lock()
	defer i.mu.Unlock()
	s := i.streams[id]
	switch {
	case s == nil:
		if _, over := i.finished[id]; over {
			i.again[id] = true
			loop.Newest(i.owed, struct{}{})
		}
	case s.gone || s.Judge(h.Offset, h.Size) != window.Follows:
		s.due = s.due || h.Offset < s.Next() // its sender knows less than it should
		loop.Newest(i.owed, struct{}{})
	default:
		s.took(msg.Attachment)
	}
	return nil
}

// took puts what came into the queue. It is called with mu held.
func (s *inputStream) took(data []byte) {
	s.Arrived(int64(len(data)))
	if len(data) == 0 {
		s.gone = true
	} else {
		s.queue = append(s.queue, data)
		s.pacer.arrived(s.Next(), time.Now())
	}
	loop.Newest(s.more, struct{}{})
}

// run brings what comes to the sink and asks for more.
func (s *inputStream) run(ctx context.Context) error {
	_, second, _, err := s.in.cfg.Bulk.Pace(ctx)
	if err != nil {
		return err
	}
	s.in.mu.Lock()
	s.pacer.begin(int64(second))
	s.sized = true
	s.in.mu.Unlock()
	s.ask()
	timer := time.NewTimer(s.patience())
	defer timer.Stop()
	for {
		timer.Reset(s.patience())
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-timer.C:
			s.askAgain()
			continue
		case <-s.more:
		}
		if err := s.drain(); err != nil {
			return err
		}
	}
}

// patience is how long nothing has to come until the stream asks again, or how
// long a credit may wait for company.
func (s *inputStream) patience() time.Duration {
	s.in.mu.Lock()
	defer s.in.mu.Unlock()
	return s.Patience()
}

func (s *inputStream) askAgain() {
	s.in.mu.Lock()
	s.Again()
	s.in.mu.Unlock()
	s.ask()
}

// ask has the loop tell how far the sink has come.
func (s *inputStream) ask() {
	s.in.mu.Lock()
	s.due = true
	s.in.mu.Unlock()
	loop.Newest(s.in.owed, struct{}{})
}

// drain brings the queue to the sink.
func (s *inputStream) drain() error {
	for {
		s.in.mu.Lock()
		var data []byte
		if len(s.queue) > 0 {
			data, s.queue = s.queue[0], s.queue[1:]
		}
		gone := s.gone
		s.in.mu.Unlock()
		switch {
		case data == nil && gone:
			return errNoPayload
		case data == nil:
			return nil
		}
		if n, err := s.sink.Write(data); err != nil {
			return fmt.Errorf("after %d bytes: %w", s.Have()+int64(n), err)
		}
		s.in.mu.Lock()
		late := s.Taken(int64(len(data)), s.window())
		over := s.Have() >= s.size
		s.in.mu.Unlock()
		switch {
		case over:
			return errInputOver
		case late:
			s.ask()
		}
	}
}

// window is how far its sender may be ahead. It is called with mu held.
func (s *inputStream) window() int64 {
	return max(min(s.pacer.window, protocol.MaxInputWindow/int64(max(1, len(s.in.streams)))), 2*protocol.LeastChunk)
}

// credits are what the streams ask for, once.
func (i *inputs) credits() (all []protocol.Credit) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for id, s := range i.streams {
		if !s.due || !s.sized || len(all) == maxCredits {
			continue
		}
		c := protocol.Credit{Action: id.action, Attempt: id.attempt, FD: protocol.Stdin, Offset: s.Have(), Window: s.window()}
		s.pacer.told(s.Next(), s.Limit(), time.Now())
		s.Ask(c.Window)
		s.due = false
		all = append(all, c)
	}
	for id := range i.again {
		if len(all) < maxCredits {
			all = append(all, protocol.Credit{Action: id.action, Attempt: id.attempt, FD: protocol.Stdin, Offset: i.finished[id]})
			delete(i.again, id)
		}
	}
	return all
}

// maxCredits is how many credits one message tells: with its positions it stays
// far below what a message may have.
const maxCredits = 64

// renew has every stream ask again: there is a new connection, and what the old
// one carried is lost.
func (i *inputs) renew() {
	i.mu.Lock()
	for _, s := range i.streams {
		s.due = true
	}
	some := len(i.streams) > 0
	i.mu.Unlock()
	if some {
		loop.Newest(i.owed, struct{}{})
	}
}

// chunkGate judges chunks: their offset, not their age, tells what is new, but they
// must be of the term that the loop has made durable.
type chunkGate struct{ numbers *wire.Numbers }

// Fresh takes every chunk.
func (chunkGate) Fresh(protocol.Topic, *protocol.Header) error { return nil }

// Term takes the term that the loop has made durable, and no other.
func (g chunkGate) Term(h *protocol.Header) error {
	if h.Term != g.numbers.Term() {
		return fmt.Errorf("%w: a chunk of term %d/%d", protocol.ErrTerm, h.Term.Ring, h.Term.Counter)
	}
	return nil
}
