package fresh_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/fresh"
)

// chooser picks one of n ways to go on: a seeded generator, or a script that
// can be made shorter.
type chooser func(n int) int

// upMessage is what a host sent.
type upMessage struct {
	channel protocol.Channel
	header  protocol.Header
	inst    protocol.Nonce // of a hello
	era     int            // of the coordinator whose challenge it carries
	seen    protocol.Term  // the newest term that its sender knew
}

// process is one process of an agent, and what its disk keeps.
type process struct {
	inc    uint64
	seen   protocol.Term // durable
	inst   protocol.Nonce
	conn   uint64
	k      uint64
	chal   protocol.Nonce
	era    int
	said   protocol.Seq // the first hello since the newest term was seen
	gate   fresh.CoordinatorGate
	sent   fresh.SentWindow
	online bool // its newest evidence was taken
}

// fleet simulates hosts with one name and key (one, if they are honest), a
// coordinator that forgets its gate at each restart, and a broker that keeps
// every message for ever and delivers any of them at any time, any number of
// times, to whoever speaks for the host.
type fleet struct {
	choose chooser
	hosts  []*process
	gate   fresh.HostGate
	term   protocol.Term
	era    int
	k      uint64
	told   protocol.Term // what the sender of the newest current hello knew
	random byte
	high   byte
	up     []upMessage
	down   []protocol.Receipt
	eras   []int // of the challenge in each of down
	forks  int
	trace  []string
}

func newFleet(choose chooser) *fleet {
	f := &fleet{choose: choose, term: protocol.Term{Ring: 1, Counter: 1}, era: 1}
	f.hosts = []*process{{}}
	f.start(f.hosts[0])
	return f
}

func (f *fleet) log(format string, args ...any) {
	f.trace = append(f.trace, fmt.Sprintf(format, args...))
}

// nonce makes a random number that nobody had before. Its first byte is free,
// so that instances come in any order.
func (f *fleet) nonce() protocol.Nonce {
	f.random++
	if f.random == 0 {
		f.high++
	}
	return protocol.Nonce{byte(f.choose(256)), 1, f.high, f.random}
}

func (f *fleet) start(p *process) {
	*p = process{inc: p.inc + 1, seen: p.seen, inst: f.nonce()}
	p.gate.Seen = p.seen
	f.connect(p)
}

func (f *fleet) connect(p *process) {
	if p.conn > 0 {
		f.send(p, protocol.ChannelPresence, protocol.Seq{Inc: p.inc, Conn: p.conn, K: protocol.KWill}, protocol.Nonce{})
	}
	p.conn, p.k, p.chal, p.online = p.conn+1, 0, protocol.Nonce{}, false
	f.hello(p)
	p.said = protocol.Seq{Inc: p.inc, Conn: p.conn, K: p.k}
}

func (f *fleet) hello(p *process) {
	p.k++
	f.send(p, protocol.ChannelPresence, protocol.Seq{Inc: p.inc, Conn: p.conn, K: p.k}, protocol.Nonce{})
}

// evidence sends a state message, which needs a challenge.
func (f *fleet) evidence(p *process, c protocol.Channel) {
	if !p.chal.IsZero() {
		p.k++
		f.send(p, c, protocol.Seq{Inc: p.inc, Conn: p.conn, K: p.k}, p.chal)
	}
}

func (f *fleet) send(p *process, c protocol.Channel, s protocol.Seq, chal protocol.Nonce) {
	h := up(protocol.TypePresence)
	h.Seq, h.Chal = s, chal
	p.sent.Sent(s, int64(len(f.up)))
	f.up = append(f.up, upMessage{c, h, p.inst, p.era, p.seen})
}

// restart is that of the coordinator: its gate is empty, its term is new, and
// the retained word of it reaches the hosts sooner or later.
func (f *fleet) restart() {
	f.log("coordinator restarts")
	f.gate, f.k = fresh.HostGate{}, 0
	f.term.Counter++
	f.era++
}

// announce is the retained word of the coordinator: a new term makes a host
// say hello.
func (f *fleet) announce(p *process) {
	h := down(protocol.TypeCoordinator)
	f.k++
	h.Term, h.Seq = f.term, protocol.Seq{Inc: f.term.Counter, Conn: 1, K: f.k}
	f.obey(p, protocol.ChannelCoordinator, &h)
}

// obey is what a host does with the header of anything that comes down.
func (f *fleet) obey(p *process, c protocol.Channel, h *protocol.Header) bool {
	if p.gate.Fresh(c, h) != nil || p.gate.Term(h) != nil {
		return false
	}
	if p.gate.Accept(c, h) {
		p.seen = h.Term
		f.hello(p)
		p.said = protocol.Seq{Inc: p.inc, Conn: p.conn, K: p.k}
	}
	return true
}

// takeUp is what the coordinator does with message i.
func (f *fleet) takeUp(i int) error {
	m := &f.up[i]
	s := m.header.Seq
	if m.channel == protocol.ChannelPresence && m.header.IsHello() {
		give, current := f.gate.Hello(s, m.inst, f.nonce())
		f.log("hello %v of %v: current %t", s, m.inst, current)
		if current {
			f.told = m.seen
		}
		if !give.IsZero() {
			f.answer(s, give)
		}
		return nil
	}
	err := f.gate.State(m.channel, s, m.header.Chal)
	f.log("%s %v with %v: %v", m.channel, s, m.header.Chal, err)
	if errors.Is(err, protocol.ErrFork) {
		f.forks++
	}
	if err == nil && s.K != protocol.KWill {
		if m.era != f.era {
			return fmt.Errorf("evidence %v from before the restart is taken", s)
		}
		if len(f.hosts) == 1 && f.told != f.term {
			return fmt.Errorf("evidence %v is taken, and all that is known is a hello of term %d", s, f.told.Counter)
		}
		_, chal := f.gate.Conn()
		f.answer(s, chal)
	}
	return nil
}

func (f *fleet) answer(s protocol.Seq, give protocol.Nonce) {
	h := down(protocol.TypeReceipt)
	f.k++
	h.Term, h.Seq = f.term, protocol.Seq{Inc: f.term.Counter, Conn: 1, K: f.k}
	f.down = append(f.down, protocol.Receipt{Header: h, Answers: s, Give: give})
	f.eras = append(f.eras, f.era)
}

// takeDown is what a host does with receipt i.
func (f *fleet) takeDown(p *process, i int) {
	r := &f.down[i]
	if !f.obey(p, protocol.ChannelReceipt, &r.Header) || !p.said.Takes(r.Answers) {
		return
	}
	p.chal, p.era = r.Give, f.eras[i]
	f.log("process %d.%v takes challenge %v", p.inc, p.inst, p.chal)
}

// step does one of everything that can happen.
func (f *fleet) step() error {
	p := f.hosts[f.choose(len(f.hosts))]
	switch c := f.choose(16); c {
	case 0:
		f.log("process %d restarts", p.inc)
		f.start(p)
	case 1:
		f.log("process %d reconnects", p.inc)
		f.connect(p)
	case 2:
		f.restart()
	case 3:
		f.announce(p)
	case 4:
		f.hello(p)
	case 5, 6:
		f.evidence(p, []protocol.Channel{protocol.ChannelHeartbeat, protocol.ChannelLease, protocol.ChannelPresence}[f.choose(3)])
	case 7, 8, 9:
		if len(f.down) > 0 {
			f.takeDown(p, f.recent(len(f.down)))
		}
	case 10:
		if len(f.down) > 0 {
			f.takeDown(p, f.choose(len(f.down)))
		}
	case 11:
		return f.takeUp(f.choose(len(f.up)))
	default:
		return f.takeUp(f.recent(len(f.up)))
	}
	return nil
}

// recent picks one of the last few, so that conversations get somewhere.
func (f *fleet) recent(n int) int { return n - 1 - f.choose(min(n, 3)) }

// settle is a stretch without faults for one host: everything it sends is
// taken, in order, and so is every answer. It ends with evidence.
func (f *fleet) settle(p *process) error {
	from := len(f.up)
	f.announce(p)
	f.hello(p)
	deliver := func() error {
		for ; from < len(f.up); from++ {
			answers := len(f.down)
			if err := f.takeUp(from); err != nil {
				return err
			}
			for ; answers < len(f.down); answers++ {
				f.takeDown(p, answers)
			}
		}
		return nil
	}
	if err := deliver(); err != nil {
		return err
	}
	if err := f.noise(p); err != nil {
		return err
	}
	f.evidence(p, protocol.ChannelHeartbeat)
	m := f.up[len(f.up)-1].header
	p.online = f.gate.State(protocol.ChannelHeartbeat, m.Seq, m.Chal) == nil && !m.Chal.IsZero()
	if !p.online {
		return f.takeUp(len(f.up) - 1)
	}
	return nil
}

// noise is what comes between a hello and the evidence that follows it: old
// messages once more, and the hello of another process that has just taken the
// connection back.
func (f *fleet) noise(p *process) error {
	for range f.choose(3) {
		if err := f.takeUp(f.choose(len(f.up))); err != nil {
			return err
		}
	}
	for _, other := range f.hosts {
		if other != p && f.choose(2) == 0 {
			f.connect(other)
			return f.takeUp(len(f.up) - 1)
		}
	}
	return nil
}

// runHonest runs one host for some steps: it is never quarantined, and a
// stretch without faults brings it online.
func runHonest(f *fleet, steps int) error {
	for range steps {
		if err := f.step(); err != nil {
			return err
		}
		if f.forks > 0 {
			return errors.New("an honest host is quarantined")
		}
	}
	if err := f.settle(f.hosts[0]); err != nil {
		return err
	}
	if f.forks > 0 || !f.hosts[0].online {
		return fmt.Errorf("%d forks, online: %t", f.forks, f.hosts[0].online)
	}
	return nil
}

// runCopied copies the host at some point. As soon as both have spoken to the
// coordinator and nothing is lost, the fork is found.
func runCopied(f *fleet, steps int) error {
	for range steps {
		if err := f.step(); err != nil {
			return err
		}
	}
	twin := *f.hosts[0]
	f.log("the host is copied")
	for range f.choose(3) {
		f.start(f.hosts[0])
	}
	f.start(&twin)
	f.hosts = append(f.hosts, &twin)
	for range steps {
		if err := f.step(); err != nil {
			return err
		}
	}
	f.forks = 0
	// The broker lets one of them speak at a time: each takes the connection
	// from the other, in turns.
	for range 2 {
		for _, p := range f.hosts {
			f.connect(p)
			if err := f.settle(p); err != nil {
				return err
			}
		}
	}
	if f.forks == 0 {
		return errors.New("the fork is not found")
	}
	return nil
}

// explore runs a simulation over many seeds, and over scripts that rapid makes
// shorter when they fail.
func explore(t *testing.T, seeds int, run func(f *fleet, steps int) error) {
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(uint64(seed), 1))
		f := newFleet(rng.IntN)
		if err := run(f, 10+seed%90); err != nil {
			t.Fatalf("seed %d: %s\n%s", seed, err, strings.Join(f.trace, "\n"))
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		f := newFleet(func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "choice") })
		if err := run(f, rapid.IntRange(0, 40).Draw(t, "steps")); err != nil {
			t.Fatalf("%s\n%s", err, strings.Join(f.trace, "\n"))
		}
	})
}

func TestHonestHost(t *testing.T) { explore(t, 2500, runHonest) }

func TestCopiedHost(t *testing.T) { explore(t, 2500, runCopied) }

// TestHello looks at single answers of a gate.
func TestHello(t *testing.T) {
	at := func(inc, conn, k uint64) protocol.Seq { return protocol.Seq{Inc: inc, Conn: conn, K: k} }
	for _, test := range []struct {
		name    string
		seq     protocol.Seq
		inst    protocol.Nonce
		give    byte
		current bool
	}{
		{"repeated", at(5, 3, 2), nonce(50), 1, true},
		{"delivered twice", at(5, 3, 1), nonce(50), 1, false},
		{"overtaken by a heartbeat", at(5, 3, 5), nonce(50), 1, false},
		{"after the heartbeat", at(5, 3, 8), nonce(50), 1, true},
		{"next connection", at(5, 4, 1), nonce(50), 9, true},
		{"last connection", at(5, 2, 99), nonce(50), 0, false},
		{"next process", at(6, 1, 1), nonce(1), 9, true},
		{"last process", at(4, 99, 99), nonce(99), 9, false},
		{"copy that wins", at(5, 1, 1), nonce(51), 9, true},
		{"copy that loses", at(5, 9, 9), nonce(49), 9, false},
	} {
		var g fresh.HostGate
		if give, current := g.Hello(at(5, 3, 1), nonce(50), nonce(1)); give != nonce(1) || !current {
			t.Fatalf("first hello: %v, %t", give, current)
		}
		if test.name == "overtaken by a heartbeat" || test.name == "after the heartbeat" {
			if err := g.State(protocol.ChannelHeartbeat, at(5, 3, 7), nonce(1)); err != nil {
				t.Fatal(err)
			}
		}
		want := protocol.Nonce{}
		if test.give != 0 {
			want = nonce(test.give)
		}
		if give, current := g.Hello(test.seq, test.inst, nonce(9)); give != want || current != test.current {
			t.Errorf("%s: %v, %t; want %v, %t", test.name, give, current, want, test.current)
		}
		conn, chal := g.Conn()
		if newer := test.give == 9 && test.current; newer && conn != test.seq || newer != (chal == nonce(9)) {
			t.Errorf("%s: now %v with %v in force", test.name, conn, chal)
		}
	}
}

// TestStoreOfNewTerm takes a state message of a newer term first: it names no
// store, and the term's own store must be believed all the same.
func TestStoreOfNewTerm(t *testing.T) {
	var g fresh.CoordinatorGate
	item := func(counter uint64, store protocol.StoreID) *protocol.Header {
		return &protocol.Header{Term: protocol.Term{Ring: 1, Counter: counter}, Store: store}
	}
	state := func(counter, k uint64) *protocol.Header {
		return &protocol.Header{Term: protocol.Term{Ring: 1, Counter: counter}, Seq: protocol.Seq{Inc: counter, Conn: 1, K: k}}
	}
	if !g.Accept(protocol.ChannelOrder, item(1, coStore)) || g.Accept(protocol.ChannelGrant, state(1, 1)) {
		t.Error("the first message has a new term, the second has not")
	}
	if err := g.Term(item(1, hostStore)); !errors.Is(err, protocol.ErrStore) {
		t.Errorf("another store in the same term: %v", err)
	}
	if !g.Accept(protocol.ChannelCoordinator, state(2, 1)) {
		t.Error("term 2 is not new")
	}
	if err := g.Term(item(2, hostStore)); err != nil {
		t.Errorf("another store in a newer term: %v", err)
	}
	if err := g.Term(item(1, coStore)); !errors.Is(err, protocol.ErrTerm) {
		t.Errorf("the old term: %v", err)
	}
	if err := g.Fresh(protocol.ChannelGrant, state(2, 1)); err != nil {
		t.Errorf("the first message of a channel: %v", err)
	}
}

// TestSentWindow keeps the newest 256 and nothing that was not sent.
func TestSentWindow(t *testing.T) {
	var w fresh.SentWindow
	if _, ok := w.At(protocol.Seq{}); ok {
		t.Error("nothing was sent")
	}
	for k := range uint64(300) {
		w.Sent(protocol.Seq{Inc: 1, Conn: 1, K: k + 1}, int64(k))
	}
	for k := range uint64(302) {
		at, ok := w.At(protocol.Seq{Inc: 1, Conn: 1, K: k})
		if want := k > 300-256 && k <= 300; ok != want || ok && at != int64(k-1) {
			t.Errorf("message %d: %d, %t", k, at, ok)
		}
	}
}

var (
	theFleet  = protocol.FleetID{0x11}
	hostStore = protocol.StoreID{0x0a}
	coStore   = protocol.StoreID{0x0c}
)

// up and down are the headers of what a host and the coordinator say.
func up(t protocol.Type) protocol.Header {
	return protocol.Header{Type: t, Fleet: theFleet, From: "host:edge-07", To: "coordinator", Ring: 7}
}

func down(t protocol.Type) protocol.Header {
	return protocol.Header{Type: t, Fleet: theFleet, From: "coordinator", To: "host:edge-07", Ring: 7, Term: protocol.Term{Ring: 5, Counter: 9}, Revoked: 2}
}

func nonce(n byte) protocol.Nonce { return protocol.Nonce{0xc0, 7: n} }
