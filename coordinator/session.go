package coordinator

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/stream"
)

// Silence after which a host is no longer believed to be there. It sends a
// lease every 5 s: three may be lost before people are told, and after a
// minute nobody expects it any more. Neither moves anything but the screen.
const (
	suspectAfter = 20 * time.Second
	offlineAfter = time.Minute
)

// heardFresh is how young the newest sign of a host must be for an order to be
// numbered: what cannot arrive now waits here and not on the wire.
const heardFresh = time.Minute

// Connectivity is what is known of a host's presence.
type Connectivity string

// The degrees of presence.
const (
	Online  Connectivity = "online"  // heard with the current challenge just now
	Suspect Connectivity = "suspect" // its connection broke, or it has been silent for a while
	Offline Connectivity = "offline" // said goodbye, or silent for long
	Unknown Connectivity = "unknown" // not heard since this coordinator started
)

// session is what is known of one host since this process started. Nothing in
// it must survive.
type session struct {
	c    *Coordinator
	host protocol.HostID

	mu        sync.Mutex
	gate      protocol.HostGate
	store     protocol.StoreID                      // the host's database as of its newest hello
	heard     protocol.Seq                          // newest hello or lease that was verified
	heardAt   int64                                 // boot clock, ms
	seenMS    int64                                 // wall clock, for people
	proven    bool                                  // the current challenge came back: the host is there now
	claims    *protocol.Hello                       // the newest hello, until it is proven
	left      bool                                  // it said goodbye
	broken    bool                                  // its will came
	helloAt   int64                                 // boot clock when hellos began to count
	hellos    int                                   // answered since then
	wantFull  bool                                  // the next receipt asks for a heartbeat
	beatHeld  uint64                                // as_of of the newest heartbeat that is kept
	lacking   int                                   // leases in a row that tell of a newer one
	owed      bool                                  // something that the host must learn has changed since the last receipt
	unsent    bool                                  // actions may wait for a number
	numbering bool                                  // they are being given theirs
	expiry    map[protocol.ActionID]int64           // start budgets of orders that were numbered and not sent yet
	lookAt    []protocol.ActionID                   // may have ended while numbers were given
	toAsk     bool                                  // about open actions; see askAgain
	askedFor  protocol.Digest                       // the policy whose text the host was asked for
	audit     protocol.Position                     // head of the host's own audit log that it is to be told, once
	sealed    uint64                                // of the audit log: the newest checkpoint that this connection was told
	freeable  map[protocol.Stream]protocol.Position // acknowledged, to be freed with the next transaction
	receipted map[protocol.ActionID]int64           // when orders were acknowledged, to be noted with what is written next
	whyMS     int64                                 // boot clock when it was last asked why something waits, or will be
	beat      heartbeatPages
	up        map[protocol.Stream]protocol.Position // taken in durably
	resend    map[protocol.Stream]*stream.Resend
	newest    map[protocol.Stream]protocol.Position // newest item that was given a number, downwards
	allocated map[protocol.Stream]map[uint64]core.Item
	credits   map[outputID]core.Range // what to tell the host with the next receipt

	inbox  lane // what is no chunk
	chunks lane // of output: they come on another connection, and wait for no transaction of inbox

	written  []*output // by the present batch of chunks; its worker's own
	unsynced []*output // of earlier batches, not durable yet
	syncing  bool      // somebody is at it

	// Each keeps messages of one host in order on the wire: items, and state
	// messages, which never wait for the store.
	itemMu, stateMu sync.Mutex
}

// A lane is taken in order by one worker. session.mu guards it.
type lane struct {
	waiting []inbound
	bytes   int // payloads of waiting
	working bool
}

type inbound struct {
	channel protocol.Channel
	topic   string
	payload []byte
}

// What of one host may wait for its transaction, in messages and bytes. An
// honest host has at most a window of each stream and of the chunks of a few
// commands under way; what comes beyond is dropped and will come again. Chunks
// are counted for themselves: no output keeps a report out. So is what a
// transaction has under way already, which waited within the same bounds.
const (
	maxInbox      = 4 * stream.Window
	maxInboxBytes = 4 << 20
	maxChunkBytes = 2 * protocol.ChunkWindow
)

func (c *Coordinator) session(h protocol.HostID) *session {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.sessions[h]
	if !ok {
		s = &session{
			c: c, host: h,
			credits: make(map[outputID]core.Range),
		}
		s.start()
		c.sessions[h] = s
	}
	return s
}

func (c *Coordinator) allSessions() []*session {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]*session, 0, len(c.sessions))
	for _, s := range c.sessions {
		all = append(all, s)
	}
	return all
}

// forget begins anew with a host that was readmitted: with the old gate, the
// proof of a fork would outlive the decision of a person.
func (s *session) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gate = protocol.HostGate{}
	s.proven, s.helloAt = false, 0
	s.start()
}

// start begins without anything sent. It is called with mu held, or before
// anybody else knows the session.
func (s *session) start() {
	s.resend = map[protocol.Stream]*stream.Resend{protocol.StreamOrder: {}, protocol.StreamControl: {}}
	s.up = make(map[protocol.Stream]protocol.Position)
	s.newest = make(map[protocol.Stream]protocol.Position)
	s.freeable = make(map[protocol.Stream]protocol.Position)
	s.expiry = make(map[protocol.ActionID]int64)
	s.receipted = make(map[protocol.ActionID]int64)
	s.allocated = map[protocol.Stream]map[uint64]core.Item{protocol.StreamOrder: {}, protocol.StreamControl: {}}
}

// connectivity judges what is known at a time of the boot clock.
func (s *session) connectivity(now int64) (Connectivity, int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	silence := time.Duration(now-s.heardAt) * time.Millisecond
	switch {
	case s.heardAt == 0:
		return Unknown, 0
	case s.left || silence > offlineAfter:
		return Offline, s.seenMS
	case s.broken || !s.proven || silence > suspectAfter:
		return Suspect, s.seenMS
	}
	return Online, s.seenMS
}

// reachable reports whether an order given now is likely to arrive, and what
// it answers.
func (s *session) reachable() (heard protocol.Seq, age time.Duration, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	age = time.Duration(s.c.cfg.Boot()-s.heardAt) * time.Millisecond
	return s.heard, age, s.proven && !s.left && !s.broken && age < heardFresh
}

// Ingest takes a message from the broker. Leases are handled at once;
// everything that may need the store is queued for the host's worker. It never
// waits for the disk, so it may be called from a connection's read loop. What
// it refuses is counted; the error is only for tests.
func (c *Coordinator) Ingest(topic string, payload []byte) error {
	c.stats.received.Add(1)
	t, err := protocol.ParseTopic(topic)
	if err == nil && t.Channel.Direction() != protocol.Up {
		return nil // our own words come back through the broker
	}
	if err == nil && len(payload) > protocol.MaxSize(t.Channel) {
		err = fmt.Errorf("%w: %d bytes", protocol.ErrSize, len(payload))
	}
	if err != nil {
		return c.refuse(topic, err)
	}
	s, err := c.known(t, topic, payload)
	if err != nil {
		return c.refuse(topic, err)
	}
	if t.Channel == protocol.ChannelLease && s.alive() {
		return c.refuse(topic, s.onLease(inbound{t.Channel, topic, payload}))
	}
	s.enqueue(inbound{t.Channel, topic, payload})
	return nil
}

// refuse counts and logs an error, if it is one.
func (c *Coordinator) refuse(topic string, err error) error {
	if err != nil {
		c.refusals.add(topic, c.stats.refuse(err), err)
	}
	return err
}

// enqueue gives a message to the worker of the host.
func (s *session) enqueue(in inbound) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, limit, take := &s.inbox, maxInboxBytes, s.take
	if in.channel == protocol.ChannelOut {
		l, limit, take = &s.chunks, maxChunkBytes, s.takeChunks
	}
	full := len(l.waiting) >= maxInbox || l.bytes+len(in.payload) > limit
	if full || !l.working && !s.c.workers.start(func() { s.work(l, take) }) {
		s.c.stats.dropped.Add(1)
		return
	}
	l.bytes += len(in.payload)
	l.waiting, l.working = append(l.waiting, in), true
}

// work takes messages of one host in order until none is left. It ends by
// itself, so an idle host costs no goroutine.
func (s *session) work(l *lane, take func([]inbound)) {
	for {
		s.mu.Lock()
		batch := l.waiting
		l.waiting, l.bytes = nil, 0
		l.working = len(batch) > 0
		s.mu.Unlock()
		if len(batch) == 0 {
			return
		}
		take(batch)
	}
}

// takeChunks handles a batch of chunks.
func (s *session) takeChunks(batch []inbound) {
	for _, in := range batch {
		_ = s.c.refuse(in.topic, s.onOut(in))
	}
	s.commitSoon()
	s.receiptIfOwed()
}

// take handles a batch: items of all streams share one transaction.
func (s *session) take(batch []inbound) {
	var items []protocol.Message
	for _, in := range batch {
		var err error
		switch in.channel {
		case protocol.ChannelReport, protocol.ChannelAlert:
			var m protocol.Message
			if m, err = protocol.Open(in.payload, s.c.expect(in.topic, itemFresh{s})); err == nil {
				items = append(items, m)
			}
		case protocol.ChannelPresence:
			err = s.onPresence(in)
		case protocol.ChannelLease:
			err = s.onLease(in)
		case protocol.ChannelAck:
			err = s.onAck(in)
		case protocol.ChannelHeartbeat:
			err = s.onHeartbeat(in)
		}
		_ = s.c.refuse(in.topic, err)
	}
	if len(items) > 0 {
		s.onItems(items)
		s.owe()
	}
	s.receiptIfOwed()
}

func (s *session) receiptIfOwed() {
	s.mu.Lock()
	owed := s.owed
	s.mu.Unlock()
	if owed {
		s.receipt()
	}
}

// owe makes the present batch end with a receipt.
func (s *session) owe() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.owed = true
}

// expect is what the coordinator knows before it looks at a message.
func (c *Coordinator) expect(topic string, f protocol.Freshness) protocol.Expect {
	return protocol.Expect{
		Fleet: c.cfg.Fleet, FleetName: c.cfg.FleetName, Self: protocol.Coordinator,
		Keys: c.cfg.Trust, Ring: c.cfg.Trust.Ring(), Topic: topic, Fresh: f,
	}
}

// unfresh is for messages that cannot pass the earlier checks.
type unfresh struct{}

func (unfresh) Fresh(protocol.Topic, *protocol.Header) error { return protocol.ErrStale }
func (unfresh) Term(*protocol.Header) error                  { return nil }

// itemFresh judges items and chunks: their number, not their age, tells what
// is new, but they must be of the database that the host speaks for now. Items
// that overtake the proof of a hello wait until they are sent again: taken in
// before, they would make that hello look as if the host had gone back.
type itemFresh struct{ s *session }

func (itemFresh) Fresh(protocol.Topic, *protocol.Header) error { return nil }

func (f itemFresh) Term(h *protocol.Header) error {
	if err := f.s.c.base.MayDecide(); err != nil {
		return fmt.Errorf("%w: %w", protocol.ErrStale, err)
	}
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	switch {
	case h.Store.IsZero():
	case h.Store != f.s.store:
		return fmt.Errorf("%w: store %s, the host's is %s", protocol.ErrStore, h.Store, f.s.store)
	case f.s.claims != nil:
		return fmt.Errorf("%w: the hello is not proven yet", protocol.ErrStale)
	}
	return nil
}

// stateFresh judges state messages by the session's gate. A hello passes: it
// is judged together with its instance, which is in its payload.
type stateFresh struct{ s *session }

func (f stateFresh) Fresh(t protocol.Topic, h *protocol.Header) error {
	if h.IsHello() {
		return nil
	}
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	return f.s.gate.State(t.Channel, h.Seq, h.Chal)
}

func (stateFresh) Term(*protocol.Header) error { return nil }

// known returns the session of the host on whose topic a message came, if its
// key is that host's: nobody can make sessions by inventing names. Otherwise
// it returns the refusal, which Open words.
func (c *Coordinator) known(t protocol.Topic, topic string, payload []byte) (*session, error) {
	env, err := protocol.Split(payload)
	if err != nil {
		return nil, err
	}
	if p, ok := c.cfg.Trust.Principal(env.Key); !ok || p.Revoked || p.Host != t.Host {
		if _, err = protocol.Open(payload, c.expect(topic, unfresh{})); err == nil {
			err = protocol.ErrUnknownKey
		}
		return nil, err
	}
	return c.session(t.Host), nil
}

// openState opens a state message of a host and reacts to a fork.
func (s *session) openState(in inbound) (protocol.Message, error) {
	m, err := protocol.Open(in.payload, s.c.expect(in.topic, stateFresh{s}))
	if errors.Is(err, protocol.ErrFork) {
		s.c.quarantine(s.host, "two processes speak for this host: its key or its disk was copied")
	}
	return m, err
}

// onLease renews. Once the host has proven itself that is memory only, and
// done in the connection's reader: no disk and no queue delays a grant.
func (s *session) onLease(in inbound) error {
	c := s.c
	m, err := s.openState(in)
	if err != nil {
		return err
	}
	var l protocol.Lease
	if err := m.Decode(&l); err != nil {
		return err
	}
	if err := s.hear(m.Header.Seq); err != nil {
		return err
	}
	if s.lacks(l.Beat) {
		s.receipt()
	}
	if c.base.Recovery() != "" || c.isQuarantined(s.host) {
		return nil
	}
	g := protocol.Grant{Header: c.header(protocol.TypeGrant, protocol.HostParty(s.host)), TTLms: leaseTTL.Milliseconds(), Held: []protocol.LeaseHeld{}}
	g.Heard = m.Header.Seq
	s.stateMu.Lock()
	defer s.stateMu.Unlock()
	g.Seq = c.nextSeq()
	return c.publish(s.topic(protocol.ChannelGrant), g)
}

// askBeat is how many leases apart a heartbeat that did not arrive is asked
// for at the most: once a minute.
const askBeat = 12

// lacks reports whether the host is to be asked for its heartbeat, because the
// newest one was lost, or its pages came in another order. One may be on its
// way; and a disk that hangs keeps those of all hosts back: they are asked at
// the second lease that tells of it, then twice as late each time.
func (s *session) lacks(told uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if told == s.beatHeld {
		s.lacking = 0
		return false
	}
	s.lacking++
	n := s.lacking
	if n%askBeat != 0 && (n == 1 || n > askBeat || n&(n-1) != 0) {
		return false
	}
	s.wantFull = true
	return true
}

// leaseTTL is how long a host may hold on to what it was granted without
// another grant.
const leaseTTL = 90 * time.Second

func (s *session) topic(ch protocol.Channel) protocol.Topic {
	return protocol.HostTopic(s.c.cfg.FleetName, s.host, ch)
}

// publish seals and publishes, and counts. That the broker could not take it
// is no refusal of what was received: it is logged and mended by repetition.
func (c *Coordinator) publish(t protocol.Topic, body any) error {
	if err := c.send(t, body); err != nil {
		c.log.Debug("cannot publish", "topic", t.String(), "err", err)
		return nil
	}
	c.stats.published.Add(1)
	return nil
}

// hear notes a message that carried the current challenge. The first one after
// a hello or a silence means that the host is there: what it claimed is looked
// at, and what waited for it can go. That needs the store, so the first one is
// for the session's worker; see alive.
func (s *session) hear(seq protocol.Seq) error {
	s.mu.Lock()
	conn, _ := s.gate.Conn()
	first := !s.proven || s.broken
	s.mu.Unlock()
	if !conn.SameConn(seq) {
		return fmt.Errorf("%w: a newer connection said hello meanwhile", protocol.ErrStale)
	}
	if first {
		if err := s.prove(); err != nil {
			return err
		}
	}
	s.mu.Lock()
	s.heard, s.heardAt, s.seenMS = seq, s.c.cfg.Boot(), s.c.base.NowMS()
	s.proven, s.left, s.broken = s.claims == nil, false, false
	s.unsent, s.toAsk = s.unsent || first, s.toAsk || first
	s.mu.Unlock()
	if !first {
		return nil
	}
	s.c.emitHost(s.host, "host.online", "")
	s.c.workers.start(func() {
		s.sendWaiting(s.c.ctx)
		s.resumeOutput()
	})
	return nil
}

// alive reports whether the host has proven itself, so that its leases are
// memory only.
func (s *session) alive() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proven && !s.broken
}

// tick is the slow look at a session: resend what is due, schedule what could
// not be sent, tell people about silence.
func (s *session) tick(ctx context.Context) {
	s.flush()
	if _, _, ok := s.reachable(); ok {
		s.reask()
		s.sendWaiting(ctx)
		return
	}
	now := s.c.cfg.Boot()
	s.mu.Lock()
	silence := time.Duration(now-s.heardAt) * time.Millisecond
	gone := s.proven && silence > offlineAfter
	if gone {
		s.proven = false
	}
	s.mu.Unlock()
	if gone {
		s.c.emitHost(s.host, "host.offline", "silent")
	}
}

// sendWaiting asks, numbers and sends what is due to a host that is there.
func (s *session) sendWaiting(ctx context.Context) {
	s.mu.Lock()
	ask, number := s.toAsk, s.unsent
	s.toAsk, s.unsent = false, false // set again if it does not succeed
	s.numbering = s.numbering || number
	s.mu.Unlock()
	switch {
	case ask && s.c.isRecovering(s.host):
		s.c.askRecovering(s)
	case ask:
		s.c.askAgain(s)
	}
	if number {
		s.c.schedule(ctx, s)
		s.mu.Lock()
		s.numbering = false
		s.mu.Unlock()
	}
	s.pump()
}

// jitter spreads resends; it decides nothing that matters.
func jitter() float64 { return rand.Float64() }
