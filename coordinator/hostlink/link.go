package hostlink

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	vigil "github.com/hostler-io/hostler/coordinator/presence"
	"github.com/hostler-io/hostler/protocol"
)

// link is the conversation with one host since this process started. Nothing in
// it must survive: a proven hello fills it again. Each of its parts owns its
// state; what stands here never changes, but for the mutexes, which keep
// messages of one host in order on the wire: items, and state messages, which
// never wait for the store.
type link struct {
	c    *Conversations
	host protocol.HostID

	presence presence
	inbox    inbox // what is no chunk
	chunks   inbox // of output: they come on another connection, and wait for no transaction of inbox
	samples  inbox // which nothing waits for
	out      outbox
	receipts receipts
	beats    heartbeats
	agenda   agenda

	itemMu, stateMu sync.Mutex
	telling         chan struct{} // holds one while people are told of its presence, in order
}

// link returns the conversation with a host, which is made if there is none.
func (c *Conversations) link(h protocol.HostID) *link {
	c.mu.Lock()
	defer c.mu.Unlock()
	l, ok := c.links[h]
	if !ok {
		h = protocol.HostID(strings.Clone(string(h))) // it is a part of the packet that came
		l = &link{c: c, host: h, telling: make(chan struct{}, 1)}
		l.inbox.limit, l.inbox.take = maxInboxBytes, l.take
		l.chunks.limit, l.chunks.take = maxChunkBytes, l.takeChunks
		l.samples.limit, l.samples.take = maxSampleBytes, l.takeSamples
		l.out.store = c.base.Store.ID()
		l.out.reset()
		l.receipts.reset()
		c.links[h] = l
	}
	return l
}

func (c *Conversations) allLinks() []*link {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.AppendSeq(make([]*link, 0, len(c.links)), maps.Values(c.links))
}

// forget begins anew with a host that was readmitted.
func (l *link) forget() {
	l.presence.reset()
	l.out.reset()
	l.receipts.reset()
}

// Ingest takes a message from the broker. Leases are handled at once;
// everything that may need the store is queued for the host's worker. It never
// waits for the disk, so it may be called from a connection's read loop. What
// it refuses is counted; the error is only for tests.
func (c *Conversations) Ingest(topic string, payload []byte) error {
	c.wire.Received()
	t, err := protocol.ParseTopic(topic)
	if err == nil && t.Channel.Direction() != protocol.Up {
		return nil // our own words come back through the broker
	}
	if err == nil && len(payload) > protocol.MaxSize(t.Channel) {
		err = fmt.Errorf("%w: %d bytes", protocol.ErrSize, len(payload))
	}
	if err != nil {
		return c.wire.Refuse(topic, err)
	}
	l, err := c.known(t, topic, payload)
	if err != nil {
		return c.wire.Refuse(topic, err)
	}
	in := inbound{t.Channel, topic, payload}
	if t.Channel == protocol.ChannelLease && l.presence.alive() {
		return c.wire.Refuse(topic, l.onLease(in))
	}
	box := &l.inbox
	switch t.Channel {
	case protocol.ChannelOut:
		box = &l.chunks
	case protocol.ChannelSamples:
		box = &l.samples
	}
	if !box.put(in, c.cfg.Start) {
		c.wire.Dropped()
	}
	return nil
}

// takeChunks handles a batch of chunks.
func (l *link) takeChunks(batch []inbound) {
	for _, in := range batch {
		_ = l.c.wire.Refuse(in.topic, l.onChunk(in))
	}
	l.c.cfg.Output.Flush(l.host)
	l.receiptIfOwed()
}

// onChunk takes a chunk of output, or what a session has taken of what was typed.
func (l *link) onChunk(in inbound) error {
	m, err := protocol.Open(in.payload, l.c.expect(in.topic, itemFresh{l}))
	if err != nil {
		return err
	}
	if m.Header.FD == protocol.TTYInput {
		return l.c.cfg.Acked(l.host, m.Header.Action, m.Attachment)
	}
	return l.c.cfg.Output.Take(l.host, m)
}

// takeSamples handles a batch of messages of samples.
func (l *link) takeSamples(batch []inbound) {
	for _, in := range batch {
		m, err := protocol.Open(in.payload, l.c.expect(in.topic, itemFresh{l}))
		switch {
		case err != nil:
		case l.c.cfg.Samples == nil:
			err = fmt.Errorf("%w: this coordinator takes no samples", protocol.ErrPayload)
		default:
			err = l.c.cfg.Samples.Take(l.host, m)
		}
		_ = l.c.wire.Refuse(in.topic, err)
	}
	l.receiptIfOwed()
}

// take handles a batch: items of all streams share one transaction.
func (l *link) take(batch []inbound) {
	var items []protocol.Message
	for _, in := range batch {
		var err error
		switch in.channel {
		case protocol.ChannelReport, protocol.ChannelAlert:
			var m protocol.Message
			if m, err = protocol.Open(in.payload, l.c.expect(in.topic, itemFresh{l})); err == nil {
				items = append(items, m)
			}
		case protocol.ChannelPresence:
			err = l.onPresence(in)
		case protocol.ChannelLease:
			err = l.onLease(in)
		case protocol.ChannelAck:
			err = l.onAck(in)
		case protocol.ChannelHeartbeat:
			err = l.onHeartbeat(in)
		}
		_ = l.c.wire.Refuse(in.topic, err)
	}
	if len(items) > 0 {
		l.onItems(items)
		l.receipts.owe()
	}
	l.receiptIfOwed()
}

func (l *link) receiptIfOwed() {
	if l.receipts.isOwed() {
		l.receipt()
	}
}

// expect is what the coordinator knows before it looks at a message.
func (c *Conversations) expect(topic string, f protocol.Freshness) protocol.Expect {
	return protocol.Expect{
		Fleet: c.base.Fleet, FleetName: c.base.FleetName, Self: protocol.Coordinator,
		Keys: c.base.Keys, Ring: c.base.Keys.Ring(), Topic: topic, Fresh: f,
	}
}

// unfresh is for messages that cannot pass the earlier checks.
type unfresh struct{}

func (unfresh) Fresh(protocol.Topic, *protocol.Header) error { return protocol.ErrStale }
func (unfresh) Term(*protocol.Header) error                  { return nil }

// itemFresh judges items and chunks: their number, not their age, tells what
// is new, but they must be of the database that the host speaks for now.
type itemFresh struct{ l *link }

func (itemFresh) Fresh(protocol.Topic, *protocol.Header) error { return nil }

func (f itemFresh) Term(h *protocol.Header) error {
	if err := f.l.c.base.MayDecide(); err != nil {
		return fmt.Errorf("%w: %w", protocol.ErrStale, err)
	}
	return f.l.presence.item(h.Store)
}

// stateFresh judges state messages by the gate of their host.
type stateFresh struct{ *presence }

func (f stateFresh) Fresh(t protocol.Topic, h *protocol.Header) error { return f.state(t.Channel, h) }

func (stateFresh) Term(*protocol.Header) error { return nil }

// known returns the conversation with the host on whose topic a message came, if its
// key is that host's: inventing names makes none. Otherwise
// it returns the refusal, which Open words.
func (c *Conversations) known(t protocol.Topic, topic string, payload []byte) (*link, error) {
	env, err := protocol.Split(payload)
	if err != nil {
		return nil, err
	}
	if p, ok := c.base.Keys.Principal(env.Key); !ok || p.Revoked || p.Host != t.Host {
		if _, err = protocol.Open(payload, c.expect(topic, unfresh{})); err == nil {
			err = protocol.ErrUnknownKey
		}
		return nil, err
	}
	return c.link(t.Host), nil
}

// openState opens a state message of a host and reacts to a fork.
func (l *link) openState(in inbound) (protocol.Message, error) {
	m, err := protocol.Open(in.payload, l.c.expect(in.topic, stateFresh{&l.presence}))
	if errors.Is(err, protocol.ErrFork) {
		l.c.cfg.Standing.Quarantine(l.host, "two processes speak for this host: its key or its disk was copied")
	}
	if err == nil {
		l.presence.hasRing(m.Header.Ring)
	}
	return m, err
}

// onLease renews. Once the host has proven itself that is memory only, and done while the
// connection's reader waits: no disk and no queue delays a grant.
func (l *link) onLease(in inbound) error {
	c := l.c
	m, err := l.openState(in)
	if err != nil {
		return err
	}
	var lease protocol.Lease
	if err := m.Decode(&lease); err != nil {
		return err
	}
	if err := l.hear(m.Header.Seq, time.Duration(lease.SleepMS)*time.Millisecond); err != nil {
		return err
	}
	if c.base.Recovery() != "" || c.cfg.Standing.Quarantined(l.host) {
		return nil
	}
	g := protocol.Grant{Header: c.wire.Header(protocol.TypeGrant, protocol.HostParty(l.host))}
	g.Heard = m.Header.Seq
	l.stateMu.Lock()
	defer l.stateMu.Unlock()
	g.Seq = c.wire.NextSeq()
	held, ttl := c.cfg.Grants.Renew(l.host, &lease, g.Seq)
	g.Held, g.TTLms = held, ttl.Milliseconds()
	return c.wire.Publish(c.wire.HostTopic(l.host, protocol.ChannelGrant), g)
}

// hear notes a message that carried the current challenge. sleep is how long the host will
// be silent; negative if it does not say. The first one after
// a hello or a silence means that the host is there: what it claimed is looked
// at, and what waited for it can go. That needs the store, so the first one is
// for the worker of the inbox; see [presence.alive].
func (l *link) hear(seq protocol.Seq, sleep time.Duration) error {
	first, err := l.presence.returns(seq)
	if err != nil {
		return err
	}
	if first {
		if err := l.prove(); err != nil {
			return err
		}
	}
	l.presence.hear(seq, l.c.base.Boot(), l.c.base.NowMS())
	l.presence.happened(vigil.Event{Kind: vigil.Heard, Seq: seq, Sleep: sleep}, l.c.base.Boot())
	if !first {
		return nil
	}
	l.agenda.number()
	l.agenda.ask()
	l.tellPresence()
	l.c.cfg.Start(func() {
		l.sendWaiting(l.c.base.Ctx)
		l.c.cfg.Output.Resume(l.host)
		l.askOutput()
	})
	return nil
}

// askOutput sends a receipt if output is to be asked for.
func (l *link) askOutput() {
	if l.receipts.asks() {
		l.receipt()
	}
}

// tick is the slow look at a host: send again what is due, number what could not
// be sent, tell people about silence. now is the boot clock when the look at all hosts began.
func (l *link) tick(ctx context.Context, now int64) {
	l.flush()
	overdue, news, reachable := l.presence.look(now)
	if overdue {
		l.receipts.wantLease()
		l.receipt()
	}
	if news {
		l.tellPresence()
	}
	if reachable {
		if l.c.cfg.Grants.Untold(l.host) { // one that returned on its old connection tells by itself only what changes
			l.wantFull()
			l.receipt()
		}
		l.c.cfg.Output.Reask(l.host)
		l.askOutput()
		l.sendWaiting(ctx)
		return
	}
	l.presence.lapse(now)
}

// tellPresence tells people what has changed of the presence of the host.
func (l *link) tellPresence() {
	l.telling <- struct{}{} // no lock: the store may take its time
	defer func() { <-l.telling }()
	if state, why, ok := l.presence.news(l.c.base.Boot()); ok {
		l.c.emitHost(l.host, "host."+string(state), why)
	}
}

// sendWaiting asks, numbers and sends what is due to a host that is there.
func (l *link) sendWaiting(ctx context.Context) {
	ask, number := l.agenda.take()
	switch {
	case ask && l.c.cfg.Questions.IsRecovering(l.host):
		l.askRecovering()
	case ask:
		l.askAgain()
	}
	if number {
		l.c.numberWaiting(ctx, l)
		l.agenda.numbered()
	}
	l.pump()
}

// jitter spreads resends; it decides nothing that matters.
func jitter() float64 { return rand.Float64() }
