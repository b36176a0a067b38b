package hostlink

import (
	"fmt"
	"slices"
	"sync"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/protocol"
)

// askBeat is how many leases apart a heartbeat that did not arrive is asked
// for at the most: once a minute.
const askBeat = 12

// maxPages bounds what a host can make the coordinator hold: 64 pages of
// 16 KiB describe some ten thousand containers.
const maxPages = 64

// heartbeats is what is known of the full heartbeats of one host: the pages of
// the one that is arriving, and which one is stored. Its methods may be called
// from any goroutine, and never wait.
type heartbeats struct {
	mu       sync.Mutex
	held     uint64                     // as_of of the newest one that is stored
	lacking  int                        // leases in a row that tell of a newer one
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
	b.held, b.lacking = 0, 0
}

// lacks reports whether the host is to be asked for its heartbeat, because the
// newest one was lost, or its pages came in another order. One may be on its
// way; and a disk that hangs keeps those of all hosts back: they are asked at
// the second lease that tells of it, then twice as late each time.
func (b *heartbeats) lacks(told uint64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if told == b.held {
		b.lacking = 0
		return false
	}
	b.lacking++
	n := b.lacking
	return n%askBeat == 0 || n > 1 && n <= askBeat && n&(n-1) == 0
}

// add takes a page. It returns the inventory when all pages are there.
func (b *heartbeats) add(h protocol.Heartbeat, nowMS int64) (_ core.Inventory, complete bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.asOf != h.AsOf || b.seq.Inc != h.Seq.Inc || b.seq.Conn != h.Seq.Conn || b.parts != h.Parts || b.pages == nil {
		b.seq, b.asOf, b.parts, b.pages = h.Seq, h.AsOf, h.Parts, make(map[int]protocol.Heartbeat)
	}
	b.pages[h.Part] = h
	if len(b.pages) < h.Parts {
		return core.Inventory{}, false
	}
	inv := core.Inventory{AtMS: nowMS, Containers: []protocol.Container{}, Alerts: []protocol.AlertInfo{}}
	for i := 1; i <= h.Parts; i++ {
		p := b.pages[i]
		if p.Host != nil {
			inv.Host, inv.Audit = *p.Host, p.Audit
		}
		inv.Containers = append(inv.Containers, p.Containers...)
		inv.Alerts = append(inv.Alerts, p.Alerts...)
	}
	b.pages = nil
	return inv, true
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
	if err := l.hear(m.Header.Seq, 0); err != nil {
		return err
	}
	if inv, complete := l.beats.add(h, l.c.base.NowMS()); complete {
		l.keepInventory(inv, h.AsOf)
	}
	return nil
}

// alertsOf are the alerts that a host tells, and those that are judged here, which no
// host has a word in.
func alertsOf(known, told []protocol.AlertInfo) []protocol.AlertInfo {
	all := slices.DeleteFunc(slices.Clone(known), func(a protocol.AlertInfo) bool { return !protocol.JudgedByCoordinator(a.ID) })
	told = slices.DeleteFunc(slices.Clone(told), func(a protocol.AlertInfo) bool { return protocol.JudgedByCoordinator(a.ID) })
	return append(told, all...)
}

// keepInventory makes durable what a host told in full. If that fails, the host
// is asked again at one of its next leases.
func (l *link) keepInventory(inv core.Inventory, asOf uint64) {
	c, asked := l.c, l.beats.asked()
	var back string
	var question []core.Item
	var asks protocol.Digest
	err := c.base.Update(c.base.Ctx, failpoint.InventoryKept, func(tx core.Tx) error {
		host, err := tx.Hosts.Get(l.host)
		if err != nil {
			return err
		}
		kept := inv
		kept.Alerts = alertsOf(host.Inventory.Alerts, inv.Alerts)
		if back = wentBack(host.Inventory.Audit, inv.Audit); back != "" || inv.Audit == (protocol.Position{}) {
			kept.Audit = host.Inventory.Audit // what was told before is the proof
		}
		host.Inventory = kept
		question, asks = nil, protocol.Digest{}
		rules, err := c.cfg.Rules.Next(tx, host)
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
	if err == nil && back != "" {
		c.cfg.Standing.Quarantine(l.host, back)
	}
	if err != nil {
		c.base.Log.Error("cannot keep the inventory of a host; it is asked for again", "host", l.host, "err", err)
		return
	}
	l.out.add(protocol.StreamControl, question...)
	l.beats.stored(asOf, asks)
	if len(question) > 0 {
		l.pump()
	}
	c.base.Wake.Fire(core.EventsKey{}) // it may have told of another policy
}
