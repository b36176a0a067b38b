package uplink

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/beat"
	"github.com/hostler-io/hostler/protocol/figures"
)

// Numbers of heartbeats.
const (
	// beatEvery is how far heartbeats are apart at least. What changes sooner is
	// told together, not left out.
	beatEvery = 5 * time.Second
	// figuresEvery is how far those are apart that tell of moved figures alone.
	figuresEvery = time.Minute
	// firstRepeat is when one without a receipt is told again, then twice as late
	// each time, up to lastRepeat.
	firstRepeat, lastRepeat = 10 * time.Second, 5 * time.Minute
	// pageSize bounds the payload of one page, so that it delays no lease.
	pageSize = 14 << 10
	// maxInterfaces bounds what the first page has to carry: interfaces are for
	// people.
	maxInterfaces = 32
)

// heartbeat is what the loop remembers of those it sent.
type heartbeat struct {
	number  uint64
	at      time.Duration
	due     bool // one is wanted though nothing has changed
	repeats int  // of the newest, which no receipt has named yet
	heard   bool // a receipt has named it
	digest  protocol.Digest
	sums    beat.Sums // of the newest
	figures figures.Figures
	audit   uint64 // number of the newest record that one told of
	auditAt time.Duration

	base     uint64    // that a receipt has named; 0 is none: all is told
	baseSums beat.Sums // of base
}

// Changed makes a heartbeat due, soon but not too often.
func (u *Uplink) Changed() {
	u.loop.Moved()
	if !u.link.answered {
		return
	}
	pause := time.Duration(0)
	if u.beat.at != 0 {
		pause = max(0, u.beat.at+beatEvery-u.loop.Now())
	}
	u.beatSoon.In(pause)
}

// ActionMoved makes one due after an action has moved: of the host it changes the
// length of the queue alone, and to look for that after each action of many would
// cost as much as some of them.
func (u *Uplink) ActionMoved() {
	u.loop.Moved()
	if u.link.answered {
		u.beatSoon.In(beatEvery)
	}
}

// sendHeartbeat tells what has changed, in pages, if anything has.
func (u *Uplink) sendHeartbeat() {
	u.beatSoon.Stop()
	if !u.link.answered {
		return
	}
	r, ok := u.cfg.Report()
	if !ok {
		return // the first look at the containers makes it due again
	}
	unkept := slices.DeleteFunc(r.Alerts, func(a protocol.AlertInfo) bool { _, kept := u.alerts[a.ID]; return kept })
	now := beat.State{Host: r.Host, Containers: r.Containers, Alerts: slices.AppendSeq(unkept, maps.Values(u.alerts))}
	now.Host.Interfaces = now.Host.Interfaces[:min(len(now.Host.Interfaces), maxInterfaces)]
	b, sums, head := &u.beat, beat.Sum(now), u.seals.head()
	digest, since := sums.Digest(), u.loop.Now()-b.at
	again := !b.heard && b.at != 0 && since >= repeatAfter(b.repeats)
	switch {
	case b.at == 0, b.due, digest != b.digest, now.Host.QueueDepth != b.figures.QueueDepth:
		b.repeats = 0
	case again:
		b.repeats++
	case since >= figuresEvery && now.Host.Moved(b.figures, now.Host.MemoryBytes, now.Host.DiskBytes):
	case u.loop.Now()-b.auditAt >= u.cfg.QuietEvery && head.N != b.audit:
	default:
		u.repeatBeat()
		return
	}
	b.number++
	b.at, b.due, b.heard, b.digest, b.sums, b.figures = u.loop.Now(), false, false, digest, sums, now.Host.Figures
	pages := b.pages(now)
	// New records are told of once in a while, and whenever all is told.
	if b.base == 0 || b.at-b.auditAt >= u.cfg.QuietEvery {
		pages[0].Audit, b.audit, b.auditAt = head, head.N, b.at
	}
	for _, page := range pages {
		u.state(protocol.TypeHeartbeat, protocol.ChannelHeartbeat, func(h protocol.Header) any {
			page.Header = h
			return page
		})
	}
	u.repeatBeat()
}

// repeatBeat makes the newest heartbeat due again, unless a receipt has named it.
func (u *Uplink) repeatBeat() {
	if !u.beat.heard {
		u.beatSoon.In(max(0, u.beat.at+repeatAfter(u.beat.repeats)-u.loop.Now()))
	}
}

func repeatAfter(repeats int) time.Duration { return min(lastRepeat, firstRepeat<<min(repeats, 6)) }

// receipted takes the word that a heartbeat is durable: changes are against it from now
// on, if it is the newest.
func (b *heartbeat) receipted(number uint64) {
	if number != 0 && number == b.number && !b.heard {
		b.heard, b.base, b.baseSums, b.repeats = true, number, b.sums, 0
	}
}

// tellAll makes the next heartbeat a full one: the coordinator may know nothing of this
// host.
func (b *heartbeat) tellAll() {
	b.base, b.due = 0, true
}

// pages describes a state, or what has changed of it since the base.
func (b *heartbeat) pages(now beat.State) []protocol.Heartbeat {
	first := protocol.Heartbeat{Host: &now.Host, Digest: b.digest}
	if b.base != 0 {
		d := beat.Make(b.baseSums, b.sums, now)
		change := protocol.Heartbeat{Host: d.Host, Digest: d.Digest, Removed: d.Removed, Cleared: d.Cleared}
		if d.Host == nil {
			change.Figures = &d.Figures
		}
		if weight(&change) <= pageSize {
			first, now.Containers, now.Alerts = change, d.Containers, d.Alerts
		} else {
			b.base = 0 // all of it is shorter than the names of what is gone
		}
	}
	p := pager{pages: []protocol.Heartbeat{first}, size: weight(&first)}
	for _, c := range now.Containers {
		page := p.room(c)
		page.Containers = append(page.Containers, c)
	}
	for _, a := range now.Alerts {
		page := p.room(a)
		page.Alerts = append(page.Alerts, a)
	}
	for i := range p.pages {
		page := &p.pages[i]
		page.AsOf, page.Base, page.Part, page.Parts = b.number, b.base, i+1, len(p.pages)
	}
	return p.pages
}

// pager fills pages. There is at least one.
type pager struct {
	pages []protocol.Heartbeat
	size  int // of the last page
}

// room returns a page that has room for a piece.
func (p *pager) room(piece any) *protocol.Heartbeat {
	n := size(piece) + 1
	if p.size += n; p.size > pageSize {
		p.pages, p.size = append(p.pages, protocol.Heartbeat{}), n
	}
	return &p.pages[len(p.pages)-1]
}

// weight is what a page has in bytes, but for what each has.
func weight(h *protocol.Heartbeat) int {
	return size([]any{h.Host, h.Figures, h.Containers, h.Alerts, h.Removed, h.Cleared})
}

func size(v any) int {
	b, _ := json.Marshal(v) // texts and numbers alone
	return len(b)
}

// HeartbeatNow makes a full heartbeat due. It reports false if the coordinator has not
// answered.
func (u *Uplink) HeartbeatNow() bool {
	if u.link.answered {
		u.beat.tellAll()
		u.Changed()
	}
	return u.link.answered
}
