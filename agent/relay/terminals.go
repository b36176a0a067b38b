package relay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/hostler-io/hostler/agent/commands"
	"github.com/hostler-io/hostler/agent/loop"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/audit"
	"github.com/hostler-io/hostler/runner"
	"github.com/hostler-io/hostler/terminal"
)

// Numbers of sessions.
const (
	// maxUntyped is how many packets of one session wait for its supervisor. Further
	// packets are dropped; their senders repeat them.
	maxUntyped = 64
	// maxUnrecorded is how many packets of one peer wait until the audit log names
	// its user.
	maxUnrecorded = 16
	// ackSoon is how long an acknowledgement waits for others: a user may type a
	// window ahead of it.
	ackSoon = 30 * time.Millisecond
	// attachAgain is the pause after a supervisor did not let us attach.
	attachAgain = time.Second
)

// terminals carry what users type to the supervisors of their sessions, and back the
// acknowledgements. Nothing is kept: the sender repeats a packet that is lost here.
// Each session has goroutines of its own.
type terminals struct {
	cfg *Config
	wg  sync.WaitGroup

	mu   sync.Mutex
	live map[protocol.ActionID]*typing
}

// typing is one attempt of a session that runs.
type typing struct {
	cfg       *Config
	terminals *terminals
	id        protocol.ActionID
	attempt   int
	packets   chan []byte
	acked     chan struct{} // one place: there is something to tell

	mu         sync.Mutex
	acks       map[terminal.Peer]int64      // to be told to the coordinator
	recorded   map[terminal.Peer]typist     // the user of each peer, as the audit log has it
	refused    map[string]bool              // users of the coordinator who may not take part
	unrecorded map[typist][][]byte          // packets that wait for the audit log
	local      map[terminal.Peer]chan int64 // acknowledgements for peers on this host
}

// typist is a user who types as a peer. Users choose their peers, so two users may
// choose the same.
type typist struct {
	peer terminal.Peer
	user string
	here bool // a user of the host itself; others are named by the coordinator
}

// name is how a policy knows the user.
func (t typist) name() string {
	if t.here {
		return t.user
	}
	name, _, _ := strings.Cut(strings.TrimPrefix(t.user, "token:"), " from ")
	return name
}

// by tells, for the audit log, on whose word the user is named.
func (t typist) by() string {
	if t.here {
		return "socket"
	}
	return string(protocol.Coordinator)
}

func newTerminals(cfg *Config) *terminals {
	return &terminals{cfg: cfg, live: make(map[protocol.ActionID]*typing)}
}

// begin prepares for what is typed in a session that is about to begin, or was
// found. The loop calls it before the session is reported.
func (m *terminals) begin(id protocol.ActionID, attempt int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.live[id] = &typing{
		cfg: m.cfg, terminals: m, id: id, attempt: attempt, packets: make(chan []byte, maxUntyped), acked: make(chan struct{}, 1),
		acks: make(map[terminal.Peer]int64), recorded: make(map[terminal.Peer]typist), refused: make(map[string]bool), unrecorded: make(map[typist][][]byte),
		local: make(map[terminal.Peer]chan int64),
	}
}

// end forgets a session.
func (m *terminals) end(id protocol.ActionID, attempt int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.live[id]; s != nil && s.attempt == attempt {
		delete(m.live, id)
	}
}

func (m *terminals) find(id protocol.ActionID) *typing {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.live[id]
}

// any reports whether there is a session, for which the coordinator must be able
// to send.
func (m *terminals) any() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.live) > 0
}

// follow serves a session that runs until its end, or until ctx ends.
func (m *terminals) follow(id protocol.ActionID, r commands.Run) {
	s := m.find(id)
	if s == nil {
		return
	}
	m.wg.Go(func() { s.serve(m.cfg.Loop.Serving(), r) })
	if m.cfg.Bulk != nil {
		m.wg.Go(func() { s.tell(m.cfg.Loop.Serving(), r) })
	}
}

// take takes a packet that came by way of the coordinator.
func (m *terminals) take(msg protocol.Message) error {
	h := &msg.Header
	typed, err := terminal.ParseTyped(msg.Attachment)
	if err != nil {
		return fmt.Errorf("%w: %w", protocol.ErrPayload, err)
	}
	s := m.find(h.Action)
	if s == nil || s.attempt != h.Attempt {
		return nil // it has ended, or begins in a moment
	}
	return s.typed(typist{user: typed.Who}, typed.Packet)
}

// typed takes one packet of a user. No user types who may not take part, or before the
// audit log names the user: packets of a new user wait for that, and are dropped if the
// log cannot be written. A user who types as the peer of another one is new.
func (s *typing) typed(t typist, packet []byte) error {
	p, err := terminal.ParsePacket(packet)
	if err != nil {
		return fmt.Errorf("%w: %w", protocol.ErrPayload, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t.peer = p.Peer
	waiting, asked := s.unrecorded[t]
	last, known := s.recorded[p.Peer]
	switch {
	case p.Left() && (!known || last != t):
	case known && last == t:
		s.push(packet)
	case !t.here && s.refused[t.user]:
		s.refuse(p.Peer)
	case asked && len(waiting) < maxUnrecorded:
		s.unrecorded[t] = append(waiting, packet)
	case asked, known && len(s.unrecorded) >= terminal.MaxPeers:
		s.cfg.Traffic.Dropped()
	case !known && len(s.recorded)+len(s.unrecorded)+len(s.refused) >= terminal.MaxPeers:
		s.refuse(p.Peer)
	default:
		s.unrecorded[t] = [][]byte{packet}
		s.terminals.wg.Go(func() { s.admit(t) })
	}
	return nil
}

// push gives a packet to the supervisor, or drops it: then its sender repeats it.
func (s *typing) push(packet []byte) {
	select {
	case s.packets <- packet:
	default:
		s.cfg.Traffic.Dropped()
	}
}

// refuse tells a peer that nothing of it is taken. It is called with mu held.
func (s *typing) refuse(p terminal.Peer) {
	s.answer(terminal.Ack{Peer: p, Offset: terminal.Refused})
	loop.Newest(s.acked, struct{}{})
}

// admit lets a user type who may take part, when the audit log names the user. It also
// names a user who may not.
func (s *typing) admit(t typist) {
	written, refused := false, false
	s.cfg.Loop.Tell(func() {
		j := s.cfg.Actions.Job(s.id)
		if j == nil {
			return // it has ended
		}
		r := audit.Record{
			AtMS: s.cfg.Loop.WallMS(), Actor: t.user, Verb: "session.attach", Object: s.id.String(),
			Detail: map[string]any{"peer": t.peer.String(), "by": t.by()},
		}
		if !t.here && strings.HasPrefix(t.user, "uid:") { // it is no name of a user of the coordinator
			r.Actor, r.Detail["named"] = string(protocol.Coordinator), t.user
		}
		if err := s.cfg.Join(j.Action(), j.Spec(), t.name(), t.here); err != nil {
			refused, r.Verb, r.Detail["why"] = true, "session.refuse", err.Error()
		}
		written = s.cfg.Loop.Disk(s.cfg.Queue.Audit().Record(s.cfg.Loop.Steps(), r))
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case refused:
		s.refused[t.user] = true
		s.refuse(t.peer)
	case written:
		s.recorded[t.peer] = t
		for _, packet := range s.unrecorded[t] {
			s.push(packet)
		}
	}
	delete(s.unrecorded, t)
}

// serve carries packets to the supervisor, over as many connections as it takes.
func (s *typing) serve(ctx context.Context, r commands.Run) {
	defer s.terminals.end(s.id, s.attempt)
	for {
		at, err := r.Attach(ctx)
		switch {
		case err == nil:
			s.carry(ctx, r, at)
		case ctx.Err() != nil, errors.Is(err, runner.ErrNoTerminal), errors.Is(err, runner.ErrClosed), errors.Is(err, runner.ErrDied):
			return
		default:
			s.cfg.Log.Warn("a session cannot be attached to", "action", s.id.String(), "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-r.Done():
			return
		case <-time.After(attachAgain):
		}
	}
}

// carry serves one connection to the supervisor until it ends.
func (s *typing) carry(ctx context.Context, r commands.Run, at io.ReadWriteCloser) {
	broken := make(chan struct{})
	var wg sync.WaitGroup
	defer wg.Wait()
	defer at.Close()
	wg.Go(func() {
		defer close(broken)
		s.listen(at)
	})
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.Done():
			return
		case <-broken:
			return
		case p := <-s.packets:
			if _, err := at.Write(p); err != nil {
				return // it comes again
			}
		}
	}
}

// listen takes acknowledgements until the connection ends.
func (s *typing) listen(at io.Reader) {
	buf := make([]byte, terminal.MaxPacket)
	for {
		n, err := at.Read(buf)
		if err != nil {
			return
		}
		acks, err := terminal.ParseAcks(buf[:n])
		if err != nil {
			s.cfg.Log.Error("cannot understand what a supervisor says", "action", s.id.String(), "error", err)
			return
		}
		s.mu.Lock()
		for _, a := range acks {
			s.answer(a)
		}
		s.mu.Unlock()
		loop.Newest(s.acked, struct{}{})
	}
}

// answer keeps an acknowledgement for its peer. It is called with mu held.
func (s *typing) answer(a terminal.Ack) {
	if c := s.local[a.Peer]; c != nil {
		loop.Newest(c, a.Offset)
		return
	}
	s.acks[a.Peer] = max(s.acks[a.Peer], a.Offset)
}

// tell tells the coordinator what was acknowledged.
func (s *typing) tell(ctx context.Context, r commands.Run) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.Done():
			return
		case <-s.acked:
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(ackSoon):
		}
		s.mu.Lock()
		acks := maps.Clone(s.acks)
		clear(s.acks)
		s.mu.Unlock()
		if len(acks) == 0 {
			continue
		}
		var b []byte
		for peer, offset := range acks {
			b = terminal.AppendAck(b, terminal.Ack{Peer: peer, Offset: offset})
		}
		if err := s.publish(ctx, b); err != nil && ctx.Err() == nil {
			s.cfg.Log.Debug("telling a terminal how much of its input was taken", "action", s.id.String(), "error", err)
		}
	}
}

// publish sends acknowledgements. What is lost is asked for by sending again.
func (s *typing) publish(ctx context.Context, acks []byte) error {
	h := s.cfg.Wire.Header(protocol.TypeOut)
	h.Action, h.Attempt, h.FD = s.id, s.attempt, protocol.TTYInput
	h.Size, h.SHA256 = int64(len(acks)), protocol.Sum(acks)
	body, err := json.Marshal(h)
	if err != nil {
		return err
	}
	payload, err := protocol.Seal(s.cfg.Wire.Signer, body, acks)
	if err != nil {
		return err
	}
	topic := protocol.Topic{Fleet: s.cfg.Wire.FleetName, Channel: protocol.ChannelOut, Host: s.cfg.Wire.ID, Action: s.id}
	if err := s.cfg.Bulk.Publish(ctx, topic.String(), payload); err != nil {
		return err
	}
	s.cfg.Traffic.Sent(protocol.TypeOut)
	return nil
}
