// Package uplink is the conversation with the coordinator: it says hello, hands up
// what waits for a receipt, takes what comes down, and tells how the host is.
//
//	conversation.go  connections, hellos and their answers, goodbyes
//	receive.go       messages that come down, in their order; orders in batches
//	streams.go       where each stream stands, and what is to be sent once more
//	receipt.go       receipts, both ways
//	ring.go          messages that wait for a ring, and feeding Trust
//	heartbeat.go     what the host tells of itself
//	audit.go         the seals on both audit logs
//	send.go          sealed messages on their way to the connection
//
// An [Uplink] belongs to the agent's loop. It decides nothing about actions: it
// hands orders over, and says that it has them when they are durable.
package uplink

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hostler-io/hostler/agent/actions"
	"github.com/hostler-io/hostler/agent/lease"
	"github.com/hostler-io/hostler/agent/loop"
	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/agent/relay"
	"github.com/hostler-io/hostler/agent/wire"
	"github.com/hostler-io/hostler/internal/throttle"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/fresh"
)

// Link is the connection to the broker. Messages may be lost, repeated, delayed
// and reordered; what must arrive is repeated by the agent until it was
// receipted. It is safe for concurrent use.
type Link interface {
	// Run keeps one connection until ctx ends and returns the cause of that, or
	// the error of open, which it calls before each attempt with the attempt's
	// number in this process, from 1.
	Run(ctx context.Context, open func(conn uint64) (Opening, error)) error
	// Publish hands a message over. It may wait for room, and fails at once when
	// there is no connection. nil does not mean that the message was delivered.
	Publish(ctx context.Context, topic string, payload []byte, retained bool) error
}

// Opening is what the agent wants of one connection.
type Opening struct {
	// WillTopic, Will and WillRetained are what the broker publishes when the
	// connection ends without a goodbye.
	WillTopic    string
	Will         []byte
	WillRetained bool
	// Filters to subscribe to.
	Filters []string
	// Handle takes each message in order of arrival, keeps the payload and does
	// not block.
	Handle func(topic string, payload []byte)
	// Up is called once, when all subscriptions stand, before the first Handle.
	// It does not block.
	Up func(publish func(topic string, payload []byte, retained bool) error)
}

// Trust is the ring that this host holds and what proves a newer one. It is safe
// for concurrent use, makes durable what it takes before it returns, and believes
// nothing but signatures.
type Trust interface {
	wire.Trust
	// Advance takes a chain of rings as the broker retains it and walks as far
	// as it proves. A chain that proves nothing newer is nil.
	Advance(ctx context.Context, chain []byte) error
	// Revoke takes a list of revocations as the broker retains it.
	Revoke(ctx context.Context, list []byte) error
	// Fetch asks the coordinator for rings up to at least number.
	Fetch(ctx context.Context, number uint64) error
}

// Report is what the host tells of itself in a heartbeat.
type Report struct {
	Host       protocol.HostInfo
	Containers []protocol.Container
	Alerts     []protocol.AlertInfo // that are raised and not durable
}

// Config is what the conversation is led with. Link, Trust and Lease are nil on a
// host without a coordinator; all else is required.
type Config struct {
	Host    *wire.Host
	Numbers *wire.Numbers
	Traffic *wire.Traffic
	Link    Link
	Trust   Trust
	Lease   *lease.Lease
	Loop    *loop.Loop
	Queue   *queue.Queue
	Actions *actions.Actions
	Relay   *relay.Relay // whose credits travel with receipts
	// Report tells how the host is; false if that is not known yet.
	Report func() (Report, bool)
	// Policy is the text of the policy in force, to be told; nil if it is too long.
	Policy func() []byte
	// Rules takes the coordinator's rules of alerts, which are durable.
	Rules func(protocol.AlertRules)
	// Raise makes a change of an alert durable.
	Raise func(protocol.Alert)
	// Spread takes the reconnect window of the coordinator; nil if nothing connects by it.
	Spread func(time.Duration)
	// Heard is called at each receipt of the coordinator.
	Heard func()
	Boot  string
	// SelfFence is what kills unique containers here when the agent does not.
	SelfFence string
	Features  []string
	// QuietEvery is how far heartbeats are apart at least that tell of nothing but
	// new records in the audit log.
	QuietEvery time.Duration
	Log        *slog.Logger
}

// Uplink is the conversation. Run and Open may be called by any goroutine;
// everything else belongs to the loop.
type Uplink struct {
	cfg  Config
	loop *loop.Loop

	// What comes from other goroutines; News tells of all of it.
	news   chan struct{}
	inbox  chan wire.Message
	linked chan uint64 // a connection is up; the newest alone
	lost   chan uint64 // a connection failed
	out    sender
	feed   feed

	self    queue.Identity
	streams streams
	gate    fresh.CoordinatorGate
	fleet   []byte // the newest word of the coordinator to its fleet, as it came
	link    connection
	ahead   map[protocol.Stream]*waiting // orders and controls that wait for a ring
	beat    heartbeat
	alerts  map[string]protocol.AlertInfo // raised ones
	seals   seals
	refused throttle.Lines

	heard atomic.Int64 // boot clock of the newest receipt; 0 before the first

	helloAgain, ackSoon, beatSoon, flushSoon, ringLate *loop.Timer
}

// New returns a conversation that has not begun.
func New(cfg Config) *Uplink {
	u := &Uplink{
		cfg: cfg, loop: cfg.Loop,
		news:   make(chan struct{}, 1),
		inbox:  make(chan wire.Message, 1024),
		linked: make(chan uint64, 1),
		lost:   make(chan uint64, 1),
		ahead:  make(map[protocol.Stream]*waiting),
		alerts: make(map[string]protocol.AlertInfo),
	}
	u.out = sender{cfg: &u.cfg, lost: u.Lost, queue: make(chan outbound, 512)}
	u.feed = feed{cfg: &u.cfg, docs: make(chan wire.Message, 4), fetches: make(chan uint64, 1), moved: make(chan struct{}, 1), news: u.news}
	u.seals = seals{cfg: &u.cfg}
	u.helloAgain, u.ackSoon = cfg.Loop.Timer(u.hello), cfg.Loop.Timer(u.ack)
	u.streams = streams{cfg: &u.cfg, wake: map[protocol.Stream]*loop.Timer{
		// They only wake the loop: the pump, which follows every turn, looks by itself.
		protocol.StreamReport: cfg.Loop.Timer(func() {}),
		protocol.StreamAlert:  cfg.Loop.Timer(func() {}),
	}}
	u.beatSoon, u.flushSoon, u.ringLate = cfg.Loop.Timer(u.sendHeartbeat), cfg.Loop.Timer(u.flush), cfg.Loop.Timer(u.giveUpRing)
	return u
}

// Load takes up where an earlier process has left off.
func (u *Uplink) Load(ctx context.Context, self queue.Identity, inst protocol.Nonce, alerts []protocol.AlertInfo) error {
	u.self = self
	u.cfg.Numbers.Begin(self.Inc, inst, self.Term)
	u.gate = fresh.CoordinatorGate{Seen: self.Term, Store: self.Coord}
	for _, alert := range alerts {
		u.alerts[alert.ID] = alert
	}
	if u.cfg.Trust != nil {
		u.seals.ring = u.cfg.Trust.Ring()
		u.dropEvidence()
	}
	return u.streams.load(ctx)
}

// Run keeps the connection, hands messages to it, and feeds Trust, until ctx ends,
// and returns its cause.
func (u *Uplink) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return u.cfg.Link.Run(ctx, u.open) }) // the connection
	g.Go(func() error { return u.out.run(ctx) })              // sealed messages → connection
	g.Go(func() error { return u.feed.run(ctx) })             // rings and revocations → Trust
	return g.Wait()
}

// News receives when there is something for [Uplink.Take].
func (u *Uplink) News() <-chan struct{} { return u.news }

// maxBatch is how many messages are taken in one turn of the loop, so that what
// belongs together is answered together.
const maxBatch = 64

// Take takes what has come.
func (u *Uplink) Take() {
	select {
	case conn := <-u.linked:
		u.connected(conn)
	default:
	}
	select {
	case conn := <-u.lost:
		u.disconnected(conn)
	default:
	}
	select {
	case <-u.feed.moved:
		u.trustMoved()
	default:
	}
	b := batch{Uplink: u}
	defer b.take()
	for range maxBatch {
		select {
		case m := <-u.inbox:
			b.receive(m)
		default:
			return
		}
	}
	loop.Newest(u.news, struct{}{}) // there may be more
}

// Standing is how the conversation stands.
type Standing struct {
	// Connected tells that the coordinator has answered on the present connection,
	// since SinceMS (boot clock).
	Connected bool
	SinceMS   int64
	Conn      uint64
	Term      protocol.Term
	Unsent    uint64 // reports and alerts without a receipt
}

// Standing returns how the conversation stands.
func (u *Uplink) Standing() Standing {
	return Standing{Connected: u.link.answered, SinceMS: u.link.since, Conn: u.link.conn, Term: u.gate.Seen, Unsent: u.streams.unsent()}
}

// Reported tells that reports up to a number are durable.
func (u *Uplink) Reported(n uint64) { u.streams.wrote(n) }

// Alerted follows a change of alerts that is durable.
func (u *Uplink) Alerted(alerts []protocol.Alert) {
	for _, alert := range alerts {
		if alert.Raised {
			u.alerts[alert.ID] = alert.AlertInfo
		} else {
			delete(u.alerts, alert.ID)
		}
	}
	if len(alerts) > 0 {
		u.streams.reread()
	}
}

// Trigger begins the conversation anew: its answer tells what is missing on either
// side, and what waits for a receipt is sent once more.
func (u *Uplink) Trigger() {
	if u.link.conn != 0 {
		u.greetAgain()
	}
	u.streams.connected()
}
