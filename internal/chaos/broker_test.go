package chaos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/hostler-io/hostler/agent/uplink"
	"github.com/hostler-io/hostler/coordinator"
	"github.com/hostler-io/hostler/protocol"
)

// harm is what the broker does to messages, in percent. The zero value is an
// honest broker.
type harm struct {
	lose, double, late, far, spoil int
	spare                          bool // leases, grants and hellos are left alone

	// shuffle, if positive, is how far messages overtake each other: each
	// arrives twice, both times anywhere within it.
	shuffle time.Duration
}

// message is something that was said.
type message struct {
	topic   string
	payload []byte
}

// conn is the connection of a host.
type conn struct {
	host    protocol.HostID
	session uplink.Opening
	half    bool          // nothing passes any more, and nobody has noticed
	cut     chan struct{} // closed at its end
}

// broker carries messages between the coordinator and its hosts. What it does
// to a message follows from the seed, the topic, and how many came before on
// that topic, so that a schedule repeats whatever the order of goroutines is.
type broker struct {
	seed   uint64
	mu     sync.Mutex
	harm   harm
	down   bool
	coord  *coordinator.Coordinator // nil while there is none
	conns  map[protocol.HostID]*conn
	count  map[string]uint64
	kept   map[string]message // retained
	said   []message          // everything that was ever said
	last   map[string]time.Time
	passed map[protocol.Channel]int               // messages that overtook others, where all are shuffled
	watch  func(t protocol.Topic, payload []byte) // hears what is said, before anything is done to it
}

func newBroker(seed uint64) *broker {
	return &broker{seed: seed, conns: make(map[protocol.HostID]*conn), count: make(map[string]uint64),
		kept: make(map[string]message), last: make(map[string]time.Time), passed: make(map[protocol.Channel]int)}
}

// chance returns the fate of the next thing that happens to a topic.
func (b *broker) chance(topic string) *rand.Rand {
	b.count[topic]++
	h := fnv.New64a()
	fmt.Fprintf(h, "%s %d", topic, b.count[topic])
	return rand.New(rand.NewPCG(b.seed, h.Sum64()))
}

// Times of messages on their way.
const (
	swift   = 2 * time.Millisecond
	lateMax = 90 * time.Second
	farMax  = 75 * time.Minute
)

// carry takes a message over from whoever says it.
func (b *broker) carry(topic string, payload []byte, retained bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t, err := protocol.ParseTopic(topic)
	if err != nil {
		panic(err) // both sides build topics in one place
	}
	m := message{topic, payload}
	b.said = append(b.said, m)
	b.watch(t, payload)
	if retained {
		b.kept[topic] = m
	}
	h := b.harm
	if vital := t.Channel == protocol.ChannelLease || t.Channel == protocol.ChannelGrant || t.Channel == protocol.ChannelPresence ||
		t.Channel == protocol.ChannelReceipt || t.Channel == protocol.ChannelCoordinator; vital && h.spare {
		h = harm{}
	}
	r := b.chance(topic)
	if h.shuffle > 0 {
		b.jumble(r, t, m, h.shuffle)
		return
	}
	copies := 1
	if r.IntN(100) < h.lose {
		copies = 0
	}
	if r.IntN(100) < h.double {
		copies += 1 + r.IntN(2)
	}
	for range copies {
		m := m
		if r.IntN(100) < h.spoil {
			m.payload = spoiled(r, payload)
		}
		switch roll := r.IntN(100); {
		case roll < h.far:
			b.deliverIn(m, time.Duration(r.Int64N(int64(farMax))))
		case roll < h.far+h.late:
			b.deliverIn(m, time.Duration(r.Int64N(int64(lateMax))))
		default:
			b.queue(t, m)
		}
	}
}

// jumble delivers a message twice within a window, and counts what
// comes before something that was said earlier. It is called with mu held.
func (b *broker) jumble(r *rand.Rand, t protocol.Topic, m message, window time.Duration) {
	lane := "shuffled " + m.topic
	before := b.last[lane]
	for range 2 {
		at := time.Now().Add(time.Duration(r.Int64N(int64(window))))
		if at.Before(before) {
			b.passed[t.Channel]++
		}
		if at.After(b.last[lane]) {
			b.last[lane] = at
		}
		b.deliverIn(m, time.Until(at))
	}
}

// spoiled is a message that was cut short, or in which one bit was changed.
func spoiled(r *rand.Rand, payload []byte) []byte {
	p := bytes.Clone(payload)
	if r.IntN(2) == 0 {
		return p[:r.IntN(len(p))]
	}
	p[r.IntN(len(p))] ^= 1 << r.IntN(8)
	return p
}

// queue delivers in order, as brokers do of themselves.
func (b *broker) queue(t protocol.Topic, m message) {
	lane := string(t.Host)
	if t.Channel.Direction() == protocol.Up {
		lane += " up"
	}
	at := time.Now().Add(swift)
	if next := b.last[lane].Add(time.Microsecond); next.After(at) {
		at = next
	}
	b.last[lane] = at
	b.deliverIn(m, time.Until(at))
}

// deliverIn delivers after a while, to whoever is there then.
func (b *broker) deliverIn(m message, d time.Duration) {
	time.AfterFunc(d, func() { b.deliver(m) })
}

func (b *broker) deliver(m message) {
	t, err := protocol.ParseTopic(m.topic)
	if err != nil {
		panic(err)
	}
	b.mu.Lock()
	coord := b.coord
	var to []*conn
	for _, c := range b.conns {
		if !c.half && (t.Host == c.host || t.Host == "") {
			to = append(to, c)
		}
	}
	b.mu.Unlock()
	if t.Channel.Direction() == protocol.Up {
		if coord != nil {
			_ = coord.Ingest(m.topic, m.payload) // what it refuses it counts
		}
		return
	}
	for _, c := range to {
		c.session.Handle(m.topic, m.payload)
	}
}

// publish takes a message of the coordinator.
func (b *broker) publish(topic string, payload []byte, retained bool) error {
	b.mu.Lock()
	down := b.down
	b.mu.Unlock()
	if down {
		return errOffline
	}
	b.carry(topic, payload, retained)
	return nil
}

var errOffline = errors.New("there is no connection")

// greet gives the coordinator the presences that are retained; under attack
// older ones too.
func (b *broker) greet(c *coordinator.Coordinator) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.coord = c
	r := b.chance("coordinator")
	for topic := range b.conns {
		t := protocol.HostTopic(fleetName, topic, protocol.ChannelPresence)
		if m, ok := b.keeps(r, t.String()); ok {
			b.queue(t, m)
		}
	}
}

// keeps is what is retained on a topic, or under attack was so once.
func (b *broker) keeps(r *rand.Rand, topic string) (message, bool) {
	m, ok := b.kept[topic]
	if b.harm == (harm{}) || b.harm.spare || r.IntN(2) == 0 {
		return m, ok
	}
	var old []message
	for _, m := range b.said {
		if m.topic == topic {
			old = append(old, m)
		}
	}
	if len(old) == 0 {
		return m, ok
	}
	return old[r.IntN(len(old))], true
}

// attach connects a host, or returns nil.
func (b *broker) attach(host protocol.HostID, s uplink.Opening) *conn {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.down {
		return nil
	}
	if old := b.conns[host]; old != nil {
		b.end(old, true)
	}
	c := &conn{host: host, session: s, cut: make(chan struct{})}
	b.conns[host] = c
	t := protocol.FleetTopic(fleetName, protocol.ChannelCoordinator)
	if m, ok := b.keeps(b.chance("host "+string(host)), t.String()); ok {
		time.AfterFunc(swift, func() {
			if !closed(c.cut) {
				c.session.Handle(m.topic, m.payload)
			}
		})
	}
	return c
}

// end ends a connection; a broken one leaves a will. It is called with mu
// held.
func (b *broker) end(c *conn, broken bool) {
	if closed(c.cut) {
		return
	}
	close(c.cut)
	if b.conns[c.host] == c {
		delete(b.conns, c.host)
	}
	if broken && len(c.session.Will) > 0 {
		time.AfterFunc(swift, func() { b.carry(c.session.WillTopic, c.session.Will, c.session.WillRetained) })
	}
}

// cut breaks the connection of a host.
func (b *broker) cut(host protocol.HostID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c := b.conns[host]; c != nil {
		b.end(c, true)
	}
}

// keepalive is when a half-open connection is noticed.
const keepalive = 45 * time.Second

// freeze makes the connection of a host half open.
func (b *broker) freeze(host protocol.HostID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.conns[host]
	if c == nil {
		return
	}
	c.half = true
	time.AfterFunc(keepalive, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.end(c, true)
	})
}

// restart takes the broker away for a while, perhaps with all it retained.
func (b *broker) restart(away time.Duration, wiped bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.down = true
	for _, c := range b.conns {
		b.end(c, true)
	}
	if wiped {
		clear(b.kept)
	}
	time.AfterFunc(away, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.down = false
	})
}

// invent says something that was said before: once more, to somebody else, or
// a whole stretch of it in its old order.
func (b *broker) invent(r *rand.Rand, hosts []protocol.HostID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.said) == 0 || b.down {
		return
	}
	from := r.IntN(len(b.said))
	stretch := b.said[from:]
	switch r.IntN(3) {
	case 0:
		stretch = stretch[:1]
	case 1:
		m := stretch[0]
		if t, _ := protocol.ParseTopic(m.topic); t.Host != "" {
			t.Host = hosts[r.IntN(len(hosts))]
			m.topic = t.String()
		}
		stretch = []message{m}
	case 2:
		stretch = stretch[:min(len(stretch), 1+r.IntN(60))]
	}
	for i, m := range stretch {
		b.deliverIn(m, swift+time.Duration(i)*time.Millisecond)
	}
}

// calm ends all faults. What is late stays late.
func (b *broker) calm() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.harm, b.down = harm{}, false
	for _, c := range b.conns {
		if c.half {
			b.end(c, true)
		}
	}
}

// link is the way of one agent's process to the broker.
type link struct {
	b    *broker
	host protocol.HostID
	r    *rand.Rand
	mu   sync.Mutex
	conn *conn
	nth  uint64 // connections so far
	dead bool   // the process is: whatever it still says goes nowhere
}

// Run implements [uplink.Link].
func (l *link) Run(ctx context.Context, open func(uint64) (uplink.Opening, error)) error {
	for n := uint64(1); ; n++ {
		s, err := open(n)
		if err != nil {
			return err
		}
		if c := l.connect(s); c != nil {
			s.Up(nil)
			select {
			case <-c.cut:
			case <-ctx.Done():
				l.b.mu.Lock()
				l.b.end(c, false)
				l.b.mu.Unlock()
			}
		}
		select {
		case <-time.After(200*time.Millisecond + time.Duration(l.r.IntN(2000))*time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (l *link) connect(s uplink.Opening) *conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conn = nil
	if !l.dead {
		l.conn = l.b.attach(l.host, s)
		l.nth++
	}
	return l.conn
}

// kill makes the process dead for everybody else.
func (l *link) kill() {
	l.mu.Lock()
	l.dead, l.conn = true, nil
	l.mu.Unlock()
	l.b.cut(l.host)
}

// Publish implements [uplink.Link]. On a slow line nothing here may take longer
// than leases can wait.
func (l *link) Publish(_ context.Context, topic string, payload []byte, retained bool) error {
	if t, err := protocol.ParseTopic(topic); err != nil || t.Channel == protocol.ChannelOut || len(payload) > protocol.MaxMessage {
		panic(fmt.Sprintf("%d bytes on %s delay the leases", len(payload), topic))
	}
	return l.publish(topic, payload, retained)
}

func (l *link) publish(topic string, payload []byte, retained bool) error {
	l.mu.Lock()
	c := l.conn
	l.mu.Unlock()
	if c == nil || closed(c.cut) {
		return errOffline
	}
	l.b.mu.Lock()
	half := c.half
	l.b.mu.Unlock()
	if !half {
		l.b.carry(topic, payload, retained)
	}
	return nil
}

// bulk is the other connection of an agent: it waits for the line.
type bulk struct{ *link }

// Connect implements [agent.Bulk].
func (b bulk) Connect(ctx context.Context) error {
	_, _, _, err := b.Pace(ctx)
	return err
}

// Pace implements [agent.Bulk]: a fast line, on which a message should be there
// within a second.
func (b bulk) Pace(ctx context.Context) (conn uint64, second int, delay time.Duration, err error) {
	for {
		b.mu.Lock()
		c, nth := b.conn, b.nth
		b.mu.Unlock()
		if c != nil && !closed(c.cut) {
			return nth, 1 << 30, time.Second, nil
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return 0, 0, 0, context.Cause(ctx)
		}
	}
}

// Publish implements [agent.Bulk].
func (b bulk) Publish(ctx context.Context, topic string, payload []byte) error {
	for b.publish(topic, payload, false) != nil {
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}
