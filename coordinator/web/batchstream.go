package web

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/coordinator"
	"github.com/hostler-io/hostler/coordinator/actions"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/coordinator/relay"
	"github.com/hostler-io/hostler/protocol"
)

// How many streams of output one reader of a batch has at a time, of commands
// that run and of those that have ended: each takes a buffer, and those that
// go on for days must not keep the others back.
const (
	liveStreams  = 256
	endedStreams = 64
)

// liveAfter is how long a command runs before its output is followed as it
// comes. What ends sooner has it asked for when it has ended, and only if there
// is some: most commands on many hosts write little or nothing.
const liveAfter = 250 * time.Millisecond

// batchStream tells one reader of a batch what happens. Its run is one
// goroutine; the readers of output, which it waits for, hand their pieces to it.
type batchStream struct {
	c      *coordinator.Coordinator
	f      *actions.BatchFollowing
	output bool

	ctx     context.Context
	stop    context.CancelCauseFunc
	work    sync.WaitGroup
	pieces  chan []byte   // rendered
	changes chan changes  // of the actions
	done    chan struct{} // one for each reader that has ended
	live    chan struct{} // has room for those of commands that run
	ended   chan struct{} // and for those of commands that have ended

	// Owned by run.
	parts   map[protocol.ActionID]*batchPart
	waiting int // parts that have not ended
	reading int // readers that have not ended
}

type changes struct {
	all []core.Action
	err error
}

// batchPart is what one action has come to.
type batchPart struct {
	action  core.Action // without its spec
	away    bool        // whether its host was away when this was told
	final   bool
	over    chan struct{} // closed when final
	since   time.Time     // when it was first seen to run
	readers map[protocol.FD]context.CancelCauseFunc
}

// errNoMore ends a reader that waits for output whose end will never be told.
var errNoMore = errors.New("the action has ended without telling what it wrote")

func newBatchStream(ctx context.Context, c *coordinator.Coordinator, f *actions.BatchFollowing, output bool) *batchStream {
	s := &batchStream{
		c: c, f: f, output: output,
		pieces: make(chan []byte), changes: make(chan changes), done: make(chan struct{}),
		live: make(chan struct{}, liveStreams), ended: make(chan struct{}, endedStreams),
		parts: make(map[protocol.ActionID]*batchPart),
	}
	s.ctx, s.stop = context.WithCancelCause(ctx)
	return s
}

// run writes until everything has ended and been told. first is how the actions
// stood at first.
func (s *batchStream) run(first []core.Action, write func([]byte) error) error {
	defer s.work.Wait()
	defer s.stop(nil)
	s.work.Go(s.listen)
	beat, look := time.NewTicker(heartbeat), time.NewTicker(liveAfter)
	defer beat.Stop()
	defer look.Stop()
	if err := s.take(first, write); err != nil {
		return err
	}
	for s.waiting > 0 || s.reading > 0 {
		var err error
		select {
		case <-s.ctx.Done():
			return context.Cause(s.ctx)
		case c := <-s.changes:
			if err = c.err; err == nil {
				err = s.take(c.all, write)
			}
		case b := <-s.pieces:
			err = write(b)
		case <-s.done:
			s.reading--
		case <-look.C:
			s.lookAtRunning()
			err = s.lookAtHosts(write)
		case <-beat.C:
			err = write([]byte(": \n\n"))
		}
		if err != nil {
			return err
		}
	}
	return write([]byte("event: end\ndata: {}\n\n"))
}

// listen hands on what changes.
func (s *batchStream) listen() {
	for {
		all, err := s.f.Next(s.ctx)
		select {
		case s.changes <- changes{all, err}:
		case <-s.ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// take tells of actions as they stand now, and has what they wrote read.
func (s *batchStream) take(all []core.Action, write func([]byte) error) error {
	var buf []byte
	for _, a := range all {
		b, err := batchEvent(s.c, a)
		if err != nil {
			return err
		}
		if buf = append(buf, b...); len(buf) > chunkBytes {
			if err := write(buf); err != nil {
				return err
			}
			buf = buf[:0]
		}
		s.follow(a)
	}
	if len(buf) == 0 {
		return nil
	}
	return write(buf)
}

// follow goes on with one action as it stands now.
func (s *batchStream) follow(a core.Action) {
	p := s.parts[a.ID]
	if p == nil {
		p = &batchPart{over: make(chan struct{}), readers: make(map[protocol.FD]context.CancelCauseFunc)}
		s.parts[a.ID] = p
		s.waiting++
	}
	p.action, p.away = a, s.c.Explain().Away(a.Host)
	p.action.Spec = nil
	if p.since.IsZero() && a.State == protocol.StateRunning {
		p.since = time.Now()
	}
	if !a.State.Final() || p.final {
		return
	}
	p.final = true
	close(p.over)
	s.waiting--
	told := make(map[protocol.FD]bool)
	for _, o := range a.Output {
		if told[o.FD] = true; o.Bytes > 0 {
			s.read(a.ID, p, o.FD)
		}
	}
	for fd, end := range p.readers {
		if !told[fd] {
			end(errNoMore)
		}
	}
}

// lookAtRunning follows the output of commands that run for a while.
func (s *batchStream) lookAtRunning() {
	now := time.Now()
	for id, p := range s.parts {
		if !p.final && !p.since.IsZero() && now.Sub(p.since) >= liveAfter {
			s.read(id, p, protocol.Stdout)
			s.read(id, p, protocol.Stderr)
		}
	}
}

// lookAtHosts tells again of what waits for a host that has gone away meanwhile, or
// has come back.
func (s *batchStream) lookAtHosts(write func([]byte) error) error {
	var all []core.Action
	for _, p := range s.parts {
		if !p.final && s.c.Explain().Away(p.action.Host) != p.away {
			all = append(all, p.action)
		}
	}
	return s.take(all, write)
}

// read starts to read a stream from its beginning, once, when there is room.
func (s *batchStream) read(id protocol.ActionID, p *batchPart, fd protocol.FD) {
	if p.readers[fd] != nil || !s.output {
		return
	}
	ctx, end := context.WithCancelCause(s.ctx)
	p.readers[fd] = end
	s.reading++
	s.work.Go(func() {
		defer end(nil)
		leave := s.room(ctx, p)
		s.copy(ctx, id, fd)
		leave()
		select {
		case s.done <- struct{}{}:
		case <-s.ctx.Done():
		}
	})
}

// room waits until a stream may be read, and returns what gives its place to the
// next. A stream that is to end gets none, for it will not wait.
func (s *batchStream) room(ctx context.Context, p *batchPart) (leave func()) {
	select {
	case s.live <- struct{}{}:
		return func() { <-s.live }
	case <-p.over:
	case <-ctx.Done():
	}
	select {
	case s.ended <- struct{}{}:
		return func() { <-s.ended }
	case <-ctx.Done():
	}
	return func() {}
}

// copy hands on a stream, over what was left out of it, until its end.
func (s *batchStream) copy(ctx context.Context, id protocol.ActionID, fd protocol.FD) {
	offset := int64(0)
	emit := func(b []byte) error {
		piece, err := sse("output", api.BatchOutput{Action: id.String(), FD: string(fd), Offset: offset, Data: b})
		if err != nil {
			return err
		}
		select {
		case s.pieces <- piece:
			offset += int64(len(b))
			return nil
		case <-s.ctx.Done():
			return context.Cause(s.ctx)
		}
	}
	for follow := true; ; {
		span, err := s.c.Relay().Output.Read(ctx, relay.Reading{Action: id, FD: fd, Offset: offset, Follow: follow}, emit)
		switch {
		case err != nil && errors.Is(context.Cause(ctx), errNoMore):
			ctx, follow = s.ctx, false // the rest of what is here
		case err != nil || span.Next < 0 || !follow && span.Next <= offset:
			return // an output that cannot be read is shorter than the action says
		default:
			offset = span.Next
		}
	}
}
