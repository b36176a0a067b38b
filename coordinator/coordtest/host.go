package coordtest

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
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

	// Info and Containers are what heartbeats tell. They are set before
	// Connect.
	Info       protocol.HostInfo
	Containers []protocol.Container
	// Alerts are those that heartbeats tell as raised, beside what [Host.Alert] sends.
	Alerts []protocol.AlertInfo
	// Audit is the head of the host's own audit log, as heartbeats tell it.
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
		Info: protocol.HostInfo{
			Hostname: string(id) + ".example", Arch: "amd64", InstanceType: "host", Version: "0.1.0", Kernel: "6.18", Boot: "boot 1", CPUs: 2,
		},
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

// Heartbeat tells everything about the host.
func (h *Host) Heartbeat() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.heartbeat()
}

// Change tells what has changed since the newest heartbeat that a receipt has named.
func (h *Host) Change() {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := beat.State{Host: h.Info, Containers: h.Containers, Alerts: h.Alerts}
	sums := beat.Sum(now)
	d := beat.Make(h.told[h.kept], sums, now)
	h.beat++
	h.told[h.beat] = sums
	h.send(protocol.ChannelHeartbeat, protocol.Heartbeat{
		Header: h.state(protocol.TypeHeartbeat), AsOf: h.beat, Base: h.kept, Part: 1, Parts: 1, Digest: d.Digest,
		Figures: &d.Figures, Containers: d.Containers, Removed: d.Removed, Alerts: d.Alerts, Cleared: d.Cleared, Audit: h.Audit,
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

// What follows is called with mu held.

func (h *Host) header(t protocol.Type) protocol.Header {
	return protocol.Header{Type: t, Fleet: h.f.ID, From: protocol.HostParty(h.ID), To: protocol.Coordinator, Ring: max(1, h.disk.ring)}
}

// state numbers a state message.
func (h *Host) state(t protocol.Type) protocol.Header {
	h.k++
	hd := h.header(t)
	hd.Seq, hd.Chal = protocol.Seq{Inc: h.disk.inc, Conn: h.conn, K: h.k}, h.chal
	h.window.Sent(hd.Seq, h.f.boot())
	return hd
}

func (h *Host) send(ch protocol.Channel, body any, attachment []byte) {
	raw, err := protocol.Seal(h.key, mustJSON(body), attachment)
	if err != nil {
		panic(err) // bodies here are objects on one line
	}
	t := protocol.HostTopic(FleetName, h.ID, ch)
	if p, ok := body.(protocol.Presence); ok && p.Kind == protocol.PresenceHello {
		h.greeting = Message{Topic: t, Payload: raw}
	}
	if hd, ok := body.(protocol.Header); ok {
		t.Action = hd.Action
	}
	// A refusal is for the coordinator to count, and for tests to see there.
	_ = h.f.Ingest(t.String(), raw)
}

func (h *Host) hello() {
	hd := h.state(protocol.TypePresence)
	hd.Chal = protocol.Nonce{}
	if !h.said.SameConn(hd.Seq) {
		h.said = hd.Seq
	}
	hello := &protocol.Hello{
		Proto: protocol.Proto, Inst: h.inst, Boot: "boot 1", Store: h.disk.store, SelfFence: "none",
		Sent:     h.positions(h.disk.sent, h.disk.store, protocol.StreamReport, protocol.StreamAlert),
		Have:     slices.SortedFunc(maps.Values(h.disk.have), func(a, b protocol.Position) int { return slices.Compare([]byte(a.Stream), []byte(b.Stream)) }),
		Freed:    slices.Collect(maps.Values(h.disk.freed)),
		TermSeen: h.gate.Seen, AcceptSeq: h.disk.acceptSeq, Evidence: h.disk.evidence, Checkpoint: h.disk.checkpoint,
	}
	if h.lie != nil {
		h.lie(hello)
	}
	h.send(protocol.ChannelPresence, protocol.Presence{Header: hd, Kind: protocol.PresenceHello, Hello: hello}, nil)
}

func (h *Host) positions(m map[protocol.Stream]protocol.Position, store protocol.StoreID, names ...protocol.Stream) []protocol.Position {
	var all []protocol.Position
	for _, name := range names {
		p := m[name]
		p.Store, p.Stream = store, name
		all = append(all, p)
	}
	return all
}

func (h *Host) lease() {
	h.number++
	h.send(protocol.ChannelLease, protocol.Lease{Header: h.state(protocol.TypeLease), Number: h.number, Boot: "boot 1", Inst: h.inst}, nil)
}

func (h *Host) heartbeat() {
	h.beat++
	sums := beat.Sum(beat.State{Host: h.Info, Containers: h.Containers, Alerts: h.Alerts})
	h.told[h.beat] = sums
	h.send(protocol.ChannelHeartbeat, protocol.Heartbeat{
		Header: h.state(protocol.TypeHeartbeat), AsOf: h.beat, Part: 1, Parts: 1, Digest: sums.Digest(), Host: &h.Info, Containers: h.Containers, Alerts: h.Alerts, Audit: h.Audit,
	}, nil)
}

func (h *Host) ack() {
	a := protocol.Ack{Header: h.state(protocol.TypeAck)}
	for _, p := range h.disk.have {
		a.Have = append(a.Have, p)
	}
	h.send(protocol.ChannelAck, a, nil)
}

// Ask asks for what an action reads, whatever the action.
func (h *Host) Ask(credits ...protocol.Credit) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.send(protocol.ChannelAck, protocol.Ack{Header: h.state(protocol.TypeAck), Credit: credits}, nil)
}

func (h *Host) enqueue(typ protocol.Type, ch protocol.Channel, name protocol.Stream, b []byte) {
	p := h.disk.sent[name]
	p.Store, p.Stream = h.disk.store, name
	p = stream.Next(p, b)
	h.disk.sent[name] = p
	it := item{p, typ, ch, b}
	h.disk.outbox = append(h.disk.outbox, it)
	if h.speaks() {
		h.sendItem(it)
	}
}

func (h *Host) sendItem(it item) {
	hd := h.header(it.typ)
	hd.Store, hd.Stream, hd.N, hd.Item = it.pos.Store, it.pos.Stream, it.pos.N, it.item
	h.send(it.ch, hd, nil)
}

// Forget removes the output of an action, as a host does after a hundred newer
// ones. Whoever asks is told that there is nothing.
func (h *Host) Forget(action protocol.ActionID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, fd := range []protocol.FD{protocol.Stdout, protocol.Stderr} {
		delete(h.output, outputID{action, 1, fd})
	}
	h.forgot = append(h.forgot, action)
}

// chunks sends what is there of an output from one offset to another.
func (h *Host) chunks(id outputID, from, to int64) {
	data := h.output[id]
	if slices.Contains(h.forgot, id.action) {
		hd := h.header(protocol.TypeOut)
		hd.Action, hd.Attempt, hd.FD, hd.Offset, hd.SHA256 = id.action, id.attempt, id.fd, from, protocol.Sum(nil)
		h.send(protocol.ChannelOut, hd, nil)
		return
	}
	for to = min(to, int64(len(data))); h.speaks() && from < to; {
		part := data[from:min(to, from+protocol.ChunkSize)]
		hd := h.header(protocol.TypeOut)
		hd.Action, hd.Attempt, hd.FD = id.action, id.attempt, id.fd
		hd.Offset, hd.Size, hd.SHA256 = from, int64(len(part)), protocol.Sum(part)
		h.send(protocol.ChannelOut, hd, part)
		from += int64(len(part))
	}
}

func (h *Host) speaks() bool { return h.linked && h.answered && !h.quiet }

func (h *Host) tick() {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case !h.linked || h.quiet:
	case !h.answered:
		h.hello()
	default:
		if h.ticks++; h.ticks%int(leaseEvery/again) == 0 {
			h.lease()
		}
		for _, it := range h.disk.outbox {
			h.sendItem(it)
		}
	}
}

// take reads one message; a message without a topic means that the broker cut
// the connection, whereupon the host connects again.
func (h *Host) take(m Message) {
	h.mu.Lock()
	if m.Payload == nil {
		linked := h.linked
		h.linked = false
		h.mu.Unlock()
		if linked {
			h.Connect()
		}
		return
	}
	if m.Topic.Channel == protocol.ChannelRing {
		h.mu.Unlock()
		return // for a host's trust, which is one with the fleet's here
	}
	if !h.linked || h.deaf != nil && h.deaf(m.Topic.Channel) {
		h.mu.Unlock()
		return
	}
	msg, err := protocol.Open(m.Payload, protocol.Expect{
		Fleet: h.f.ID, FleetName: FleetName, Self: protocol.HostParty(h.ID), Keys: h.f.Trust, Ring: h.f.Trust.Ring(),
		Topic: m.Topic.String(), Fresh: freshness{h},
	})
	var order *Order
	if err == nil {
		h.disk.ring = max(h.disk.ring, msg.Header.Ring)
		if h.gate.Accept(m.Topic.Channel, &msg.Header) {
			if c := m.Topic.Channel; c == protocol.ChannelCoordinator || c == protocol.ChannelReceipt {
				h.disk.evidence = fresh.Strengthen(h.disk.evidence, m.Payload)
			}
			// Another coordinator, or the same after a restart: what it has
			// answered, if anything, may be an older hello played again.
			h.answered, h.said = false, protocol.Seq{}
			h.hello()
		}
		order, err = h.effect(m, msg)
	}
	if err != nil {
		h.refused = append(h.refused, fmt.Errorf("%s: %w", m.Topic, err))
	}
	auto := h.auto
	h.mu.Unlock()
	if order != nil && auto != nil {
		auto(h, *order)
	} else if order != nil {
		h.orders <- *order
	}
}

// freshness is what a host holds messages against.
type freshness struct{ h *Host }

func (f freshness) Fresh(t protocol.Topic, hd *protocol.Header) error {
	if hd.Heard != (protocol.Seq{}) {
		if _, ok := f.h.window.At(hd.Heard); !ok {
			return protocol.ErrHeard
		}
	}
	if hd.Seq == (protocol.Seq{}) {
		return nil
	}
	return f.h.gate.Fresh(t.Channel, hd)
}

func (f freshness) Term(hd *protocol.Header) error { return f.h.gate.Term(hd) }

func (h *Host) effect(m Message, msg protocol.Message) (*Order, error) {
	switch m.Topic.Channel {
	case protocol.ChannelReceipt:
		return nil, h.onReceipt(m, msg)
	case protocol.ChannelGrant:
		var g protocol.Grant
		return nil, msg.Decode(&g)
	case protocol.ChannelOrder, protocol.ChannelControl:
		return h.onItem(msg)
	}
	return nil, nil
}

func (h *Host) onReceipt(m Message, msg protocol.Message) error {
	var r protocol.Receipt
	if err := msg.Decode(&r); err != nil {
		return err
	}
	if !h.said.Takes(r.Answers) {
		return nil
	}
	h.disk.evidence = fresh.Strengthen(h.disk.evidence, m.Payload)
	if r.Checkpoint != nil {
		h.disk.checkpoint = r.Checkpoint
	}
	for _, p := range r.Have {
		if p.Store == h.disk.store && p.N > h.disk.freed[p.Stream].N {
			h.disk.freed[p.Stream] = p
		}
	}
	h.disk.outbox = slices.DeleteFunc(h.disk.outbox, func(it item) bool {
		return it.pos.N <= stream.Find(r.Have, it.pos.Stream).N
	})
	first := !h.answered
	h.answered, h.chal = true, r.Give
	if h.quiet {
		return nil
	}
	if first {
		h.send(protocol.ChannelPresence, protocol.Presence{Header: h.state(protocol.TypePresence), Kind: protocol.PresenceOnline}, nil)
		h.lease()
		for _, it := range h.disk.outbox {
			h.sendItem(it)
		}
		h.heartbeat()
	}
	h.kept = max(h.kept, r.Beat)
	if slices.Contains(r.Want, protocol.WantLease) {
		h.lease()
	}
	if slices.Contains(r.Want, protocol.WantFull) {
		h.heartbeat()
	}
	h.takesSamples = r.Samples
	for _, c := range r.Credit {
		if c.FD == protocol.Samples {
			h.measured[c.Action] = append(h.measured[c.Action], c)
			continue
		}
		id := outputID{c.Action, c.Attempt, c.FD}
		h.allowed[id] = c.Offset + c.Window
		h.chunks(id, c.Offset, h.allowed[id])
	}
	return nil
}

// onItem takes what is next in line and receipts in any case.
func (h *Host) onItem(msg protocol.Message) (order *Order, err error) {
	hd := msg.Header
	have := h.disk.have[hd.Stream]
	if have.Store != hd.Store {
		have = protocol.Position{Store: hd.Store, Stream: hd.Stream}
	}
	if stream.Receive(have, hd.Store, hd.N) == stream.Deliver {
		if hd.Stream == protocol.StreamOrder {
			order = &Order{Header: hd}
			err = msg.DecodeItem(&order.Item)
		} else {
			var c protocol.ControlItem
			if err = msg.DecodeItem(&c); err == nil {
				h.controls <- c
			}
		}
		if err != nil {
			return nil, err
		}
		have = stream.Next(have, hd.Item)
	}
	h.disk.have[hd.Stream] = have
	h.ack()
	return order, nil
}

func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // nothing here cannot be encoded
	}
	return b
}
