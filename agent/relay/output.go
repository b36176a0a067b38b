package relay

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"sync"
	"time"

	"github.com/hostler-io/hostler/agent/commands"
	"github.com/hostler-io/hostler/agent/loop"
	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/window"
)

// Numbers of output on its way up.
const (
	// coalesce is how far two chunks of one action are apart at least, so that a
	// command that writes byte by byte makes no message of each. The first byte
	// after a pause goes at once. On a slow line it is the time that a chunk
	// takes, up to maxCoalesce: what is written meanwhile shares the next.
	coalesce    = 4 * time.Millisecond
	maxCoalesce = time.Second
	// leastChunk is the most that one chunk carries on the slowest line; on any
	// other, what passes in a second. Its envelope is three quarters of that.
	leastChunk = 1 << 10
	envelope   = 750
	// overdue is how long what was sent may be late until asking for it once
	// more means that it was lost.
	overdue = time.Second
	// maxReading is how many chunks are in memory at a time.
	maxReading = 8
	// maxSenders bounds how many ended actions are read back at a time. A reader
	// that is not served asks again.
	maxSenders = 64
	// linger is how long the sender of an ended command waits for more credit,
	// beyond the time that what it sent is on its way.
	// Credit that comes later begins another: of hundreds of commands a second
	// few are asked about.
	linger = time.Second
)

// outputs sends what commands write. Each action has one goroutine, which the
// loop feeds with credit: a connection that is slow, or none, delays that alone.
// The maps belong to the loop.
type outputs struct {
	cfg     *Config
	senders map[protocol.ActionID]*sender
	// early are credits for commands that have not begun, by stream.
	early   map[protocol.ActionID][len(commands.Streams)]protocol.Credit
	reading chan struct{} // one place for each chunk in memory
	buffers sync.Pool     // of *chunkBuffer, for large chunks
	wg      sync.WaitGroup
}

// chunkBuffer holds the largest chunk and its envelope.
type chunkBuffer [protocol.SealRoom + protocol.ChunkSize]byte

// poolable is from which size on a chunk is read into a buffer of the pool.
const poolable = 64 << 10

// buffer returns room for a chunk of n bytes and its envelope, and what gives it
// back; nil if it is not to be.
func (o *outputs) buffer(n int64) (buf []byte, back func()) {
	if n < poolable {
		return make([]byte, protocol.SealRoom+n), nil
	}
	b, ok := o.buffers.Get().(*chunkBuffer)
	if !ok {
		b = new(chunkBuffer)
	}
	return b[:protocol.SealRoom+n], func() { o.buffers.Put(b) }
}

func newOutputs(cfg *Config) *outputs {
	return &outputs{cfg: cfg, senders: make(map[protocol.ActionID]*sender), early: make(map[protocol.ActionID][len(commands.Streams)]protocol.Credit),
		reading: make(chan struct{}, maxReading)}
}

// begin sends the beginning of each stream of a command unasked, and what was
// asked for before it began.
func (o *outputs) begin(id protocol.ActionID, at Standing) {
	o.start(&sender{outputs: o, id: id, attempt: at.Attempt, run: at.Run, acks: at.Acks}, protocol.OutputKept)
	early := o.early[id]
	delete(o.early, id)
	for _, c := range early {
		if c.Attempt == at.Attempt && c.Window > 0 {
			o.credit(c)
		}
	}
}

// credit goes on at an offset, or begins again there if what was sent beyond it was
// lost. A credit that comes before its command has begun waits for that: it would
// not be repeated for long.
func (o *outputs) credit(c protocol.Credit) {
	s := o.senders[c.Action]
	if s == nil || s.attempt != c.Attempt {
		at, open := o.cfg.find(c.Action)
		if at.Closed {
			return // nothing is said of it while it lasts
		}
		if open && at.Run == nil {
			early := o.early[c.Action]
			early[commands.Index(c.FD)] = c
			o.early[c.Action] = early
			return
		}
		if len(o.senders) >= o.cfg.Senders+maxSenders || o.cfg.RunDirs == nil {
			return
		}
		s = &sender{outputs: o, id: c.Action, attempt: c.Attempt, past: !open}
		if open && at.Attempt == c.Attempt {
			s.run, s.acks = at.Run, at.Acks
		}
		o.start(s, 0)
	}
	if s.acks != nil && c.FD != protocol.Recording {
		s.acks.Credit(c) // at once: a chunk that waits for its line does not hold it up
	}
	loop.Newest(s.credits[commands.Index(c.FD)], c)
}

func (o *outputs) start(s *sender, unasked int64) {
	for i, fd := range commands.Streams {
		s.credits[i] = make(chan protocol.Credit, 1)
		s.streams[i] = outStream{fd: fd}
		if fd != protocol.Recording {
			s.streams[i].Sender = window.NewSender(unasked)
		}
	}
	if before := o.senders[s.id]; before != nil {
		close(before.quit)
	}
	s.quit = make(chan struct{})
	o.senders[s.id] = s
	o.wg.Go(func() {
		s.serve(o.cfg.Loop.Serving())
		s.close()
		o.cfg.Loop.Tell(func() { o.ended(s) })
	})
}

// ended forgets a sender, unless credit came while it was ending.
func (o *outputs) ended(s *sender) {
	if o.senders[s.id] != s {
		return
	}
	delete(o.senders, s.id)
	for _, c := range s.credits {
		select {
		case newest := <-c:
			o.credit(newest)
		default:
		}
	}
}

// sender sends the output of one action. All but the channels and what is said
// otherwise belongs to its goroutine.
type sender struct {
	outputs *outputs
	id      protocol.ActionID
	attempt int
	run     commands.Run           // nil for one that has ended
	acks    *commands.Acknowledged // likewise
	past    bool                   // the action has ended: there will be no more than there is
	quit    chan struct{}          // closed when another has taken its place
	credits [len(commands.Streams)]chan protocol.Credit
	streams [len(commands.Streams)]outStream
	last    time.Time     // of the newest chunk
	rest    time.Duration // until the next: none after one that had no room for more
	delay   time.Duration // for which what was sent may be on its way
}

// outStream is one stream of one action.
type outStream struct {
	window.Sender
	fd   protocol.FD
	file commands.Output
	// written is how much there is at least. Asking costs as much as reading.
	written int64
}

// close closes the files. Sending again opens them again.
func (s *sender) close() {
	for i := range s.streams {
		if f := s.streams[i].file; f != nil {
			_ = f.Close() // it was only read
			s.streams[i].file = nil
		}
	}
}

// serve sends whatever may be sent until nothing more can come.
func (s *sender) serve(ctx context.Context) {
	for {
		var changed, done <-chan struct{}
		ended := s.run == nil
		if s.run != nil {
			changed, done = s.run.Changed(), s.run.Done()
			select {
			case <-done:
				ended = true // what is read from now on is all there is
			default:
			}
		}
		sent, err := s.sendAll(ctx)
		if err != nil {
			if ctx.Err() == nil {
				s.outputs.cfg.Log.Debug("output is not sent any further", "action", s.id.String(), "error", err)
			}
			return
		}
		if !s.wait(ctx, changed, sent, ended) {
			return
		}
	}
}

// sendAll sends at most one chunk of each stream.
func (s *sender) sendAll(ctx context.Context) (sent bool, err error) {
	for i := range s.streams {
		ok, err := s.send(ctx, &s.streams[i])
		if err != nil {
			return sent, err
		}
		sent = sent || ok
	}
	return sent, nil
}

// wait waits for something to do: more output, more permission. False means
// that there is nothing to wait for any more.
func (s *sender) wait(ctx context.Context, changed <-chan struct{}, sent, ended bool) bool {
	var after <-chan time.Time
	switch {
	case sent && s.rest == 0:
		return s.glance(ctx)
	case sent:
		after, changed = time.After(s.rest), nil
	case ended && s.silent():
		return false
	case ended:
		s.close() // ended commands are many, and most are never asked about again
		after, changed = time.After(linger+s.delay), nil
	}
	select {
	case <-ctx.Done():
		return false
	case <-s.quit:
		return false
	case <-changed:
		return s.pace(ctx)
	case c := <-s.credits[0]:
		s.allow(c)
	case c := <-s.credits[1]:
		s.allow(c)
	case c := <-s.credits[2]:
		s.allow(c)
	case <-after:
		return sent
	}
	return true
}

// glance is wait between two chunks that follow each other at once.
func (s *sender) glance(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-s.quit:
		return false
	case c := <-s.credits[0]:
		s.allow(c)
	case c := <-s.credits[1]:
		s.allow(c)
	case c := <-s.credits[2]:
		s.allow(c)
	default:
	}
	return true
}

// allow takes a credit.
func (s *sender) allow(c protocol.Credit) {
	s.streams[commands.Index(c.FD)].Allow(c.Offset, c.Window, s.delay+overdue, time.Now())
}

// silent reports that a command has ended without a word, as most do.
func (s *sender) silent() bool {
	return s.run != nil && s.streams[0].Next() == 0 && s.streams[1].Next() == 0 && s.streams[2].Next() == 0
}

// pace waits until the newest chunk is long enough ago.
func (s *sender) pace(ctx context.Context) bool {
	rest := s.rest - time.Since(s.last)
	if rest <= 0 {
		return true
	}
	select {
	case <-ctx.Done():
		return false
	case <-time.After(rest):
		return true
	}
}

// send sends the next chunk of a stream, if there is one and it may be sent.
func (s *sender) send(ctx context.Context, o *outStream) (bool, error) {
	if o.Room() == 0 {
		return false, nil
	}
	more, err := s.look(ctx, o)
	if s.past && errors.Is(err, fs.ErrNotExist) {
		return false, s.nothing(ctx, o)
	}
	if err != nil || !more {
		return false, err
	}
	conn, second, delay, err := s.outputs.cfg.Bulk.Pace(ctx)
	if err != nil {
		return false, err
	}
	s.delay = delay
	select {
	case s.outputs.reading <- struct{}{}:
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
	defer func() { <-s.outputs.reading }()
	return s.sendNext(ctx, o, conn, second)
}

// look opens a stream, and reports whether there is more of it than was sent.
func (s *sender) look(ctx context.Context, o *outStream) (more bool, err error) {
	if o.file == nil {
		if err := s.mayLeave(ctx); err != nil {
			return false, err
		}
		if o.file, err = s.outputs.cfg.RunDirs.Output(s.id, s.attempt, o.fd); err != nil {
			o.file = nil
			return false, err
		}
	}
	if o.written < o.Next()+protocol.ChunkSize {
		if o.written, err = o.file.Size(); err != nil {
			return false, err
		}
	}
	return o.written > o.Next(), nil
}

// mayLeave is [fs.ErrNotExist] for what a closed session has shown: to others there is
// nothing.
func (s *sender) mayLeave(ctx context.Context) error {
	if !s.past {
		return nil // it was found to be open
	}
	act, err := s.outputs.cfg.Queue.Action(ctx, s.id)
	if errors.Is(err, queue.ErrUnknown) {
		return fs.ErrNotExist
	}
	if err != nil {
		return err
	}
	if spec, err := protocol.DecodeSpec(act.Spec); err != nil || act.Closed(&spec) {
		return fs.ErrNotExist
	}
	return nil
}

// sendNext sends the next chunk on a connection that carries so many bytes a second.
func (s *sender) sendNext(ctx context.Context, o *outStream, conn uint64, second int) (bool, error) {
	next, chunk := o.Next(), min(max(int64(second), leastChunk), protocol.ChunkSize)
	buf, back := s.outputs.buffer(min(chunk, o.Room(), o.written-next))
	n, err := o.file.ReadAt(buf[protocol.SealRoom:], next)
	to, dropped := commands.Dropped(err)
	switch {
	case err != nil && !dropped && !errors.Is(err, io.EOF):
		return false, err
	case n > 0:
		if err := s.publish(ctx, o, buf[:protocol.SealRoom+n], 0, back); err != nil {
			return false, err
		}
		s.last, s.rest = time.Now(), restAfter(int64(n), chunk, second)
		o.Sent(conn, int64(n), s.last)
	case dropped:
		if err := s.publish(ctx, o, buf[:protocol.SealRoom], to, nil); err != nil {
			return false, err
		}
		o.Sent(conn, to-next, time.Now())
	case s.past:
		return false, s.nothing(ctx, o)
	}
	return n > 0 || dropped, nil
}

// nothing tells the coordinator that there is no more of a stream, and never will
// be: the output of its action was removed, or the disk has lost it. Each time that
// the coordinator asks, it is told again.
func (s *sender) nothing(ctx context.Context, o *outStream) error {
	o.Stop()
	return s.publish(ctx, o, make([]byte, protocol.SealRoom), 0, nil)
}

// restAfter is how long to wait behind a chunk, for more to send with the next.
func restAfter(n, chunk int64, second int) time.Duration {
	if n == chunk {
		return 0
	}
	passes := time.Duration(n+envelope) * time.Second / time.Duration(max(second, 1))
	return min(max(passes, coalesce), maxCoalesce)
}

// publish signs a chunk, which lies behind the room for its envelope, and hands
// it over. One that is lost is asked for again. One without bytes tells what is
// gone, up to an offset or for good. back, if any, is called when buf may be used
// again, if the connection can tell.
func (s *sender) publish(ctx context.Context, o *outStream, buf []byte, gone int64, back func()) error {
	data := buf[protocol.SealRoom:]
	h := s.outputs.cfg.Wire.Header(protocol.TypeOut)
	h.Action, h.Attempt, h.FD, h.Offset = s.id, s.attempt, o.fd, o.Next()
	h.Size, h.SHA256, h.Gone = int64(len(data)), protocol.Sum(data), gone
	body, err := json.Marshal(h)
	if err != nil {
		return err
	}
	payload, err := protocol.SealBehind(s.outputs.cfg.Wire.Signer, body, buf)
	if err != nil {
		return err
	}
	topic := protocol.Topic{Fleet: s.outputs.cfg.Wire.FleetName, Channel: protocol.ChannelOut, Host: s.outputs.cfg.Wire.ID, Action: s.id}
	if lender, ok := s.outputs.cfg.Bulk.(Lender); ok && back != nil {
		err = lender.Lend(ctx, topic.String(), payload, back)
	} else {
		err = s.outputs.cfg.Bulk.Publish(ctx, topic.String(), payload)
	}
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		s.outputs.cfg.Traffic.Dropped()
	} else {
		s.outputs.cfg.Traffic.Sent(protocol.TypeOut)
	}
	return nil
}
