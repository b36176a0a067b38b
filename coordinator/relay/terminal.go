package relay

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/audit"
	"github.com/hostler-io/hostler/terminal"
)

// maxAttached is how many people may look at one session at a time.
const maxAttached = 64

// Terminals are the sessions that people of this coordinator are attached to. It
// keeps nothing of what they type: their terminals do, until the host has
// acknowledged it, so a coordinator may end and another take its place.
type Terminals struct {
	base    *core.Base
	cfg     Config
	outputs *Outputs

	mu    sync.Mutex
	live  map[protocol.ActionID]map[*Attached]bool
	ended bool // no more are let in
}

// Attached is one terminal's part in a session. Its methods may be called from any
// goroutine.
type Attached struct {
	m    *Terminals
	by   core.Actor
	host protocol.HostID
	id   protocol.ActionID
	peer terminal.Peer
	look bool // only
	acks chan int64

	writing sync.Mutex // held while it is written down who came or went
	gone    bool       // that was, or it never came
}

// Attach lets a person take part in a session: type in it, or with look only watch
// it. All people who may read output may watch. The requester may type, and admins whom
// the policies would let begin the same session without an approval, as what was
// approved was approved for the requester. A session that began on its host and is not
// shared is for its host's people alone. Each host decides the same again. It fails with [core.ErrInvalid] for an action that is no session. Close must follow.
func (m *Terminals) Attach(ctx context.Context, by core.Actor, id protocol.ActionID, peer terminal.Peer, look bool) (*Attached, error) {
	a, err := m.cfg.Action(ctx, id)
	switch {
	case err != nil:
		return nil, err
	case !a.Kind.Interactive():
		return nil, fmt.Errorf("%w: action %s is no interactive session but %s: its output can be followed, not attached to", core.ErrInvalid, id, a.Kind)
	}
	if err := open(a); err != nil {
		return nil, err
	}
	if !look {
		if err := by.May(core.RoleOperator, "type in sessions"); err != nil {
			return nil, err
		}
		if by.Name != a.Requester && by.Role != core.RoleAdmin {
			return nil, fmt.Errorf("%w: session %s is %s's: others may look at it (--read-only), only admins may type in it", core.ErrDenied, id, a.Requester)
		}
		if by.Name != a.Requester {
			if err := m.cfg.Lets(ctx, by, a); err != nil {
				return nil, fmt.Errorf("typing in a session of %s: %w", a.Requester, err)
			}
		}
	}
	t := &Attached{m: m, by: by, host: a.Host, id: id, peer: peer, look: look, acks: make(chan int64, 1)}
	t.writing.Lock()
	defer t.writing.Unlock()
	if err := m.add(t); err != nil {
		return nil, err
	}
	if err := t.record(ctx, "session.attach"); err != nil {
		m.remove(t)
		t.gone = true
		return nil, err
	}
	return t, nil
}

func (m *Terminals) add(t *Attached) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended {
		return fmt.Errorf("%w: the coordinator is ending", core.ErrUnavailable)
	}
	if len(m.live[t.id]) >= maxAttached {
		return fmt.Errorf("%w: %d are attached to session %s already", core.ErrUnavailable, maxAttached, t.id)
	}
	if m.live == nil {
		m.live = make(map[protocol.ActionID]map[*Attached]bool)
	}
	if m.live[t.id] == nil {
		m.live[t.id] = make(map[*Attached]bool)
	}
	m.live[t.id][t] = true
	return nil
}

// remove removes a part. It reports whether its peer has left: it has not if it came
// back by another connection, or if it is the coordinator that ends.
func (m *Terminals) remove(t *Attached) (left bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.live[t.id], t)
	left = !m.ended
	for o := range m.live[t.id] {
		left = left && o.peer != t.peer
	}
	if len(m.live[t.id]) == 0 {
		delete(m.live, t.id)
	}
	return left
}

// record writes down who came or went.
func (t *Attached) record(ctx context.Context, verb string) error {
	detail := map[string]any{"peer": t.peer.String()}
	if t.look {
		detail["read_only"] = true
	}
	return t.m.base.Update(ctx, failpoint.AccessKept, func(tx core.Tx) error {
		return t.m.base.Record(tx, t.by, audit.Record{Verb: verb, Host: t.host, Object: t.id.String(), Detail: detail})
	})
}

// Close ends the part, and tells the host that its peer has left. The session goes on
// for [terminal.HangUpAfter] without it.
func (t *Attached) Close() {
	t.writing.Lock()
	defer t.writing.Unlock()
	if t.gone {
		return
	}
	t.gone = true
	if t.m.remove(t) && !t.look {
		t.tellLeft()
	}
	if err := t.record(t.m.base.Ctx, "session.detach"); err != nil {
		t.m.base.Log.Error("cannot record that a peer has left a session", "action", t.id, "err", err)
	}
}

// End writes down that all terminals have left, which may come back to the next
// coordinator, and lets no more in.
func (m *Terminals) End() {
	m.mu.Lock()
	m.ended = true
	var live []*Attached
	for _, of := range m.live {
		live = slices.AppendSeq(live, maps.Keys(of))
	}
	m.mu.Unlock()
	for _, t := range live {
		t.Close()
	}
}

// Type sends a packet of the peer to the host, once. It waits until the
// session runs. It is not sent again from here. A session that has ended takes nothing,
// which is no error.
func (t *Attached) Type(ctx context.Context, packet []byte) error {
	p, err := terminal.ParsePacket(packet)
	switch {
	case t.look:
		return fmt.Errorf("%w: this part is for looking only", core.ErrDenied)
	case err != nil || p.Peer != t.peer:
		return fmt.Errorf("%w: it is no packet of peer %s", core.ErrInvalid, t.peer)
	}
	a, err := t.running(ctx)
	if err != nil || a.State.Final() {
		return err
	}
	return t.send(a, packet)
}

// tellLeft tells the host that the peer has left. If that is lost, the session waits
// for longer.
func (t *Attached) tellLeft() {
	a, err := t.m.cfg.Action(t.m.base.Ctx, t.id)
	if err != nil || a.State != protocol.StateRunning {
		return
	}
	if err := t.send(a, terminal.AppendPacket(nil, terminal.Packet{Peer: t.peer})); err != nil {
		t.m.base.Log.Warn("cannot tell a host that a peer has left a session", "action", t.id, "err", err)
	}
}

// send sends a packet to the host, once.
func (t *Attached) send(a core.Action, packet []byte) error {
	attachment := terminal.AppendTyped(nil, terminal.Typed{
		Who:    t.by.LogName() + " from " + t.by.From,
		Packet: packet,
	})
	h := t.m.cfg.Wire.Header(protocol.TypeIn, protocol.HostParty(t.host))
	h.Action, h.Attempt, h.FD = t.id, a.Attempt, protocol.TTYInput
	h.Size, h.SHA256 = int64(len(attachment)), protocol.Sum(attachment)
	topic := protocol.Topic{Fleet: t.m.base.FleetName, Channel: protocol.ChannelIn, Host: t.host, Action: t.id}
	return t.m.cfg.Wire.PublishWith(topic, h, attachment)
}

// running waits until the session runs, or has ended.
func (t *Attached) running(ctx context.Context) (core.Action, error) {
	for {
		changed, done := t.m.base.Wake.On(t.id)
		a, err := t.m.cfg.Action(ctx, t.id)
		if err != nil || a.State.Final() || a.State == protocol.StateRunning && a.Attempt > 0 {
			done()
			return a, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			done()
			return a, context.Cause(ctx)
		}
		done()
	}
}

// Acks delivers how far the host has taken the peer's stream: the newest alone.
func (t *Attached) Acks() <-chan int64 { return t.acks }

// Read hands what the terminal prints to emit, from an offset on, until the session
// has ended, and returns how. A negative offset begins that many bytes before the
// present end. It need not be durable here: a peer that saw more than a
// coordinator has kept asks for what follows all the same.
func (t *Attached) Read(ctx context.Context, offset int64, emit func(offset int64, b []byte) error) (core.Action, error) {
	if offset < 0 {
		end, err := t.m.outputs.end(ctx, t.id)
		if err != nil {
			return core.Action{}, err
		}
		offset = max(0, end+offset)
	}
	for {
		what := Reading{Action: t.id, FD: protocol.Stdout, Offset: offset, Follow: true}
		span, err := t.m.outputs.Read(ctx, what, func(b []byte) error {
			at := offset
			offset += int64(len(b))
			return emit(at, b)
		})
		switch {
		case err != nil:
			return core.Action{}, err
		case span.Next < 0:
			return t.m.cfg.Action(ctx, t.id)
		}
		offset = max(offset, span.Next) // what lies between is kept nowhere
	}
}

// Acked takes the acknowledgements of a session's host.
func (m *Terminals) Acked(host protocol.HostID, id protocol.ActionID, b []byte) error {
	acks, err := terminal.ParseAcks(b)
	if err != nil {
		return fmt.Errorf("%w: %w", protocol.ErrPayload, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for t := range m.live[id] {
		for _, a := range acks {
			if a.Peer == t.peer && t.host == host {
				t.hear(a.Offset)
			}
		}
	}
	return nil
}

// hear keeps the newest acknowledgement for the peer that waits for it.
func (t *Attached) hear(offset int64) {
	for {
		select {
		case t.acks <- offset:
			return
		default:
		}
		select {
		case before := <-t.acks:
			offset = max(offset, before)
		default:
		}
	}
}

// end is how much of what a session printed has come up to now.
func (m *Outputs) end(ctx context.Context, id protocol.ActionID) (int64, error) {
	a, err := m.cfg.Action(ctx, id)
	if err != nil {
		return 0, err
	}
	o, err := m.use(ctx, a, outputID{id, max(1, a.Attempt), protocol.Stdout})
	if err != nil {
		return 0, err
	}
	defer m.release(o)
	o.mu.Lock()
	defer o.mu.Unlock()
	held := o.col.Arrived()
	return max(held.Have, held.TailTo), nil
}
