package agent

import (
	"context"
	"time"

	"github.com/hostler-io/hostler/agent/loop"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/stream"
)

// outbound is a sealed message of one connection.
type outbound struct {
	conn     uint64
	typ      protocol.Type
	topic    string
	payload  []byte
	retained bool
}

// send hands sealed messages to the connection, in order. It may wait there; the
// loop does not.
func (a *Agent) send(ctx context.Context) error {
	var dead uint64 // the connection that failed
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case m := <-a.outgoing:
			if m.conn == dead {
				continue
			}
			if err := a.cfg.Link.Publish(ctx, m.topic, m.payload, m.retained); err != nil {
				dead = m.conn
				loop.Newest(a.lost, m.conn)
				continue
			}
			a.counters.traffic.Sent(m.typ)
		}
	}
}

// post seals a message and hands it to the sender. What finds no room there is
// lost: everything that matters is repeated.
func (a *Agent) post(t protocol.Type, c protocol.Channel, v any) {
	payload, err := a.seal(v)
	if err != nil {
		a.cfg.Log.Error("a message cannot be signed", "type", string(t), "error", err)
		return
	}
	select {
	case a.outgoing <- outbound{a.link.conn, t, a.topic(c), payload, c.Retained()}:
	default:
		a.counters.traffic.Dropped()
	}
}

// state sends a state message, if the coordinator has answered.
func (a *Agent) state(t protocol.Type, c protocol.Channel, build func(protocol.Header) any) bool {
	seq, chal, ok := a.voice.Next(t, a.cfg.BootMS())
	if !ok {
		return false
	}
	h := a.header(t)
	h.Seq, h.Chal = seq, chal
	a.post(t, c, build(h))
	return true
}

// pump sends what is due of the streams up, and a receipt if one is owed.
func (a *Agent) pump() {
	if !a.link.answered {
		return
	}
	a.pumpStream(protocol.StreamReport, protocol.TypeReport, protocol.ChannelReport, dueReport)
	a.pumpStream(protocol.StreamAlert, protocol.TypeAlert, protocol.ChannelAlert, dueAlert)
	if !a.link.toAck {
		return
	}
	if since := a.loop.Now() - a.link.lastAck; a.link.lastAck == 0 || since >= ackEvery {
		a.ack()
	} else {
		a.at(dueAck, ackEvery-since)
	}
}

func (a *Agent) pumpStream(s protocol.Stream, t protocol.Type, c protocol.Channel, d deadline) {
	p := a.streams[s]
	first, last := p.resend.Due(p.at.N, a.loop.Now(), a.loop.Jitter())
	if first <= last {
		rows, err := a.cfg.Queue.Outbox(a.loop.Steps(), s, first, last)
		if !a.loop.Disk(err) {
			return // the next turn of the resend finds them
		}
		for _, row := range rows {
			h := a.header(t)
			h.Store, h.Stream, h.N, h.Item = a.self.Store, s, row.N, row.Item
			a.post(t, c, h)
		}
	}
	if wake, ok := p.resend.Wake(); ok {
		a.due[d].At(wake)
	} else {
		a.due[d].Stop()
	}
}

// wrote notes that a step of the queue has written reports up to n. Only a hello
// needs their digests too, and looks them up.
func (a *Agent) wrote(n uint64) {
	p := a.streams[protocol.StreamReport]
	p.at.N = max(p.at.N, n)
}

// reread looks up where the streams up stand after a step that may have written
// any number of items.
func (a *Agent) reread() {
	p, err := a.cfg.Queue.Positions(a.loop.Steps())
	if !a.loop.Disk(err) {
		return
	}
	for _, at := range p.Sent {
		a.streams[at.Stream].at = at
	}
}

// ack sends the receipt for what came down: cumulative, so that one is enough
// for many.
func (a *Agent) ack() {
	a.due[dueAck].Stop()
	var have []protocol.Position
	for _, s := range []protocol.Stream{protocol.StreamOrder, protocol.StreamControl} {
		if p := a.streams[s]; !p.at.Store.IsZero() {
			have = append(have, p.at)
		}
	}
	sent := a.state(protocol.TypeAck, protocol.ChannelAck, func(h protocol.Header) any {
		return protocol.Ack{Header: h, Have: have, Credit: a.relay.Credits()}
	})
	if sent {
		a.link.toAck, a.link.lastAck = false, a.loop.Now()
	}
}

// receipt takes the coordinator's receipt: the answer to the hello, what it has,
// and what it wants.
func (a *Agent) receipt(r *protocol.Receipt, raw []byte) {
	a.greeted(r.Give)
	for _, have := range r.Have {
		p := a.streams[have.Stream]
		if p == nil || !p.up {
			continue
		}
		a.freed(p, have, raw)
	}
	a.sealed(r)
	for _, want := range r.Want {
		if want == protocol.WantFull {
			a.beat.last = nil
			a.sendHeartbeat()
		}
	}
	for _, c := range r.Credit {
		a.relay.Credit(c)
	}
}

// flushAfter is how long what was receipted may stay on the disk when no step of
// the queue takes it along.
const flushAfter = time.Second

// flush removes what was receipted from the disk.
func (a *Agent) flush() {
	if !a.loop.Disk(a.cfg.Queue.Flush(a.loop.Steps())) {
		a.at(dueFlush, loop.RetryDisk)
	}
}

// freed removes from the outbox what the coordinator has.
func (a *Agent) freed(p *place, have protocol.Position, raw []byte) {
	if have.N == 0 || have == p.freed {
		return // nothing new, as most receipts
	}
	kept := protocol.Strengthen(a.self.Evidence, raw)
	verdict, err := a.cfg.Queue.Freed(a.loop.Steps(), have, kept)
	if !a.loop.Disk(err) {
		return
	}
	switch verdict {
	case stream.Frees:
		p.freed = have
		a.loop.Moved()
		a.self.Evidence = kept
		p.resend.Freed(have.N, a.loop.Now(), a.loop.Jitter())
		if have.Stream == protocol.StreamAlert {
			a.flush()
			a.reread() // alerts that waited for room have it now
		}
		a.at(dueFlush, flushAfter)
	case stream.Ahead, stream.Differs:
		// One side was rolled back or swapped. That is for the coordinator to
		// act upon, which sees the same; nothing here is forgotten because of it.
		a.cfg.Log.Error("the coordinator has another history of a stream of ours", "stream", string(have.Stream), "its_n", have.N, "our_n", p.at.N)
	}
}
