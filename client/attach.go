package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/internal/attach"
	"github.com/hostler-io/hostler/terminal"
)

// Numbers of a session on its way.
const (
	// firstRedial and lastRedial bound the pauses between tries to come back.
	firstRedial = 100 * time.Millisecond
	lastRedial  = 2 * time.Second
	// dialPatience is how long one try may take.
	dialPatience = 10 * time.Second
	// pingPatience is how long the other side may take to answer, until the line is
	// taken for dead.
	pingPatience = 10 * time.Second
	// silentAfter is after how long without an acknowledgement it is said that what
	// is typed does not arrive.
	silentAfter = 5 * time.Second
	// firstResend and lastResend are how long an acknowledgement may take until
	// what it is for is sent again.
	firstResend = time.Second
	lastResend  = 16 * time.Second
	// firstWindow is how far the peer is ahead of acknowledgements at first. It
	// doubles as long as they come within quick, and is halved when they take
	// longer than slow, so that a slow line has room for others.
	firstWindow = 16 << 10
	leastWindow = 1 << 10
	quick       = 500 * time.Millisecond
	slow        = 2 * time.Second
)

// ErrDetached is the end of a session for one who left it.
var ErrDetached = errors.New("detached")

// SessionConfig says how to take part in a session.
type SessionConfig struct {
	Action string
	// Peer is drawn at random, for this part alone.
	Peer     terminal.Peer
	ReadOnly bool
	// Offset is where to begin in what the terminal printed; negative: that
	// many bytes before its present end.
	Offset int64
	// Output gets what the terminal prints. Required.
	Output io.Writer
	// Begun is called once, when the session runs: before its first output is
	// printed, or when it listens to this peer. It may be nil.
	Begun func()
	// Lost and Back are called when the connection is lost and when it is there
	// again. They may be nil.
	Lost func(error)
	Back func()
	// Silent is called when nothing that was typed has arrived for a while, although
	// the connection is there: it is the host, or its line, that does not answer. Back
	// follows. It may be nil.
	Silent func(since time.Duration)
}

// Session is one person's part in an interactive session, over as many connections as
// it takes: bytes are typed once and printed once, whatever breaks in between. Its
// methods may be called from any goroutine.
type Session struct {
	c   *Client
	cfg SessionConfig

	detach chan struct{} // closed by Detach
	once   sync.Once
	begun  sync.Once
	wake   chan struct{} // one place: there is something to send
	room   chan struct{} // one place: there may be room

	mu       sync.Mutex
	out      terminal.Outbox
	offset   int64 // of the next byte to print
	window   int
	progress time.Time // of the newest acknowledgement that told anything
	resend   time.Duration
	probe    int64 // offset whose acknowledgement is timed; 0 is none
	probeAt  time.Time
	heard    time.Time // when something was acknowledged, or nothing was to be
	silent   bool      // Silent was called

	printing atomic.Bool // the output takes nothing: no answer can be read meanwhile
}

// NewSession returns a part in a session. Nothing happens before Run, but what is
// typed is kept.
func (c *Client) NewSession(cfg SessionConfig) *Session {
	return &Session{
		c: c, cfg: cfg, out: terminal.Outbox{Peer: cfg.Peer}, offset: cfg.Offset, window: firstWindow, resend: firstResend,
		detach: make(chan struct{}), wake: make(chan struct{}, 1), room: make(chan struct{}, 1),
	}
}

func token(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Type types bytes in the session. It waits while the session is behind, until ctx
// ends.
func (s *Session) Type(ctx context.Context, b []byte) error {
	const atOnce = 4 << 10
	for len(b) > 0 {
		n := min(len(b), atOnce)
		if err := s.frame(ctx, terminal.AppendData(nil, b[:n])); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// Resize tells the session the size of the window.
func (s *Session) Resize(ctx context.Context, size terminal.Size) error {
	return s.frame(ctx, terminal.AppendResize(nil, size))
}

func (s *Session) frame(ctx context.Context, f []byte) error {
	for {
		s.mu.Lock()
		if s.out.Room() >= len(f) {
			s.out.Append(f)
			more := s.out.Room() > 0
			s.mu.Unlock()
			token(s.wake)
			if more {
				token(s.room) // for others that wait
			}
			return nil
		}
		s.mu.Unlock()
		select {
		case <-s.room:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Detach ends Run with ErrDetached.
func (s *Session) Detach() { s.once.Do(func() { close(s.detach) }) }

// Run takes part until the session has ended, and returns how; or until ctx ends,
// or Detach was called. A connection that is lost is made again. It gives up with
// ErrUnreachable when no server could be reached for as long as a session lasts
// without a sign of its peers.
func (s *Session) Run(ctx context.Context) (api.Action, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	detached := make(chan struct{})
	defer func() { <-detached }()
	defer stop(nil)
	go func() { // ends with ctx
		defer close(detached)
		select {
		case <-s.detach:
			stop(ErrDetached)
		case <-ctx.Done():
		}
	}()
	reached, pause, lost := time.Now(), firstRedial, false
	for {
		conn, err := s.dial(ctx)
		if err == nil {
			if lost && s.cfg.Back != nil {
				s.cfg.Back()
			}
			lost, pause = false, firstRedial
			var end *api.Action
			if end, err = s.converse(ctx, conn); end != nil {
				return *end, nil
			}
			reached = time.Now()
		}
		if ctx.Err() != nil {
			return api.Action{}, context.Cause(ctx)
		}
		if !errors.Is(err, ErrUnreachable) || time.Since(reached) > terminal.SilentAfter {
			return api.Action{}, err
		}
		if !lost && s.cfg.Lost != nil {
			s.cfg.Lost(err)
		}
		lost = true
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return api.Action{}, context.Cause(ctx)
		}
		pause = min(2*pause, lastRedial)
	}
}

// dial makes a connection. ErrUnreachable is an error that may pass.
func (s *Session) dial(ctx context.Context) (*attach.Conn, error) {
	patient, cancel := context.WithTimeout(ctx, dialPatience)
	defer cancel()
	header := http.Header{}
	if s.c.token != "" {
		header.Set("Authorization", "Bearer "+s.c.token)
	}
	s.mu.Lock()
	wish := attach.Wish{Peer: s.cfg.Peer, Offset: s.offset, ReadOnly: s.cfg.ReadOnly}
	s.mu.Unlock()
	conn, resp, err := attach.Dial(patient, s.c.http1, s.c.base+"/v1/actions/"+url.PathEscape(s.cfg.Action)+"/attach", header, wish)
	if err == nil {
		return conn, nil
	}
	if resp == nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	defer resp.Body.Close()
	p, ok := errors.AsType[*api.Problem](problem(resp))
	if ok && p.Status == http.StatusServiceUnavailable {
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, p)
	}
	if ok {
		return nil, p
	}
	return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
}

// converse serves a connection until it or the session ends.
func (s *Session) converse(ctx context.Context, conn *attach.Conn) (*api.Action, error) {
	defer conn.Close()
	inner, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	s.mu.Lock()
	s.out.Rewind()
	s.progress, s.resend, s.probe = time.Now(), firstResend, 0
	s.heard = s.progress
	s.mu.Unlock()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop(nil)
	if !s.cfg.ReadOnly {
		wg.Go(func() { stop(s.send(inner, conn)) })
	}
	wg.Go(func() { stop(s.ping(inner, conn)) })
	for {
		m, err := conn.Receive(inner)
		if err != nil {
			if why, refused := attach.Refused(err); refused {
				return nil, fmt.Errorf("the session is refused: %s", why)
			}
			if cause := context.Cause(inner); errors.Is(cause, errRefused) {
				err = cause
			}
			return nil, fmt.Errorf("%w: the connection to the session broke: %w", ErrUnreachable, err)
		}
		end, err := s.message(m)
		if end != nil || err != nil {
			return end, err
		}
	}
}

// ping finds a line that is dead.
func (s *Session) ping(ctx context.Context, conn *attach.Conn) error {
	tick := time.NewTicker(terminal.AliveEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
		patient, cancel := context.WithTimeout(ctx, pingPatience)
		err := conn.Ping(patient)
		cancel()
		if err != nil && !s.printing.Load() {
			return fmt.Errorf("no answer for %s: %w", pingPatience, err)
		}
	}
}

// errRefused is the end of a peer of which the host takes nothing any more.
var errRefused = errors.New("the host accepts no more input from this terminal")

// message takes a message of the other side.
func (s *Session) message(m terminal.Message) (end *api.Action, err error) {
	switch m.Kind {
	case terminal.MessageEnd:
		end = new(api.Action)
		if err := json.Unmarshal(m.Data, end); err != nil {
			return nil, fmt.Errorf("this version cannot read the end of the session: %w", err)
		}
		return end, nil
	case terminal.MessageAck:
		s.hasBegun()
		return nil, s.acked(m.Offset)
	case terminal.MessageOutput:
		s.hasBegun() // before anything is printed: the terminal must be as the session wants it
		return nil, s.print(m)
	}
	return nil, fmt.Errorf("this version cannot read a message of the session: %w", terminal.ErrFormat)
}

func (s *Session) hasBegun() {
	if s.cfg.Begun != nil {
		s.begun.Do(s.cfg.Begun)
	}
}

func (s *Session) acked(offset int64) error {
	if offset == terminal.Refused {
		return errRefused
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.out.Acked(offset) {
		return nil
	}
	now := time.Now()
	s.progress, s.resend, s.heard = now, firstResend, now
	if s.silent {
		s.silent = false
		if s.cfg.Back != nil {
			s.cfg.Back()
		}
	}
	if s.probe > 0 && offset >= s.probe {
		switch took := now.Sub(s.probeAt); {
		case took > slow:
			s.window = max(s.window/2, leastWindow)
		case took < quick:
			s.window = min(2*s.window, terminal.Window)
		}
		s.probe = 0
	}
	token(s.room)
	token(s.wake)
	return nil
}

// print prints what is new of a part of the output.
func (s *Session) print(m terminal.Message) error {
	s.mu.Lock()
	b, next := m.Data, m.Offset+int64(len(m.Data))
	if s.offset > m.Offset {
		b = b[min(int64(len(b)), s.offset-m.Offset):]
	}
	s.offset = max(s.offset, next)
	s.mu.Unlock()
	if len(b) == 0 {
		return nil
	}
	s.printing.Store(true)
	defer s.printing.Store(false)
	if _, err := s.cfg.Output.Write(b); err != nil {
		return fmt.Errorf("writing the terminal's output: %w", err)
	}
	return nil
}

// send sends what is typed, signs of life while nothing is, and once more what was
// not acknowledged in time.
func (s *Session) send(ctx context.Context, conn *attach.Conn) error {
	alive := time.NewTicker(terminal.AliveEvery)
	defer alive.Stop()
	for {
		p, again, ok := s.next()
		if ok {
			if err := conn.Send(ctx, p); err != nil {
				return err
			}
			continue
		}
		timer := time.NewTimer(again)
		select {
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		case <-s.wake:
		case <-timer.C:
			s.again()
		case <-alive.C:
			s.mu.Lock()
			p := s.out.Alive()
			s.mu.Unlock()
			if err := conn.Send(ctx, p); err != nil {
				return err
			}
		}
		timer.Stop()
	}
}

// next returns what is to be sent now, or how long to wait for acknowledgements.
func (s *Session) next() (p terminal.Packet, again time.Duration, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p, ok = s.out.Next(s.window); ok {
		p.Data = append([]byte(nil), p.Data...)
		if s.probe == 0 {
			s.probe, s.probeAt = p.Offset+int64(len(p.Data)), time.Now()
		}
		return p, 0, true
	}
	if s.out.Empty() {
		s.progress = time.Now()
		s.heard = s.progress
		return p, time.Hour, false
	}
	return p, max(0, s.resend-time.Since(s.progress)), false
}

// again sends everything that was not acknowledged in time once more.
func (s *Session) again() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.out.Empty() && time.Since(s.progress) >= s.resend {
		s.out.Rewind()
		s.progress, s.probe = time.Now(), 0
		s.resend = min(2*s.resend, lastResend)
		s.window = max(s.window/2, leastWindow)
		if since := time.Since(s.heard); since >= silentAfter && !s.silent && s.cfg.Silent != nil {
			s.silent = true
			s.cfg.Silent(since)
		}
	}
}
