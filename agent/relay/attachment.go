package relay

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/hostler-io/hostler/agent/loop"
	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/terminal"
)

// ErrNoSession tells that an action is no interactive session.
var ErrNoSession = errors.New("it is no interactive session")

// Attachment is one participant, on the host itself, of a session. Its methods may be
// called from any goroutine.
type Attachment struct {
	relay *Relay
	id    protocol.ActionID
	user  string
	peer  terminal.Peer
	look  bool
	acks  chan int64
}

// Attach attaches a user of the host to a session, to type in it or, with look, only
// to watch it. It fails with [queue.ErrUnknown], [ErrNoSession] and why the user may
// not. Close must follow.
func (r *Relay) Attach(ctx context.Context, id protocol.ActionID, user string, peer terminal.Peer, look bool) (*Attachment, error) {
	act, err := r.cfg.Queue.Action(ctx, id)
	if err != nil {
		return nil, err
	}
	spec, err := protocol.DecodeSpec(act.Spec)
	if err != nil || !spec.Kind.Interactive() {
		return nil, fmt.Errorf("action %s: %w", id, ErrNoSession)
	}
	if err := r.join(ctx, &act, &spec, user); err != nil {
		return nil, err
	}
	return &Attachment{relay: r, id: id, user: user, peer: peer, look: look, acks: make(chan int64, 1)}, nil
}

func (r *Relay) join(ctx context.Context, act *queue.Action, spec *protocol.Spec, user string) error {
	_, err := loop.Ask(ctx, r.cfg.Loop, func() (struct{}, error) { return struct{}{}, r.cfg.Join(act, spec, user, true) })
	return err
}

// Type takes a packet of the peer, waiting until the session has begun. A session
// that has ended takes nothing, which is no error.
func (p *Attachment) Type(ctx context.Context, packet []byte) error {
	parsed, err := terminal.ParsePacket(packet)
	switch {
	case p.look:
		return errors.New("this part is for looking only")
	case err != nil || parsed.Peer != p.peer:
		return fmt.Errorf("it is no packet of peer %s", p.peer)
	}
	for {
		if s := p.relay.terminals.find(p.id); s != nil {
			s.mu.Lock()
			s.local[p.peer] = p.acks
			s.mu.Unlock()
			return s.typed(typist{p.peer, p.user, true}, append([]byte(nil), packet...))
		}
		_, news, err := p.relay.cfg.standing(ctx, p.id)
		if err != nil || news == nil {
			return err
		}
		if p.relay.terminals.find(p.id) != nil {
			continue // it has begun meanwhile
		}
		if err := p.relay.cfg.wait(ctx, news); err != nil {
			return err
		}
	}
}

// Acks delivers how far the session has taken the peer's stream: the newest alone.
func (p *Attachment) Acks() <-chan int64 { return p.acks }

// Read hands what the terminal prints to emit, from an offset on, until the session
// has ended. A negative offset begins that many bytes before the
// present end.
func (p *Attachment) Read(ctx context.Context, offset int64, emit func(offset int64, b []byte) error) error {
	out := &Reader{ctx: ctx, cfg: &p.relay.cfg, id: p.id, fd: protocol.Stdout, offset: max(0, offset), follow: true}
	defer out.Close()
	if offset < 0 {
		switch err := out.open(); {
		case err == nil:
			size, err := out.file.Size()
			if err != nil {
				return err
			}
			out.offset = max(0, size+offset)
		case !errors.Is(err, io.EOF):
			return err
		}
	}
	buf := make([]byte, 32<<10)
	for {
		n, err := out.Read(buf)
		if n > 0 {
			if err := emit(out.offset-int64(n), buf[:n]); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// Close ends the attachment. The session goes on for [terminal.HangUpAfter] without it.
func (p *Attachment) Close() {
	if s := p.relay.terminals.find(p.id); s != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.local[p.peer] == p.acks {
			delete(s.local, p.peer)
			s.push(terminal.AppendPacket(nil, terminal.Packet{Peer: p.peer}))
		}
	}
}
