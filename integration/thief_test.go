//go:build integration

package integration

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/hostler-io/hostler/broker"
	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/san"
	"github.com/hostler-io/hostler/protocol/stream"
	keyboard "github.com/hostler-io/hostler/terminal"
)

// thief is somebody with a copy of the coordinator's state directory, in the
// place of the coordinator. It has a broker with certificates of its own making,
// and says to each host whatever the coordinator's key can say. It believes
// everything, as nothing that it hears matters to it.
type thief struct {
	t      *testing.T
	w      *world
	key    *certs.Identity
	fleet  protocol.FleetID
	ring   uint64
	term   protocol.Term
	counts uint64 // of its term: whatever the true coordinator counts, this is more
	server *broker.Server
	stop   func()

	change
	mu    sync.Mutex
	marks map[protocol.HostID]*mark
	k     uint64
	shown []byte // of what commands print
	none  int    // how often a host said that there is nothing of it
	acks  []keyboard.Ack
}

// mark is a host that the thief talks to.
type mark struct {
	store   protocol.StoreID
	heard   protocol.Seq
	chal    protocol.Nonce
	sent    map[protocol.Stream]protocol.Position
	items   map[protocol.Stream][][]byte
	acked   map[protocol.Stream]uint64
	have    map[protocol.Stream]protocol.Position
	reports []protocol.Report
	inputs  map[protocol.ActionID][]byte // what it lets actions read
}

// newThief copies the state of the coordinator, which has ended, and takes its
// place.
func newThief(t *testing.T, w *world) *thief {
	t.Helper()
	booty := w.path("booty")
	w.copyTo(t, w.path("coordinator"), booty)
	h := &thief{t: t, w: w, counts: 1 << 20, marks: make(map[protocol.HostID]*mark)}
	var err error
	if h.key, err = certs.LoadIdentity(filepath.Join(booty, "identity.pgp")); err != nil {
		t.Fatal(err)
	}
	ca, err := certs.LoadAuthority(filepath.Join(booty, "ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	own := w.certificate(t, ca, san.Name{Kind: san.Coordinator})
	pair, err := tls.LoadX509KeyPair(own.cert, own.key)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", w.mqtt)
	if err != nil {
		t.Fatal(err)
	}
	roots := w.roots(t)
	h.server, err = broker.New(broker.Config{
		Fleet: protocol.FleetName(w.fleet), Listener: l,
		TLS: certs.ServerTLS{
			Certificate: func() *tls.Certificate { return &pair }, Roots: func() *x509.CertPool { return roots },
			Admit: func(san.Name, *x509.Certificate) error { return nil },
		}.Mutual(),
		Ingest: func(topic string, payload []byte, _ san.Name) error { h.take(topic, payload); return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- h.server.Run(ctx) }() // waited for by stop
	h.stop = sync.OnceFunc(func() {
		stop()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	t.Cleanup(h.stop)
	return h
}

// take hears what a host says.
func (h *thief) take(topic string, payload []byte) {
	at, err := protocol.ParseTopic(topic)
	if err != nil {
		return
	}
	env, err := protocol.Split(payload)
	if err != nil {
		return
	}
	var head protocol.Header
	if err := protocol.DecodeJSON(env.Body, &head, true); err != nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	defer h.fire()
	m := h.marks[at.Host]
	if m == nil {
		m = &mark{have: make(map[protocol.Stream]protocol.Position), inputs: make(map[protocol.ActionID][]byte)}
		if _, err := rand.Read(m.store[:]); err != nil {
			h.t.Error(err)
		}
		h.marks[at.Host] = m
		m.sent, m.items = make(map[protocol.Stream]protocol.Position), make(map[protocol.Stream][][]byte)
		m.acked = make(map[protocol.Stream]uint64)
		for _, s := range []protocol.Stream{protocol.StreamOrder, protocol.StreamControl} {
			m.sent[s] = protocol.Position{Store: m.store, Stream: s}
		}
	}
	h.fleet, h.ring = head.Fleet, max(h.ring, head.Ring)
	h.term = protocol.Term{Ring: h.ring, Counter: h.counts}
	switch at.Channel {
	case protocol.ChannelPresence:
		var p protocol.Presence
		if json.Unmarshal(env.Body, &p) != nil || p.Kind != protocol.PresenceHello {
			return
		}
		m.heard = p.Seq
		for _, at := range p.Hello.Freed { // what was before it is for others
			if m.have[at.Stream].N == 0 {
				m.have[at.Stream] = at
			}
		}
		if _, err := rand.Read(m.chal[:]); err != nil {
			h.t.Error(err)
		}
		h.receipt(at.Host, m)
		h.resend(at.Host, m)
	case protocol.ChannelLease:
		m.heard = head.Seq
		g := protocol.Grant{Header: h.header(protocol.TypeGrant, at.Host), TTLms: 90_000}
		g.Seq, g.Heard = h.next(), m.heard
		h.down(at.Host, protocol.ChannelGrant, g)
		h.resend(at.Host, m)
	case protocol.ChannelAck:
		var a protocol.Ack
		if json.Unmarshal(env.Body, &a) != nil {
			return
		}
		for _, p := range a.Have {
			if p.Store == m.store {
				m.acked[p.Stream] = max(m.acked[p.Stream], p.N)
			}
		}
		for _, c := range a.Credit {
			h.feed(at.Host, m, c)
		}
	case protocol.ChannelOut:
		switch {
		case head.FD == protocol.TTYInput:
			acks, err := keyboard.ParseAcks(payload[len(payload)-int(head.Size):])
			if err != nil {
				h.t.Error(err)
			}
			h.acks = append(h.acks, acks...)
		case head.Size == 0:
			h.none++
		default:
			h.shown = append(h.shown, payload[len(payload)-int(head.Size):]...)
		}
	case protocol.ChannelReport, protocol.ChannelAlert:
		have := m.have[head.Stream]
		if have.Store != head.Store {
			have = protocol.Position{Store: head.Store, Stream: head.Stream}
		}
		if stream.Receive(have, head.Store, head.N) == stream.Deliver {
			have = stream.Next(have, head.Item)
			var r protocol.Report
			if head.Stream == protocol.StreamReport && json.Unmarshal(head.Item, &r) == nil {
				m.reports = append(m.reports, r)
			}
		}
		m.have[head.Stream] = have
		h.receipt(at.Host, m)
	}
}

func (h *thief) header(t protocol.Type, host protocol.HostID) protocol.Header {
	return protocol.Header{Type: t, Fleet: h.fleet, From: protocol.Coordinator, To: protocol.HostParty(host), Ring: h.ring, Term: h.term}
}

func (h *thief) next() protocol.Seq {
	h.k++
	return protocol.Seq{Inc: h.term.Counter, Conn: 1, K: h.k}
}

func (h *thief) receipt(host protocol.HostID, m *mark) {
	r := protocol.Receipt{Header: h.header(protocol.TypeReceipt, host), Answers: m.heard, Give: m.chal}
	r.Seq = h.next()
	for _, p := range m.have {
		r.Have = append(r.Have, p)
	}
	for _, p := range m.sent {
		r.Sent = append(r.Sent, p)
	}
	h.down(host, protocol.ChannelReceipt, r)
}

// feed lets an action read what the thief has for it, whatever was promised.
func (h *thief) feed(host protocol.HostID, m *mark, c protocol.Credit) {
	data := m.inputs[c.Action]
	if c.Offset < 0 || c.Offset >= int64(len(data)) || c.Window <= 0 {
		return
	}
	h.chunk(host, c.Action, c.Attempt, c.Offset, data[c.Offset:min(int64(len(data)), c.Offset+c.Window)])
}

// chunk brings bytes to an action.
func (h *thief) chunk(host protocol.HostID, id protocol.ActionID, attempt int, offset int64, data []byte) {
	h.bring(host, id, attempt, protocol.Stdin, offset, data)
}

// types types in a session, in somebody's name.
func (h *thief) types(host protocol.HostID, id protocol.ActionID, peer keyboard.Peer, who, text string) {
	packet := keyboard.AppendPacket(nil, keyboard.Packet{Peer: peer, Number: 1, Data: keyboard.AppendData(nil, []byte(text))})
	h.mu.Lock()
	defer h.mu.Unlock()
	h.bring(host, id, 1, protocol.TTYInput, 0, keyboard.AppendTyped(nil, keyboard.Typed{Who: who, Packet: packet}))
}

// asks asks for all that an action has printed.
func (h *thief) asks(host protocol.HostID, id protocol.ActionID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	m := h.marks[host]
	r := protocol.Receipt{Header: h.header(protocol.TypeReceipt, host), Answers: m.heard, Give: m.chal}
	r.Seq = h.next()
	for _, fd := range []protocol.FD{protocol.Stdout, protocol.Recording} {
		r.Credit = append(r.Credit, protocol.Credit{Action: id, Attempt: 1, FD: fd, Window: 1 << 20})
	}
	h.down(host, protocol.ChannelReceipt, r)
}

func (h *thief) bring(host protocol.HostID, id protocol.ActionID, attempt int, fd protocol.FD, offset int64, data []byte) {
	head := h.header(protocol.TypeIn, host)
	head.Action, head.Attempt, head.FD, head.Offset = id, attempt, fd, offset
	head.Size, head.SHA256 = int64(len(data)), protocol.Sum(data)
	body, err := json.Marshal(head)
	if err != nil {
		h.t.Error(err)
		return
	}
	payload, err := protocol.Seal(h.key, body, data)
	if err != nil {
		h.t.Error(err)
		return
	}
	topic := protocol.HostTopic(protocol.FleetName(h.w.fleet), host, protocol.ChannelIn)
	topic.Action = id
	h.publish(topic, payload, false)
}

func (h *thief) down(host protocol.HostID, ch protocol.Channel, v any) {
	h.seal(protocol.HostTopic(protocol.FleetName(h.w.fleet), host, ch), v, false)
}

// seal signs something and says it on a topic.
func (h *thief) seal(topic protocol.Topic, v any, retained bool) {
	body, err := json.Marshal(v)
	if err != nil {
		h.t.Error(err)
		return
	}
	payload, err := protocol.Seal(h.key, body, nil)
	if err != nil {
		h.t.Error(err)
		return
	}
	h.publish(topic, payload, retained)
}

func (h *thief) publish(topic protocol.Topic, payload []byte, retained bool) {
	if err := h.server.Publish(topic.String(), payload, retained); err != nil {
		h.t.Error(err)
	}
}

// push gives an item a number and sends it.
func (h *thief) push(host protocol.HostID, s protocol.Stream, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		h.t.Fatal(err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	m := h.marks[host]
	m.items[s] = append(m.items[s], b)
	m.sent[s] = stream.Next(m.sent[s], b)
	h.send(host, m, s, m.sent[s].N)
}

func (h *thief) send(host protocol.HostID, m *mark, s protocol.Stream, n uint64) {
	t, ch := protocol.TypeOrder, protocol.ChannelOrder
	if s == protocol.StreamControl {
		t, ch = protocol.TypeControl, protocol.ChannelControl
	}
	head := h.header(t, host)
	head.Store, head.Stream, head.N, head.Item = m.store, s, n, m.items[s][n-1]
	var c protocol.ControlItem
	carries := s == protocol.StreamControl && json.Unmarshal(head.Item, &c) == nil && c.Verb == protocol.VerbPreempt
	if s == protocol.StreamOrder || carries {
		head.Heard, head.LeftMS = m.heard, 60_000
	}
	h.down(host, ch, head)
}

// resend sends again what has no receipt, and at most as much as may be on its
// way.
func (h *thief) resend(host protocol.HostID, m *mark) {
	for s, items := range m.items {
		for n := m.acked[s] + 1; n <= min(uint64(len(items)), m.acked[s]+64); n++ {
			h.send(host, m, s, n)
		}
	}
}

// met waits until a host has taken in whatever was sent to it.
func (h *thief) met(t testing.TB, host protocol.HostID) {
	t.Helper()
	until(t, &h.change, string(host)+" takes in what it is sent", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		m := h.marks[host]
		if m == nil || m.chal.IsZero() {
			return false
		}
		for s, items := range m.items {
			if m.acked[s] < uint64(len(items)) {
				return false
			}
		}
		return true
	})
}

// told waits until a host has said what became of an action for good.
func (h *thief) told(t testing.TB, host protocol.HostID, id protocol.ActionID) (last protocol.Report) {
	t.Helper()
	until(t, &h.change, string(host)+" tells the end of an action", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		for _, r := range h.marks[host].reports {
			if r.Action == id && r.State.Final() {
				last = r
				return true
			}
		}
		return false
	})
	return last
}

// began is whether a host has ever said that an action has begun.
func (h *thief) began(host protocol.HostID, id protocol.ActionID) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range h.marks[host].reports {
		if r.Action == id && (r.State == protocol.StateRunning || r.State == protocol.StateDone) {
			return true
		}
	}
	return false
}

// loadKey is a person's key, as the operator's program keeps it.
func (w *world) loadKey(t testing.TB, name string) *certs.Identity {
	t.Helper()
	all, err := filepath.Glob(w.path("operator/*/keys/" + name + ".key"))
	if err != nil || len(all) != 1 {
		t.Fatalf("keys of %s: %v, %v", name, all, err)
	}
	k, err := certs.OpenPersonKey(all[0])
	if err != nil {
		t.Fatal(err)
	}
	id, err := k.Unlock(nil)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// exists reports whether there is something at a path.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
