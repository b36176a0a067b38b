package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hostler-io/hostler/agent/loop"
	"github.com/hostler-io/hostler/agent/wire"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/stream"
)

// inbound is a message as it came.
type inbound = wire.Message

// connection is the loop's side of the present connection.
type connection struct {
	conn     uint64 // 0 is none
	answered bool   // the hello was; nothing but it goes up before
	online   bool   // said since the newest hello
	// said is the first hello since the conversation began anew. An answer to an
	// earlier one may be an answer to that hello played again, by a coordinator
	// that knows nothing newer of this host. And were it taken for the answer to
	// a hello that is still on its way, items could overtake that: when it
	// arrives it would claim less than the coordinator has.
	said    protocol.Seq
	tries   int   // hellos so far
	since   int64 // boot clock of the answer
	lastAck time.Duration
	toAck   bool
}

// Pauses between hellos: 2 s, doubling to 60 s, until one is answered.
const (
	firstHello = 2 * time.Second
	lastHello  = time.Minute
)

// ackEvery is how far receipts are apart at least while more comes in.
const ackEvery = 20 * time.Millisecond

// open prepares a connection: the will must be of it alone, so it is signed
// anew. It runs on the link's goroutine.
func (a *Agent) open(conn uint64) (Session, error) {
	h := a.header(protocol.TypePresence)
	h.Seq = protocol.Seq{Inc: a.self.Inc, Conn: conn, K: protocol.KWill}
	will, err := a.seal(protocol.Presence{Header: h, Kind: protocol.PresenceWill})
	if err != nil {
		return Session{}, fmt.Errorf("making the will: %w", err)
	}
	filters := []string{protocol.FleetFilter(a.cfg.FleetName)}
	for _, c := range []protocol.Channel{protocol.ChannelOrder, protocol.ChannelControl, protocol.ChannelGrant, protocol.ChannelReceipt} {
		filters = append(filters, protocol.HostFilter(a.cfg.FleetName, a.cfg.Host, c))
	}
	return Session{
		WillTopic: a.topic(protocol.ChannelPresence), Will: will, WillRetained: true,
		Filters: filters,
		Handle:  a.handle,
		Up: func(func(string, []byte, bool) error) {
			loop.Newest(a.linked, conn)
		},
	}, nil
}

// handle sorts messages by who takes them. It runs on the link's goroutine and
// never waits: what finds no room is lost, as on any other part of the way.
func (a *Agent) handle(topic string, payload []byte) {
	to := a.inbox
	if t, err := protocol.ParseTopic(topic); err == nil {
		switch t.Channel {
		case protocol.ChannelGrant:
			if !a.lease.Take(inbound{Topic: topic, Payload: payload}) {
				a.counters.traffic.Dropped()
			}
			return
		case protocol.ChannelRing, protocol.ChannelRevoked:
			to = a.docs
		}
	}
	select {
	case to <- inbound{Topic: topic, Payload: payload}:
	default:
		a.counters.traffic.Dropped()
	}
}

// topic is a topic of this host.
func (a *Agent) topic(c protocol.Channel) string { return a.wire.Topic(c) }

// header starts a message of this host.
func (a *Agent) header(t protocol.Type) protocol.Header { return a.wire.Header(t) }

// seal signs a message.
func (a *Agent) seal(v any) ([]byte, error) { return a.wire.Seal(v) }

// connected begins a conversation.
func (a *Agent) connected(conn uint64) {
	a.link = connection{conn: conn}
	a.loop.Moved()
	a.voice.Connected(conn)
	a.due[dueHello].Stop()
	a.due[dueAck].Stop()
	for _, p := range a.streams {
		p.resend.Connected()
	}
	a.hello()
}

// lostConn tells the loop of a connection that has failed, if it was not told yet.
func (a *Agent) lostConn(conn uint64) {
	select {
	case a.lost <- conn:
	default:
	}
}

// disconnected ends it, for what it is worth: a new one begins with a hello in
// any case.
func (a *Agent) disconnected(conn uint64) {
	if a.link.conn != conn {
		return
	}
	a.link = connection{}
	a.loop.Moved()
	a.voice.Disconnected(conn)
	a.due[dueHello].Stop()
	a.due[dueAck].Stop()
}

// hello says who is here, again and again until it is answered.
func (a *Agent) hello() {
	seq, ok := a.voice.Hello(a.cfg.BootMS())
	if !ok {
		return
	}
	a.at(dueHello, min(lastHello, firstHello<<min(a.link.tries, 5)))
	a.link.tries++
	a.link.online = false
	if a.link.said == (protocol.Seq{}) {
		a.link.said = seq
	}
	a.reread()
	h := a.header(protocol.TypePresence)
	h.Seq = seq
	hello := protocol.Hello{
		Proto: protocol.Proto, Inst: a.voice.Inst(), Boot: a.cfg.Boot, Store: a.self.Store,
		TermSeen: a.gate.Seen, AcceptSeq: a.self.AcceptSeq, Evidence: a.self.Evidence, Checkpoint: a.self.Checkpoint,
		SelfFence: "none", Features: a.cfg.Features,
	}
	for _, p := range a.streams {
		switch {
		case p.up:
			hello.Sent = append(hello.Sent, p.at)
			if p.freed.N > 0 {
				hello.Freed = append(hello.Freed, p.freed)
			}
		case !p.at.Store.IsZero():
			hello.Have = append(hello.Have, p.at)
		}
	}
	a.post(protocol.TypePresence, protocol.ChannelPresence, protocol.Presence{Header: h, Kind: protocol.PresenceHello, Hello: &hello})
}

// greetAgain begins the conversation anew on the connection that is up.
func (a *Agent) greetAgain() {
	a.link.answered, a.link.tries, a.link.said = false, 0, protocol.Seq{}
	a.loop.Moved()
	a.voice.Unheard()
	a.hello()
}

// silence is how long nothing may be granted before the hello is said again: a
// coordinator that was started anew, and whose word about it was lost, takes
// nothing else.
const silence = time.Minute

// listen says hello again when the coordinator has fallen silent.
func (a *Agent) listen() {
	if !a.link.answered {
		return
	}
	if heard := max(a.link.since, a.lease.GrantedMS()); a.cfg.BootMS()-heard > silence.Milliseconds() {
		a.greetAgain()
	}
}

// greeted takes the answer to the hello: from now on the rest may be said.
func (a *Agent) greeted(give protocol.Nonce) {
	a.voice.Answered(a.link.conn, give)
	if !a.link.online {
		a.link.online = a.state(protocol.TypePresence, protocol.ChannelPresence, func(h protocol.Header) any {
			return protocol.Presence{Header: h, Kind: protocol.PresenceOnline}
		})
	}
	if a.link.answered {
		return
	}
	a.link.answered, a.link.since = true, a.cfg.BootMS()
	a.loop.Moved()
	a.due[dueHello].Stop()
	a.relay.Renew()
	a.cfg.Log.Info("the coordinator has answered", "conn", a.link.conn, "term_ring", a.gate.Seen.Ring, "term", a.gate.Seen.Counter)
	a.beat.last = nil // whoever answers may know nothing of this host
	a.sendHeartbeat()
}

// goodbye says that this process ends because it was told to. It is the last
// message, so it goes past the sender, which may have been waiting for long.
func (a *Agent) goodbye() {
	if a.cfg.Link == nil || !a.link.answered {
		return
	}
	_, chal, ok := a.voice.Next(protocol.TypePresence, a.cfg.BootMS())
	if !ok {
		return
	}
	h := a.header(protocol.TypePresence)
	h.Seq, h.Chal = protocol.Seq{Inc: a.self.Inc, Conn: a.link.conn, K: protocol.KGoodbye}, chal
	payload, err := a.seal(protocol.Presence{Header: h, Kind: protocol.PresenceGoodbye})
	if err != nil {
		a.cfg.Log.Error("the goodbye cannot be signed", "error", err)
		return
	}
	ctx, cancel := context.WithTimeout(a.loop.Steps(), goodbyeTimeout)
	defer cancel()
	if err := a.cfg.Link.Publish(ctx, a.topic(protocol.ChannelPresence), payload, true); err != nil {
		a.cfg.Log.Info("the goodbye was not sent; the will speaks for us", "error", err)
	}
}

// goodbyeTimeout is how long a dead line may hold a shutdown up.
const goodbyeTimeout = 2 * time.Second

// expect is what the loop knows before it opens a message.
func (a *Agent) expect(topic string, ring uint64) protocol.Expect {
	return protocol.Expect{
		Fleet: a.cfg.Fleet, FleetName: a.cfg.FleetName, Self: protocol.HostParty(a.cfg.Host),
		Keys: a.cfg.Trust.Keyring(), Ring: ring, Topic: topic, Fresh: freshness{a},
	}
}

// freshness is what the loop has seen before, for checks 11 and 12.
type freshness struct{ a *Agent }

// Fresh takes orders that answer what this process has sent, and state messages
// that are newer than the last of their channel.
func (f freshness) Fresh(t protocol.Topic, h *protocol.Header) error {
	switch t.Channel {
	case protocol.ChannelControl:
		if h.Heard == (protocol.Seq{}) {
			return nil // its number in the stream is all it needs
		}
		fallthrough // it carries an action
	case protocol.ChannelOrder:
		if _, ok := f.a.voice.SentAt(h.Heard); !ok {
			return fmt.Errorf("%w: %d/%d/%d", protocol.ErrHeard, h.Heard.Inc, h.Heard.Conn, h.Heard.K)
		}
		return nil
	}
	return f.a.gate.Fresh(t.Channel, h)
}

// Term takes the present coordinator and its successors.
func (f freshness) Term(h *protocol.Header) error { return f.a.gate.Term(h) }

// receive opens a message and acts upon it. What is refused is counted and
// never answered.
func (a *Agent) receive(m inbound) {
	if bytes.Equal(m.Payload, a.fleet) {
		return // the retained word that every connection repeats
	}
	msg, err := protocol.Open(m.Payload, a.expect(m.Topic, a.cfg.Trust.Ring()))
	if errors.Is(err, protocol.ErrRing) {
		a.ringAhead(m, msg)
		return
	}
	if err == nil {
		err = a.dispatch(m, msg)
	}
	if err != nil {
		a.refuse(m.Topic, err)
	}
}

// dispatch acts upon a message that passed all checks.
func (a *Agent) dispatch(m inbound, msg protocol.Message) error {
	if msg.Topic.Channel != protocol.ChannelOrder {
		a.takeOrders() // in the order of arrival
	}
	switch msg.Topic.Channel {
	case protocol.ChannelReceipt:
		var r protocol.Receipt
		if err := msg.Decode(&r); err != nil {
			return err
		}
		if a.link.conn == 0 || !r.Answers.SameConn(protocol.Seq{Inc: a.self.Inc, Conn: a.link.conn}) {
			return fmt.Errorf("%w: the receipt answers connection %d/%d", protocol.ErrStale, r.Answers.Inc, r.Answers.Conn)
		}
		if !a.believe(&msg, m.Payload) {
			return nil
		}
		if !a.link.said.Takes(r.Answers) {
			return nil // the hello of its term is on its way
		}
		a.receipt(&r, m.Payload)
	case protocol.ChannelCoordinator:
		var s protocol.CoordinatorState
		if err := msg.Decode(&s); err != nil {
			return err
		}
		if !a.believe(&msg, m.Payload) {
			return nil
		}
		a.fleet = m.Payload
	case protocol.ChannelOrder, protocol.ChannelControl:
		if !a.believe(&msg, nil) {
			return nil
		}
		a.item(msg, "")
	default:
		return fmt.Errorf("%w: nothing comes down on %s yet", protocol.ErrTopic, msg.Topic.Channel)
	}
	a.counters.traffic.Received(msg.Header.Type)
	return nil
}

// believe makes a newer term, or the store that it names, durable before
// anything is done because of it, and says hello again to whoever speaks in it.
// evidence is the message as it was signed, if it may serve as that. It reports
// false when the disk did not take it: then nothing was received.
func (a *Agent) believe(msg *protocol.Message, evidence []byte) bool {
	h := &msg.Header
	newTerm := h.Term.Compare(a.gate.Seen) > 0
	named := !h.Store.IsZero() && (newTerm || a.gate.Store.IsZero())
	if newTerm || named {
		a.takeOrders()
		kept := a.self.Evidence
		if evidence != nil {
			kept = protocol.Strengthen(kept, evidence)
		}
		if !a.loop.Disk(a.cfg.Queue.SawTerm(a.loop.Steps(), h.Term, h.Store, kept)) {
			return false
		}
		a.self.Evidence = kept
	}
	a.gate.Accept(msg.Topic.Channel, h)
	if newTerm {
		a.voice.SawTerm(h.Term)
		a.cfg.Log.Info("the coordinator speaks in a new term", "term_ring", h.Term.Ring, "term", h.Term.Counter)
	}
	if named {
		for _, p := range a.streams {
			if !p.up && p.at.Store != h.Store {
				p.at = protocol.Position{Store: h.Store, Stream: p.at.Stream}
			}
		}
	}
	if newTerm && a.link.conn != 0 {
		a.greetAgain()
	}
	return true
}

// place is where a stream stands.
type place struct {
	up     bool
	at     protocol.Position // newest taken in, or sent
	freed  protocol.Position // newest that a receipt has freed, of a stream up
	resend stream.Resend     // of a stream up
}

// loadStreams reads where the streams stand.
func (a *Agent) loadStreams(ctx context.Context) error {
	p, err := a.cfg.Queue.Positions(ctx)
	if err != nil {
		return err
	}
	a.streams = make(map[protocol.Stream]*place)
	for _, at := range p.Have {
		a.streams[at.Stream] = &place{at: at}
	}
	for i, at := range p.Sent {
		s := &place{up: true, at: at, freed: p.Freed[i]}
		s.resend.Freed(p.Freed[i].N, a.loop.Now(), a.loop.Jitter())
		a.streams[at.Stream] = s
	}
	return nil
}

// refusalLog keeps what is refused from filling the log: one line a second,
// with the number of those that were left out.
type refusalLog struct {
	last   time.Duration
	silent int
}

// refuse counts a message that was not taken, under its one code.
func (a *Agent) refuse(topic string, err error) {
	a.counters.traffic.Refused(err)
	now := a.loop.Now()
	if a.refused.last != 0 && now-a.refused.last < time.Second {
		a.refused.silent++
		return
	}
	a.cfg.Log.Warn("a message was refused", "topic", topic, "error", err, "more", a.refused.silent)
	a.refused = refusalLog{last: now}
}
