package coordtest

import (
	"maps"
	"slices"

	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/beat"
	"github.com/hostler-io/hostler/protocol/stream"
)

// The methods here without a comment of their own are called with mu held.

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
	f := &h.facts
	sums := beat.Sum(f.state())
	h.told[h.beat] = sums
	h.send(protocol.ChannelHeartbeat, protocol.Heartbeat{
		Header: h.state(protocol.TypeHeartbeat), AsOf: h.beat, Part: 1, Parts: 1, Digest: sums.Digest(), Host: &f.Info, Containers: f.Containers, Alerts: f.Alerts, Audit: f.Audit,
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
// ones. A request for that output is answered with nothing.
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
