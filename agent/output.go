package agent

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/hostler-io/hostler/protocol"
)

// Numbers of output on its way up.
const (
	// coalesce is how far two chunks of one action are apart at least, so that a
	// command that writes byte by byte makes no message of each. The first byte
	// after a pause goes at once.
	coalesce = 4 * time.Millisecond
	// maxReading is how many chunks are in memory at a time, whoever waits.
	maxReading = 8
	// maxSenders bounds how many ended actions are read back at a time. Who is
	// not served asks again.
	maxSenders = 64
	// linger is how long the sender of an ended command waits for more credit.
	// Credit that comes later begins another: of hundreds of commands a second
	// few are asked about.
	linger = time.Second
)

// outputs sends what commands write. Each action has one goroutine, which the
// loop feeds with credit: a connection that is slow, or none, delays that alone.
// The map belongs to the loop.
type outputs struct {
	agent   *Agent
	senders map[protocol.ActionID]*sender
	reading chan struct{} // one place for each chunk in memory
	wg      sync.WaitGroup
}

func newOutputs(a *Agent) *outputs {
	return &outputs{agent: a, senders: make(map[protocol.ActionID]*sender), reading: make(chan struct{}, maxReading)}
}

func (o *outputs) wait() { o.wg.Wait() }

// begin sends the beginning of each stream of a command unasked.
func (o *outputs) begin(id protocol.ActionID, attempt int, r Run) {
	o.start(&sender{agent: o.agent, id: id, attempt: attempt, run: r}, protocol.OutputKept)
}

// credit goes on, or begins again, at an offset: whatever was sent beyond it is
// sent once more.
func (o *outputs) credit(c protocol.Credit) {
	s := o.senders[c.Action]
	if s == nil || s.attempt != c.Attempt {
		if len(o.senders) >= maxSenders+o.agent.cfg.HostRuns+o.agent.cfg.Lanes || o.agent.cfg.Commands == nil {
			return
		}
		s = &sender{agent: o.agent, id: c.Action, attempt: c.Attempt}
		if j := o.agent.jobs[c.Action]; j != nil && j.act.Attempt == c.Attempt {
			s.run = j.run
		}
		o.start(s, 0)
	}
	switch c.FD {
	case protocol.Stdout:
		newest(s.credits[0], c.Offset)
	case protocol.Stderr:
		newest(s.credits[1], c.Offset)
	}
}

func (o *outputs) start(s *sender, unasked int64) {
	for i, fd := range []protocol.FD{protocol.Stdout, protocol.Stderr} {
		s.credits[i] = make(chan int64, 1)
		s.streams[i] = outStream{fd: fd, limit: unasked}
	}
	if before := o.senders[s.id]; before != nil {
		close(before.quit)
	}
	s.quit = make(chan struct{})
	o.senders[s.id] = s
	o.wg.Go(func() {
		s.serve(o.agent.serving)
		s.close()
		o.agent.tell(func() { o.ended(s) })
	})
}

// ended forgets a sender, unless credit came while it was ending.
func (o *outputs) ended(s *sender) {
	if o.senders[s.id] != s {
		return
	}
	delete(o.senders, s.id)
	for i, c := range s.credits {
		select {
		case offset := <-c:
			o.credit(protocol.Credit{Action: s.id, Attempt: s.attempt, FD: s.streams[i].fd, Offset: offset})
		default:
		}
	}
}

// sender sends the output of one action. All but quit and credits belongs to
// its goroutine.
type sender struct {
	agent   *Agent
	id      protocol.ActionID
	attempt int
	run     Run           // nil for one that has ended
	quit    chan struct{} // closed when another has taken its place
	credits [2]chan int64
	streams [2]outStream
	last    time.Time // of the newest chunk
	full    bool      // which had no room for more
}

// outStream is one stream of one action.
type outStream struct {
	fd    protocol.FD
	next  int64 // offset of the next chunk
	limit int64 // where permission ends
	file  CommandOutput
}

// close closes the files; whoever sends again opens them again.
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
				s.agent.cfg.Log.Debug("output is not sent any further", "action", s.id.String(), "error", err)
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
	case sent:
		pause := coalesce
		if s.full {
			pause = 0
		}
		timer := time.NewTimer(pause)
		defer timer.Stop()
		after, changed = timer.C, nil
	case ended && s.silent():
		return false
	case ended:
		s.close() // ended commands are many, and most are never asked about again
		timer := time.NewTimer(linger)
		defer timer.Stop()
		after, changed = timer.C, nil
	}
	select {
	case <-ctx.Done():
		return false
	case <-s.quit:
		return false
	case <-changed:
		return s.pace(ctx)
	case offset := <-s.credits[0]:
		s.streams[0].allow(offset)
	case offset := <-s.credits[1]:
		s.streams[1].allow(offset)
	case <-after:
		return sent
	}
	return true
}

// silent reports that a command has ended without a word, as most do.
func (s *sender) silent() bool {
	return s.run != nil && s.streams[0].next == 0 && s.streams[1].next == 0
}

// pace waits until the newest chunk is long enough ago.
func (s *sender) pace(ctx context.Context) bool {
	rest := coalesce - time.Since(s.last)
	if rest <= 0 {
		return true
	}
	timer := time.NewTimer(rest)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// allow takes a credit: everything before offset has arrived, and what follows
// is wanted.
func (o *outStream) allow(offset int64) {
	o.next, o.limit = offset, offset+protocol.ChunkWindow
}

// send sends the next chunk of a stream, if there is one and it may be sent.
func (s *sender) send(ctx context.Context, o *outStream) (bool, error) {
	if o.next >= o.limit {
		return false, nil
	}
	if o.file == nil {
		f, err := s.agent.cfg.Commands.Output(s.id, s.attempt, o.fd)
		if err != nil {
			return false, err
		}
		o.file = f
	}
	written, err := o.file.Size()
	if err != nil || written <= o.next {
		return false, err
	}
	select {
	case s.agent.outputs.reading <- struct{}{}:
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
	defer func() { <-s.agent.outputs.reading }()
	buf := make([]byte, min(protocol.ChunkSize, o.limit-o.next, written-o.next))
	n, err := o.file.ReadAt(buf, o.next)
	to, dropped := isDropped(err)
	if err != nil && !dropped && !errors.Is(err, io.EOF) {
		return false, err
	}
	if n > 0 {
		if err := s.publish(ctx, o, buf[:n]); err != nil {
			return false, err
		}
	}
	o.next += int64(n)
	if dropped {
		o.next = to
	}
	return n > 0 || dropped, nil
}

// publish signs a chunk and hands it over. One that is lost is asked for again.
func (s *sender) publish(ctx context.Context, o *outStream, data []byte) error {
	h := s.agent.header(protocol.TypeOut)
	h.Action, h.Attempt, h.FD, h.Offset = s.id, s.attempt, o.fd, o.next
	h.Size, h.SHA256 = int64(len(data)), protocol.Sum(data)
	body, err := json.Marshal(h)
	if err != nil {
		return err
	}
	payload, err := protocol.Seal(s.agent.cfg.Signer, body, data)
	if err != nil {
		return err
	}
	topic := protocol.Topic{Fleet: s.agent.cfg.FleetName, Channel: protocol.ChannelOut, Host: s.agent.cfg.Host, Action: s.id}
	if err := s.agent.cfg.Bulk.Publish(ctx, topic.String(), payload); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		s.agent.counters.dropped.Add(1)
	} else {
		count(s.agent.counters.sent, protocol.TypeOut)
	}
	s.last, s.full = time.Now(), len(data) == protocol.ChunkSize
	return nil
}
