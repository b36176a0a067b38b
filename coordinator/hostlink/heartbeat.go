package hostlink

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/beat"
)

// maxPages bounds what a host can make the coordinator hold: 64 pages of
// 16 KiB describe some ten thousand containers.
const maxPages = 64

// heartbeats is what is known of the heartbeats of one host: the pages of the one
// that is arriving, and which one is stored. Its methods may be called
// from any goroutine, and never wait.
type heartbeats struct {
	mu       sync.Mutex
	held     uint64                     // as_of of the newest one of the connection that is stored
	askedFor protocol.Digest            // the policy whose text the host was asked for
	seq      protocol.Seq               // of the first page that came
	asOf     uint64                     // of the pages
	parts    int                        // how many there will be
	pages    map[int]protocol.Heartbeat // by number, from 1
}

// connected is called for each newest hello: a new connection may begin with any
// heartbeat.
func (b *heartbeats) connected() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held = 0
}

// add takes a page. It returns all pages as one when they are there.
func (b *heartbeats) add(h protocol.Heartbeat) (_ protocol.Heartbeat, complete bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.asOf != h.AsOf || b.seq.Inc != h.Seq.Inc || b.seq.Conn != h.Seq.Conn || b.parts != h.Parts || b.pages == nil {
		b.seq, b.asOf, b.parts, b.pages = h.Seq, h.AsOf, h.Parts, make(map[int]protocol.Heartbeat)
	}
	b.pages[h.Part] = h
	if len(b.pages) < h.Parts {
		return protocol.Heartbeat{}, false
	}
	whole := b.pages[1]
	for i := 2; i <= h.Parts; i++ {
		p := b.pages[i]
		whole.Containers, whole.Alerts = append(whole.Containers, p.Containers...), append(whole.Alerts, p.Alerts...)
		whole.Removed, whole.Cleared = append(whole.Removed, p.Removed...), append(whole.Cleared, p.Cleared...)
	}
	b.pages = nil
	return whole, true
}

// builds reports whether the base of a heartbeat can be what is stored; a full one has
// none.
func (b *heartbeats) builds(base uint64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return base <= b.held
}

// asked returns the policy whose text the host was asked for already.
func (b *heartbeats) asked() protocol.Digest {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.askedFor
}

// stored notes a heartbeat whose inventory is durable. asked is the policy whose
// text the host is asked for now; zero for none.
func (b *heartbeats) stored(asOf uint64, asked protocol.Digest) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held = asOf
	if !asked.IsZero() {
		b.askedFor = asked
	}
}

// onHeartbeat keeps the inventory once all its pages are there.
func (l *link) onHeartbeat(in inbound) error {
	m, err := l.openState(in)
	if err != nil {
		return err
	}
	var h protocol.Heartbeat
	if err := m.Decode(&h); err != nil {
		return err
	}
	if h.Parts > maxPages {
		return fmt.Errorf("%w: %d pages, at most %d are taken", protocol.ErrPayload, h.Parts, maxPages)
	}
	if err := l.hear(m.Header.Seq, -1); err != nil {
		return err
	}
	if whole, complete := l.beats.add(h); complete {
		l.keepInventory(&whole)
	}
	return nil
}

// stateAfter returns what a heartbeat makes of what is known of a host. What a report has
// told meanwhile may be in it already; then the digest shows whether they agree.
func stateAfter(known core.Inventory, h *protocol.Heartbeat) (beat.State, error) {
	if h.Base == 0 {
		return beat.State{Host: *h.Host, Containers: h.Containers, Alerts: h.Alerts}, nil
	}
	d := beat.Delta{Host: h.Host, Containers: h.Containers, Alerts: h.Alerts, Removed: h.Removed, Cleared: h.Cleared, Digest: h.Digest}
	if h.Host != nil {
		d.Figures = h.Host.Figures
	} else {
		d.Figures = *h.Figures
	}
	told, _ := bySource(known.Alerts)
	return beat.Apply(beat.State{Host: known.Host, Containers: known.Containers, Alerts: told}, d, maxPages*protocol.MaxMessage)
}

// bySource tells the alerts that a host tells from those that are judged here, which no
// host has a word in.
func bySource(all []protocol.AlertInfo) (told, judged []protocol.AlertInfo) {
	told = make([]protocol.AlertInfo, 0, len(all))
	for _, a := range all {
		if core.JudgedByCoordinator(a.ID) {
			judged = append(judged, a)
		} else {
			told = append(told, a)
		}
	}
	return told, judged
}

// keepInventory makes durable what a host told. If that fails, the host tells it again,
// for no receipt names the heartbeat.
func (l *link) keepInventory(h *protocol.Heartbeat) {
	if !l.beats.builds(h.Base) {
		l.wantFull()
		return
	}
	c, asked := l.c, l.beats.asked()
	var back string
	var question []core.Item
	var asks protocol.Digest
	var rules *protocol.ControlItem
	var has []protocol.Container
	err := c.base.Update(c.base.Ctx, failpoint.InventoryKept, func(tx core.Tx) error {
		host, err := tx.Hosts.Get(l.host)
		if err != nil {
			return err
		}
		now, err := stateAfter(host.Inventory, h)
		if err != nil {
			return err
		}
		kept := core.Inventory{AtMS: c.base.NowMS(), Host: now.Host, Containers: slices.Concat([]protocol.Container{}, now.Containers), Audit: h.Audit}
		told, _ := bySource(now.Alerts)
		_, judged := bySource(host.Inventory.Alerts)
		kept.Alerts = append(told, judged...)
		if back = wentBack(host.Inventory.Audit, h.Audit); back != "" || h.Audit == (protocol.Position{}) {
			kept.Audit = host.Inventory.Audit // what was told before is the proof
		}
		if err := tellChanges(c.base, tx, l.host, host.Inventory, kept, string(protocol.HostParty(l.host)), protocol.ActionID{}); err != nil {
			return err
		}
		if host.Quarantined != "" {
			back = "" // it is judged already, and a person may readmit it from here on
		}
		host.Inventory, has = kept, kept.Containers
		question, asks = nil, protocol.Digest{}
		rules, err = c.cfg.Rules.Next(tx, host)
		if err == nil && rules != nil {
			it, failed := c.control(tx, l.host, *rules)
			question, err = []core.Item{it}, failed
		}
		if err != nil {
			return err
		}
		ask, err := c.cfg.Policies.Hear(tx, l.host, kept.Host.Policy, asked)
		if err == nil && ask {
			it, failed := c.control(tx, l.host, protocol.ControlItem{Verb: protocol.VerbPolicy})
			question, err = append(question, it), failed
			asks = kept.Host.Policy.Digest
		}
		if err != nil {
			return err
		}
		return tx.Hosts.Put(host)
	})
	if errors.Is(err, beat.ErrBase) {
		l.wantFull()
		return
	}
	if err == nil && back != "" {
		c.cfg.Standing.Quarantine(l.host, back)
	}
	if err != nil {
		c.base.Log.Error("cannot keep the inventory of a host; the host tells it again", "host", l.host, "err", err)
		return
	}
	c.cfg.Grants.Told(l.host, has)
	if rules != nil {
		c.cfg.Rules.Sent(l.host, rules.Rules)
	}
	l.out.add(protocol.StreamControl, question...)
	l.beats.stored(h.AsOf, asks)
	if !h.Digest.IsZero() { // of a host that tells changes, and understands
		l.receipts.beat(h.AsOf)
	}
	if len(question) > 0 {
		l.pump()
	}
	c.base.Wake.Fire(core.EventsKey{}) // it may have told of another policy
}
