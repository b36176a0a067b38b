package agent

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/hostler-io/hostler/agent/loop"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/terminal"
)

// ErrNoSession tells that an action is no interactive session.
var ErrNoSession = errors.New("it is no interactive session")

// SessionPart is the part that somebody of the host itself has in a session. Its
// methods may be called from any goroutine.
type SessionPart struct {
	agent *Agent
	id    protocol.ActionID
	who   string
	peer  terminal.Peer
	look  bool
	acks  chan int64
}

// Attach lets somebody of the host's own people take part in a session: type in it,
// or with look only watch it. It fails with [ErrUnknown] and [ErrNoSession]. Close
// must follow.
func (a *Agent) Attach(ctx context.Context, id protocol.ActionID, who string, peer terminal.Peer, look bool) (*SessionPart, error) {
	act, err := a.Action(ctx, id)
	if err != nil {
		return nil, err
	}
	spec, err := protocol.DecodeSpec(act.Spec)
	if err != nil || !spec.Kind.Interactive() {
		return nil, fmt.Errorf("action %s: %w", id, ErrNoSession)
	}
	return &SessionPart{agent: a, id: id, who: who, peer: peer, look: look, acks: make(chan int64, 1)}, nil
}

// Type takes a packet of the peer, waiting until the session has begun. A session
// that has ended takes nothing, which is no error.
func (p *SessionPart) Type(ctx context.Context, packet []byte) error {
	parsed, err := terminal.ParsePacket(packet)
	switch {
	case p.look:
		return errors.New("this part is for looking only")
	case err != nil || parsed.Peer != p.peer:
		return fmt.Errorf("it is no packet of peer %s", p.peer)
	}
	for {
		if s := p.agent.sessions.find(p.id); s != nil {
			s.mu.Lock()
			s.local[p.peer] = p.acks
			s.mu.Unlock()
			return s.typed(p.who, append([]byte(nil), packet...))
		}
		news, err := loop.Ask(ctx, p.agent.loop, func() (<-chan struct{}, error) {
			if p.agent.jobs[p.id] == nil {
				return nil, nil
			}
			return p.agent.news(p.id), nil
		})
		if err != nil || news == nil {
			return err
		}
		if p.agent.sessions.find(p.id) != nil {
			continue // it has begun meanwhile
		}
		select {
		case <-news:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-p.agent.loop.Stopped():
			return ErrStopped
		}
	}
}

// Acks delivers how far the session has taken the peer's stream: the newest alone.
func (p *SessionPart) Acks() <-chan int64 { return p.acks }

// Read hands what the terminal prints to emit, from an offset on, until the session
// has ended, and returns how. A negative offset begins that many bytes before the
// present end.
func (p *SessionPart) Read(ctx context.Context, offset int64, emit func(offset int64, b []byte) error) (Action, error) {
	out := &outputReader{ctx: ctx, agent: p.agent, id: p.id, fd: protocol.Stdout, offset: max(0, offset), follow: true}
	defer out.Close()
	if offset < 0 {
		switch err := out.open(); {
		case err == nil:
			size, err := out.file.Size()
			if err != nil {
				return Action{}, err
			}
			out.offset = max(0, size+offset)
		case !errors.Is(err, io.EOF):
			return Action{}, err
		}
	}
	buf := make([]byte, 32<<10)
	for {
		n, err := out.Read(buf)
		if n > 0 {
			if err := emit(out.offset-int64(n), buf[:n]); err != nil {
				return Action{}, err
			}
		}
		if errors.Is(err, io.EOF) {
			return p.agent.WaitAction(ctx, p.id)
		}
		if err != nil {
			return Action{}, err
		}
	}
}

// Close ends the part. The session goes on for [terminal.HangUpAfter] without it.
func (p *SessionPart) Close() {
	if s := p.agent.sessions.find(p.id); s != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.local[p.peer] == p.acks {
			delete(s.local, p.peer)
		}
	}
}
