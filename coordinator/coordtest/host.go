package coordtest

import (
	"context"
	"crypto/rand"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/beat"
	"github.com/hostler-io/hostler/protocol/fresh"
	"github.com/hostler-io/hostler/protocol/stream"
	"github.com/hostler-io/hostler/terminal"
)

// Order is an order as it reached a host.
type Order struct {
	Header protocol.Header
	Item   protocol.OrderItem
}

// Digest returns the digest of what is ordered.
func (o Order) Digest() protocol.Digest { return protocol.Sum(o.Item.Spec) }

// state is what survives a restart of a host: its disk.
type state struct {
	store     protocol.StoreID
	inc       uint64
	acceptSeq uint64
	have      map[protocol.Stream]protocol.Position // downwards
	sent      map[protocol.Stream]protocol.Position // upwards
	freed     map[protocol.Stream]protocol.Position // upwards, what receipts have covered
	outbox    []item
	evidence  []byte
	// checkpoint is the newest of the coordinator's audit log.
	checkpoint []byte
	ring       uint64 // newest that a message named
}

type item struct {
	pos  protocol.Position
	typ  protocol.Type
	ch   protocol.Channel
	item []byte
}

func (s state) clone() state {
	s.have, s.sent, s.freed, s.outbox = maps.Clone(s.have), maps.Clone(s.sent), maps.Clone(s.freed), slices.Clone(s.outbox)
	return s
}

// Host is a scripted host that speaks the real protocol. What it is ordered
// comes out of [Host.Orders], or goes to the function of [Host.Auto]; what it
// answers is up to the test. It receipts, resends and renews by itself.
type Host struct {
	ID    protocol.HostID
	f     *Fleet
	key   *Key
	mail  chan Message
	quit  context.CancelFunc
	ended chan struct{}

	orders   chan Order
	controls chan protocol.ControlItem

	mu       sync.Mutex
	disk     state
	inst     protocol.Nonce
	conn, k  uint64
	number   uint64 // of the newest lease
	ticks    int
	beat     uint64 // of the newest heartbeat
	kept     uint64 // the newest that a receipt has named
	told     map[uint64]beat.Sums
	said     protocol.Seq // first hello of this connection since the newest term was seen
	greeting Message      // the newest hello, as it was sent
	linked   bool         // connected to the broker
	answered bool         // the hello of this connection was answered
	quiet    bool
	chal     protocol.Nonce
	gate     fresh.CoordinatorGate
	window   fresh.SentWindow
	auto     func(*Host, Order)
	lie      func(*protocol.Hello)
	deaf     func(protocol.Channel) bool
	output   map[outputID][]byte
	allowed  map[outputID]int64 // where permission ends, by the newest credit
	measured map[protocol.ActionID][]protocol.Credit
	// takesSamples is what the newest receipt says of samples.
	takesSamples bool
	forgot       []protocol.ActionID // whose output was removed
	refused      []error

	facts Facts
}

// Facts are what heartbeats tell.
type Facts struct {
	Info       protocol.HostInfo
	Containers []protocol.Container
	// Alerts are those that are told as raised, beside what [Host.Alert] sends.
	Alerts []protocol.AlertInfo
	// Audit is the head of the host's own audit log.
	Audit protocol.Position
}

type outputID struct {
	action  protocol.ActionID
	attempt int
	fd      protocol.FD
}

// A host renews as often as agents do, and says again what has no receipt more often.
const (
	again      = 5 * time.Second
	leaseEvery = 30 * time.Second
)

func newHost(f *Fleet, id protocol.HostID, key *Key) *Host {
	ctx, cancel := context.WithCancel(context.Background())
	h := &Host{
		ID: id, f: f, key: key, mail: make(chan Message, 4096), quit: cancel, ended: make(chan struct{}),
		orders: make(chan Order, 1024), controls: make(chan protocol.ControlItem, 1024),
		disk:   state{have: make(map[protocol.Stream]protocol.Position), sent: make(map[protocol.Stream]protocol.Position), freed: make(map[protocol.Stream]protocol.Position)},
		output: make(map[outputID][]byte), allowed: make(map[outputID]int64), measured: make(map[protocol.ActionID][]protocol.Credit),
		facts: Facts{Info: protocol.HostInfo{
			Hostname: string(id) + ".example", Arch: "amd64", InstanceType: "host", Version: "0.1.0", Kernel: "6.18", Boot: "boot 1", CPUs: 2,
		}},
	}
	_, _ = rand.Read(h.disk.store[:])
	h.boot()
	go h.run(ctx)
	return h
}

// boot begins a new process on the disk as it is. It is called with mu held or
// before anybody knows the host.
func (h *Host) boot() {
	h.disk.inc++
	_, _ = rand.Read(h.inst[:])
	h.conn, h.k, h.number, h.beat, h.linked, h.answered = 0, 0, 0, 0, false, false
	h.kept, h.told = 0, make(map[uint64]beat.Sums)
	h.gate = fresh.CoordinatorGate{Seen: h.gate.Seen, Store: h.gate.Store}
	h.window = fresh.SentWindow{}
}

func (h *Host) end() {
	h.quit()
	<-h.ended
}

// post is called by the broker; a mailbox that is full loses, as brokers may.
func (h *Host) post(m Message) {
	select {
	case h.mail <- m:
	default:
	}
}

func (h *Host) run(ctx context.Context) {
	defer close(h.ended)
	t := time.NewTicker(again)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case m := <-h.mail:
			h.take(m)
		case <-t.C:
			h.tick()
		}
	}
}

// Orders returns what was ordered and is not left to a function, once each.
func (h *Host) Orders() <-chan Order { return h.orders }

// Controls returns the controls that came, once each.
func (h *Host) Controls() <-chan protocol.ControlItem { return h.controls }

// Auto lets a function answer orders from now on. It is called by one
// goroutine, in order.
func (h *Host) Auto(fn func(*Host, Order)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.auto = fn
}

// Deaf drops what comes down for as long as the function says so.
func (h *Host) Deaf(fn func(protocol.Channel) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.deaf = fn
}

// Lie changes what every hello claims from now on.
func (h *Host) Lie(fn func(*protocol.Hello)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lie = fn
}

// Refused returns why messages of the coordinator were refused: an honest
// coordinator gives no reason.
func (h *Host) Refused() []error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.refused)
}

// Greeting returns the newest hello of the host, as it was sent.
func (h *Host) Greeting() Message {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.greeting
}

// Connect makes a new connection and says hello. The rest of the greeting
// follows by itself.
func (h *Host) Connect() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.conn++
	h.k, h.linked, h.answered, h.quiet = 0, true, false, false
	h.hello()
}

// Reboot is Connect of a new process on the same disk.
func (h *Host) Reboot() {
	h.mu.Lock()
	h.boot()
	h.mu.Unlock()
	h.Connect()
}

// Goodbye exits cleanly.
func (h *Host) Goodbye() {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := protocol.Presence{Header: h.header(protocol.TypePresence), Kind: protocol.PresenceGoodbye}
	p.Seq, p.Chal = protocol.Seq{Inc: h.disk.inc, Conn: h.conn, K: protocol.KGoodbye}, h.chal
	h.send(protocol.ChannelPresence, p, nil)
	h.linked = false
}

// Break loses the connection: the broker publishes the will.
func (h *Host) Break() {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := protocol.Presence{Header: h.header(protocol.TypePresence), Kind: protocol.PresenceWill}
	p.Seq = protocol.Seq{Inc: h.disk.inc, Conn: h.conn, K: protocol.KWill}
	h.send(protocol.ChannelPresence, p, nil)
	h.linked = false
}

// Silence stops everything that the host says by itself until it connects
// again; nobody is told.
func (h *Host) Silence() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.quiet = true
}

// Speak ends a silence on the connection that is up, as after a pause of the machine: the host
// sends a lease, and tells nothing else by itself.
func (h *Host) Speak() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.quiet = false
	h.lease()
}

// Copy returns another host with the same key and a copy of the disk, as after
// a clone of a machine or of a backup. It is a process of its own and not
// connected.
func (h *Host) Copy() *Host {
	h.mu.Lock()
	disk, gate := h.disk.clone(), h.gate
	h.mu.Unlock()
	other := newHost(h.f, h.ID, h.key)
	other.mu.Lock()
	other.disk, other.gate = disk, fresh.CoordinatorGate{Seen: gate.Seen, Store: gate.Store}
	other.boot()
	other.mu.Unlock()
	return h.f.attach(other)
}

// Rollback puts back the disk of a copy that was made before and begins a new
// process on it, which is not connected. Its count of starts goes on, as if it
// had been started often since.
func (h *Host) Rollback(to *Host) {
	to.mu.Lock()
	disk := to.disk.clone()
	to.mu.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	disk.inc = h.disk.inc
	h.disk = disk
	h.boot()
}

// Forge gives the host an order as whoever stole the coordinator's key can make
// it: the next in the stream. The host takes and acknowledges it.
func (h *Host) Forge(item protocol.OrderItem) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.disk.have[protocol.StreamOrder] = stream.Next(h.disk.have[protocol.StreamOrder], mustJSON(item))
	h.ack()
}

// Report says what became of an action, until it is receipted.
func (h *Host) Report(r protocol.Report) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r.AtMS == 0 {
		r.AtMS = time.Now().UnixMilli()
	}
	h.enqueue(protocol.TypeReport, protocol.ChannelReport, protocol.StreamReport, mustJSON(r))
}

// Alert raises or clears an alert, until it is receipted.
func (h *Host) Alert(a protocol.Alert) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.enqueue(protocol.TypeAlert, protocol.ChannelAlert, protocol.StreamAlert, mustJSON(a))
}

// ReportBytes sends an item of the report stream as it is, be it broken.
func (h *Host) ReportBytes(b []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.enqueue(protocol.TypeReport, protocol.ChannelReport, protocol.StreamReport, b)
}

// Accept returns the next accept number, as a host counts what it takes.
func (h *Host) Accept() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.disk.acceptSeq++
	return h.disk.acceptSeq
}

// Write keeps output of a command and sends its beginning, as hosts do unasked.
// The rest goes up as far as there is credit for it.
func (h *Host) Write(action protocol.ActionID, attempt int, fd protocol.FD, data []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	id := outputID{action, attempt, fd}
	old := int64(len(h.output[id]))
	h.output[id] = append(h.output[id], data...)
	h.chunks(id, old, max(h.allowed[id], protocol.OutputKept))
}

// Acknowledge tells how far a session has taken what peers type.
func (h *Host) Acknowledge(action protocol.ActionID, attempt int, acks ...terminal.Ack) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var b []byte
	for _, a := range acks {
		b = terminal.AppendAck(b, a)
	}
	hd := h.header(protocol.TypeOut)
	hd.Action, hd.Attempt, hd.FD, hd.Size, hd.SHA256 = action, attempt, protocol.TTYInput, int64(len(b)), protocol.Sum(b)
	h.send(protocol.ChannelOut, hd, b)
}

// Measure sends samples, packed, under an id.
func (h *Host) Measure(id protocol.ActionID, packed []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	hd := h.header(protocol.TypeSamples)
	hd.Action, hd.Attempt, hd.FD, hd.Size, hd.SHA256 = id, 1, protocol.Samples, int64(len(packed)), protocol.Sum(packed)
	h.send(protocol.ChannelSamples, hd, packed)
}

// Measured returns what the coordinator has answered to the samples of an id, and whether it
// has said that it takes any.
func (h *Host) Measured(id protocol.ActionID) (answers []protocol.Credit, taken bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.measured[id]), h.takesSamples
}

// Gone tells that the host has dropped bytes of a stream that goes on.
func (h *Host) Gone(action protocol.ActionID, attempt int, fd protocol.FD, from, to int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	hd := h.header(protocol.TypeOut)
	hd.Action, hd.Attempt, hd.FD, hd.Offset, hd.Gone, hd.SHA256 = action, attempt, fd, from, to, protocol.Sum(nil)
	h.send(protocol.ChannelOut, hd, nil)
}

// Set changes what the following heartbeats tell. The coordinator may ask for one at any time.
func (h *Host) Set(fn func(*Facts)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	fn(&h.facts)
}

// Heartbeat tells everything about the host.
func (h *Host) Heartbeat() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.heartbeat()
}

func (f *Facts) state() beat.State {
	return beat.State{Host: f.Info, Containers: f.Containers, Alerts: f.Alerts}
}

// Change tells what has changed since the newest heartbeat that a receipt has named.
func (h *Host) Change() {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.facts.state()
	sums := beat.Sum(now)
	d := beat.Make(h.told[h.kept], sums, now)
	h.beat++
	h.told[h.beat] = sums
	h.send(protocol.ChannelHeartbeat, protocol.Heartbeat{
		Header: h.state(protocol.TypeHeartbeat), AsOf: h.beat, Base: h.kept, Part: 1, Parts: 1, Digest: d.Digest,
		Figures: &d.Figures, Containers: d.Containers, Removed: d.Removed, Alerts: d.Alerts, Cleared: d.Cleared, Audit: h.facts.Audit,
	}, nil)
}

// Started, and the following, are the reports of the usual ends.
func (o Order) Started(h *Host) protocol.Report {
	return protocol.Report{
		Action: o.Item.Action, Digest: o.Digest(), Event: protocol.EventStart, State: protocol.StateRunning, AcceptSeq: h.Accept(), Attempt: 1,
	}
}

// Done reports success after [Order.Started].
func (o Order) Done(output ...protocol.Output) protocol.Report {
	return protocol.Report{
		Action: o.Item.Action, Digest: o.Digest(), Event: protocol.EventSucceed, State: protocol.StateDone, Reason: protocol.ReasonOK,
		Attempt: 1, Exit: &protocol.Exit{RunMS: 3}, Output: output,
	}
}

// Cancelled reports that a cancel won.
func (o Order) Cancelled() protocol.Report {
	return protocol.Report{
		Action: o.Item.Action, Digest: o.Digest(), Event: protocol.EventCancelled, State: protocol.StateCancelled, Reason: protocol.ReasonCancelled,
	}
}

// Succeed carries out any order at once, with that output.
func Succeed(stdout string) func(*Host, Order) {
	return func(h *Host, o Order) {
		h.Report(o.Started(h))
		var out []protocol.Output
		if stdout != "" {
			h.Write(o.Item.Action, 1, protocol.Stdout, []byte(stdout))
			out = append(out, protocol.Output{FD: protocol.Stdout, Bytes: int64(len(stdout))})
		}
		h.Report(o.Done(out...))
	}
}
