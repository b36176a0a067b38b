package uplink

import (
	"slices"
	"time"

	"github.com/hostler-io/hostler/agent/loop"
	"github.com/hostler-io/hostler/internal/warnings"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/fresh"
	"github.com/hostler-io/hostler/protocol/stream"
)

// ackEvery is how far receipts are apart at least while more comes in.
const ackEvery = 20 * time.Millisecond

// Pump sends what is due of the streams up, and a receipt if one is owed. It
// follows every turn of the loop.
func (u *Uplink) Pump() {
	if !u.link.answered {
		return
	}
	u.pumpStream(protocol.StreamReport, protocol.TypeReport, protocol.ChannelReport)
	u.pumpStream(protocol.StreamAlert, protocol.TypeAlert, protocol.ChannelAlert)
	if !u.link.toAck {
		return
	}
	if since := u.loop.Now() - u.link.lastAck; u.link.lastAck == 0 || since >= ackEvery {
		u.ack()
	} else {
		u.ackSoon.In(ackEvery - since)
	}
}

func (u *Uplink) pumpStream(s protocol.Stream, t protocol.Type, c protocol.Channel) {
	p := u.streams.all[s]
	first, last := p.resend.Due(p.at.N, u.loop.Now(), u.loop.Jitter())
	if first <= last {
		rows, err := u.cfg.Queue.Outbox(u.loop.Steps(), s, first, last)
		if !u.loop.Disk(err) {
			return // the next turn of the resend finds them
		}
		for _, row := range rows {
			h := u.cfg.Host.Header(t)
			h.Store, h.Stream, h.N, h.Item = u.self.Store, s, row.N, row.Item
			u.out.post(u.link.conn, t, c, h)
		}
	}
	if wake, ok := p.resend.Wake(); ok {
		u.streams.wake[s].At(wake)
	} else {
		u.streams.wake[s].Stop()
	}
}

// ack sends the receipt for what came down: cumulative, so that one is enough
// for many.
func (u *Uplink) ack() {
	u.ackSoon.Stop()
	sent := u.state(protocol.TypeAck, protocol.ChannelAck, func(h protocol.Header) any {
		return protocol.Ack{Header: h, Have: u.streams.have(), Credit: u.cfg.Relay.Credits()}
	})
	if sent {
		u.link.toAck, u.link.lastAck = false, u.loop.Now()
	}
}

// TellCredits tells the coordinator what the streams of input ask for. What cannot
// be told now is told with the answer to the hello.
func (u *Uplink) TellCredits() {
	if u.link.answered {
		u.ack()
	}
}

// receipt takes the coordinator's receipt: the answer to the hello, what it has,
// and what it wants.
func (u *Uplink) receipt(r *protocol.Receipt, raw []byte) {
	u.heard.Store(u.loop.BootMS())
	u.cfg.Heard()
	u.greeted(r.Give)
	for _, have := range r.Have {
		if p := u.streams.all[have.Stream]; p != nil && p.up {
			u.freed(p, have, raw)
		}
	}
	u.sealed(r)
	u.beat.receipted(r.Beat)
	if slices.Contains(r.Want, protocol.WantLease) {
		u.cfg.Lease.Soon()
	}
	if slices.Contains(r.Want, protocol.WantFull) {
		u.HeartbeatNow()
	}
	if r.SpreadMS > 0 && u.cfg.Spread != nil {
		u.cfg.Spread(time.Duration(r.SpreadMS) * time.Millisecond)
	}
	if r.Samples {
		u.cfg.Relay.TakesSamples(true)
	}
	for _, c := range r.Credit {
		u.cfg.Relay.Credit(c)
	}
}

// flushAfter is how long what was receipted may stay on the disk when no step of
// the queue takes it along.
const flushAfter = time.Second

// flush removes what was receipted from the disk.
func (u *Uplink) flush() {
	if !u.loop.Disk(u.cfg.Queue.Flush(u.loop.Steps())) {
		u.flushSoon.In(loop.RetryDisk)
	}
}

// freed removes from the outbox what the coordinator has.
func (u *Uplink) freed(p *position, have protocol.Position, raw []byte) {
	if have.N == 0 || have == p.freed {
		return // nothing new, as most receipts
	}
	strongest := fresh.Strengthen(u.self.Evidence, raw)
	verdict, err := u.cfg.Queue.Freed(u.loop.Steps(), have, strongest)
	if !u.loop.Disk(err) {
		return
	}
	switch verdict {
	case stream.Frees:
		p.freed = have
		u.loop.Moved()
		u.self.Evidence = strongest
		p.resend.Freed(have.N, u.loop.Now(), u.loop.Jitter())
		if have.Stream == protocol.StreamAlert {
			u.flush()
			u.streams.reread() // alerts that waited for room have it now
		}
		u.flushSoon.In(flushAfter)
	case stream.Ahead, stream.Differs:
		// One side was rolled back or swapped. That is for the coordinator to
		// act upon, which sees the same; nothing here is forgotten because of it.
		u.cfg.Log.Error("the coordinator has another history of a stream of ours", "stream", string(have.Stream), "its_n", have.N, "our_n", p.at.N)
	}
}

// sealed keeps the newest checkpoint of the coordinator's audit log, which every
// hello brings back, and holds the host's own log against what the coordinator
// was told of it.
func (u *Uplink) sealed(r *protocol.Receipt) {
	if len(r.Checkpoint) > 0 {
		kept, err := u.seals.keep(u.self.Checkpoint, r.Checkpoint)
		switch {
		case err != nil:
			u.refuse("checkpoint", err)
		case kept:
			u.self.Checkpoint = r.Checkpoint
			u.flushSoon.In(flushAfter)
		}
	}
	if r.Audit == (protocol.Position{}) || r.Audit.Store != u.self.Store {
		return // of a database that was replaced, which the hello shows
	}
	if why, ok := u.seals.judge(r.Audit); ok {
		u.rolledBack(why)
	}
}

// rolledBack raises the alert that the coordinator knows more of the host's own audit
// log than the host, for a reason, or takes it back without one.
func (u *Uplink) rolledBack(why string) {
	if _, raised := u.alerts[string(warnings.AuditRolledBack)]; raised == (why != "") {
		return
	}
	alert := protocol.Alert{Raised: why != "", AlertInfo: warnings.New(warnings.AuditRolledBack, "", why, u.loop.WallMS())}
	if why == "" {
		alert.Text = "the audit log has what the coordinator was told of it"
	}
	u.cfg.Log.Error("the host's own audit log was held against what the coordinator was told of it", "found", alert.Text)
	u.cfg.Raise(alert)
}
