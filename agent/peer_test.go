package agent_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"sync"
	"testing"

	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/beat"
	"github.com/hostler-io/hostler/protocol/fresh"
	"github.com/hostler-io/hostler/protocol/stream"
	"github.com/hostler-io/hostler/terminal"
)

// peer is the other end of the conversation, made of the pure parts of
// package protocol.
type peer struct {
	t     *testing.T
	line  *line
	ring  *ring
	mu    sync.Mutex
	store protocol.StoreID
	term  protocol.Term
	k     uint64
	gate  fresh.HostGate
	heard protocol.Seq
	hello *protocol.Hello
	sent  map[protocol.Stream]protocol.Position
	items map[protocol.Stream][][]byte
	acked map[protocol.Stream]uint64
	have  map[protocol.Stream]protocol.Position
	// What was taken.
	reports   []protocol.Report
	alerts    []protocol.Alert
	presences []protocol.PresenceKind
	beats     []protocol.Heartbeat // pages; a change has what it makes of the state
	state     beat.State           // that they tell
	deltas    int
	kept      uint64 // the heartbeat that receipts name
	deaf      bool   // receipts name no heartbeat
	leases    int
	sleepMS   int64                // of the newest
	grants    []protocol.LeaseHeld // what the next grants name
	acks      int
	out       map[protocol.FD][]byte
	typedAcks []terminal.Ack
	chunks    int
	nothing   []int64 // offsets of which the host said that nothing is there
	credit    []protocol.Credit
	claims    uint64 // the ring that its messages name; 0 is the one held
	mute      bool
	leftMS    int64
	key       protocol.Signer                              // signs what goes down
	seal      []byte                                       // the next receipt's checkpoint
	knows     protocol.Position                            // the next receipt's head of the host's audit log
	samples   func(packed []byte) (taken int, again int64) // answers samples; nil: none are taken
	measured  int                                          // messages of samples
}

func newPeer(t *testing.T, l *line, r *ring) *peer {
	c := &peer{t: t, line: l, ring: r, store: protocol.StoreID{9}, term: protocol.Term{Ring: 1, Counter: 1}, leftMS: 60_000, key: coordinatorKey,
		have: make(map[protocol.Stream]protocol.Position), out: make(map[protocol.FD][]byte)}
	c.reset()
	return c
}

// reset begins the streams down anew, as a new store does.
func (c *peer) reset() {
	c.sent, c.items = make(map[protocol.Stream]protocol.Position), make(map[protocol.Stream][][]byte)
	c.acked = make(map[protocol.Stream]uint64)
	for _, s := range []protocol.Stream{protocol.StreamOrder, protocol.StreamControl} {
		c.sent[s] = protocol.Position{Store: c.store, Stream: s}
	}
}

// Fresh and Term are the coordinator's freshness.
func (c *peer) Fresh(t protocol.Topic, h *protocol.Header) error {
	if h.IsHello() || h.Seq == (protocol.Seq{}) {
		return nil
	}
	return c.gate.State(t.Channel, h.Seq, h.Chal)
}
func (c *peer) Term(*protocol.Header) error { return nil }

// take is everything that comes up.
func (c *peer) take(topic string, payload []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mute {
		return
	}
	m, err := protocol.Open(payload, protocol.Expect{Fleet: fleet, FleetName: fleetName, Self: protocol.Coordinator,
		Keys: c.ring, Ring: 99, Topic: topic, Fresh: c})
	if errors.Is(err, protocol.ErrChallenge) || errors.Is(err, protocol.ErrStale) {
		return
	}
	if err != nil {
		c.t.Errorf("on %s: %v", topic, err)
		return
	}
	decode := func(v any) {
		if err := m.Decode(v); err != nil {
			c.t.Errorf("on %s: %v", topic, err)
		}
	}
	switch m.Topic.Channel {
	case protocol.ChannelPresence:
		var p protocol.Presence
		decode(&p)
		c.presences = append(c.presences, p.Kind)
		if p.Kind == protocol.PresenceHello {
			give, current := c.gate.Hello(p.Seq, p.Hello.Inst, protocol.Nonce{byte(len(c.presences)), 1})
			if current {
				c.hello, c.heard, c.kept = p.Hello, p.Seq, 0
				c.receipt(p.Seq, give)
				c.resend(true)
			}
		}
	case protocol.ChannelLease:
		c.leases++
		c.heard = m.Header.Seq
		var l protocol.Lease
		decode(&l)
		c.sleepMS = l.SleepMS
		g := protocol.Grant{Header: c.header(protocol.TypeGrant), TTLms: 90_000, Held: c.grants}
		g.Seq, g.Heard = c.next(), c.heard
		c.down(protocol.ChannelGrant, g)
		c.resend(false)
	case protocol.ChannelHeartbeat:
		var b protocol.Heartbeat
		decode(&b)
		c.beat(b)
	case protocol.ChannelAck:
		var a protocol.Ack
		decode(&a)
		c.acks++
		for _, p := range a.Have {
			if p.Store == c.store {
				c.acked[p.Stream] = max(c.acked[p.Stream], p.N)
			}
		}
	case protocol.ChannelReport, protocol.ChannelAlert:
		c.item(m)
	case protocol.ChannelSamples:
		c.measured++
		if taken, again := c.samples(m.Attachment); taken >= 0 {
			before := c.credit
			c.credit = append(before[:len(before):len(before)], protocol.Credit{Action: m.Header.Action, Attempt: 1, FD: protocol.Samples, Offset: int64(taken), Window: again})
			c.receipt(c.gate.Conn())
			c.credit = before
		}
	case protocol.ChannelOut:
		h := m.Header
		if h.FD == protocol.TTYInput {
			acks, err := terminal.ParseAcks(m.Attachment)
			if err != nil {
				c.t.Errorf("acknowledgements: %v", err)
			}
			c.typedAcks = append(c.typedAcks, acks...)
			return
		}
		c.chunks++
		if h.Size == 0 {
			c.nothing = append(c.nothing, h.Offset)
		}
		if have := int64(len(c.out[h.FD])); h.Offset <= have && h.Offset+h.Size > have {
			c.out[h.FD] = append(c.out[h.FD], m.Attachment[have-h.Offset:]...)
		}
	}
}

func (c *peer) item(m protocol.Message) {
	h := m.Header
	have := c.have[h.Stream]
	if have.Store != h.Store {
		have = protocol.Position{Store: h.Store, Stream: h.Stream}
	}
	if stream.Receive(have, h.Store, h.N) == stream.Deliver {
		have = stream.Next(have, h.Item)
		var err error
		if h.Stream == protocol.StreamReport {
			var r protocol.Report
			err = m.DecodeItem(&r)
			c.reports = append(c.reports, r)
		} else {
			var a protocol.Alert
			err = m.DecodeItem(&a)
			c.alerts = append(c.alerts, a)
		}
		if err != nil {
			c.t.Errorf("item %d of %s: %v", h.N, h.Stream, err)
		}
	}
	c.have[h.Stream] = have
	conn, chal := c.gate.Conn()
	c.receipt(conn, chal)
}

func (c *peer) header(t protocol.Type) protocol.Header {
	h := protocol.Header{Type: t, Fleet: fleet, From: protocol.Coordinator, To: protocol.HostParty(host), Ring: c.ring.Ring(), Term: c.term}
	if c.claims != 0 {
		h.Ring = c.claims
	}
	return h
}

func (c *peer) next() protocol.Seq {
	c.k++
	return protocol.Seq{Inc: c.term.Counter, Conn: 1, K: c.k}
}

// beat takes a page of a heartbeat. Changes come on one page here.
func (c *peer) beat(b protocol.Heartbeat) {
	switch {
	case b.Base != 0:
		d := beat.Delta{Host: b.Host, Containers: b.Containers, Alerts: b.Alerts, Removed: b.Removed, Cleared: b.Cleared, Digest: b.Digest}
		if b.Figures != nil {
			d.Figures = *b.Figures
		} else {
			d.Figures = b.Host.Figures
		}
		s, err := beat.Apply(c.state, d, 1<<20)
		if err != nil || b.Parts != 1 {
			c.t.Errorf("the change to heartbeat %d cannot be applied: %v", b.Base, err)
		}
		c.deltas++
		c.state, b.Host, b.Containers, b.Alerts = s, &s.Host, s.Containers, s.Alerts
	case b.Part == 1:
		c.state = beat.State{Host: *b.Host, Containers: b.Containers, Alerts: b.Alerts}
	default:
		c.state.Containers, c.state.Alerts = append(c.state.Containers, b.Containers...), append(c.state.Alerts, b.Alerts...)
	}
	c.beats = append(c.beats, b)
	if conn, chal := c.gate.Conn(); b.Part == b.Parts && !c.deaf {
		c.kept = b.AsOf
		c.receipt(conn, chal)
	}
}

func (c *peer) receipt(answers protocol.Seq, give protocol.Nonce) {
	if answers == (protocol.Seq{}) {
		return
	}
	r := protocol.Receipt{Header: c.header(protocol.TypeReceipt), Answers: answers, Give: give, Credit: c.credit, Beat: c.kept, Samples: c.samples != nil}
	r.Seq = c.next()
	r.Checkpoint, r.Audit, c.seal, c.knows = c.seal, c.knows, nil, protocol.Position{}
	for _, p := range c.have {
		r.Have = append(r.Have, p)
	}
	for _, p := range c.sent {
		r.Sent = append(r.Sent, p)
	}
	c.down(protocol.ChannelReceipt, r)
}

func (c *peer) down(ch protocol.Channel, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		c.t.Error(err)
		return
	}
	payload := c.seals(body, nil)
	topic := protocol.HostTopic(fleetName, host, ch)
	if ch == protocol.ChannelCoordinator {
		topic = protocol.FleetTopic(fleetName, ch)
	}
	c.line.deliver(topic.String(), payload)
}

func (c *peer) seals(body, attachment []byte) []byte {
	payload, err := protocol.Seal(c.key, body, attachment)
	if err != nil {
		c.t.Error(err)
	}
	return payload
}

// push gives an item a number and sends it.
func (c *peer) push(s protocol.Stream, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		c.t.Error(err)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.items[s] = append(c.items[s], b)
	c.sent[s] = stream.Next(c.sent[s], b)
	c.send(s, c.sent[s].N)
}

func (c *peer) send(s protocol.Stream, n uint64) {
	t, ch := protocol.TypeOrder, protocol.ChannelOrder
	if s == protocol.StreamControl {
		t, ch = protocol.TypeControl, protocol.ChannelControl
	}
	h := c.header(t)
	h.Store, h.Stream, h.N, h.Item = c.store, s, n, c.items[s][n-1]
	carries := s == protocol.StreamControl && bytes.Contains(h.Item, []byte(`"verb":"preempt"`))
	if s == protocol.StreamOrder || carries {
		if c.heard == (protocol.Seq{}) {
			return
		}
		h.Heard, h.LeftMS = c.heard, c.leftMS
	}
	c.down(ch, h)
}

// resend sends again what has no receipt.
func (c *peer) resend(bool) {
	for s, items := range c.items {
		for n := c.acked[s] + 1; n <= uint64(len(items)); n++ {
			c.send(s, n)
		}
	}
}

// order asks the host to do something.
func (c *peer) order(id protocol.ActionID, s protocol.Spec) {
	b, err := json.Marshal(s)
	if err != nil {
		c.t.Error(err)
	}
	c.push(protocol.StreamOrder, protocol.OrderItem{Action: id, Spec: b, Requester: "ann"})
}

// now asks the host to do something that waits for nobody.
func (c *peer) now(id protocol.ActionID, s protocol.Spec) {
	b, err := json.Marshal(s)
	if err != nil {
		c.t.Error(err)
	}
	c.push(protocol.StreamControl, protocol.ControlItem{Verb: protocol.VerbPreempt, Order: &protocol.OrderItem{Action: id, Spec: b, Requester: "ann"}})
}

func (c *peer) cancel(id protocol.ActionID) {
	c.push(protocol.StreamControl, protocol.ControlItem{Verb: protocol.VerbCancel, Action: id})
}

// told is what was reported of an action, in short.
func (c *peer) told(id protocol.ActionID) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := []string{}
	for _, r := range c.reports {
		if r.Action != id {
			continue
		}
		s := string(r.Event) + " " + string(r.State)
		if r.Reason != "" {
			s += " " + string(r.Reason)
		}
		if r.Cancel {
			s += " cancelling"
		}
		all = append(all, s)
	}
	return all
}

// see runs f with the coordinator's state.
func (c *peer) see(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
}
