package hostlink

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/coordinator/wire"
	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/stream"
)

// onItems takes reports and alerts of a host: all that are next in line become
// effects and positions in one transaction, and only then are receipted.
func (l *link) onItems(items []protocol.Message) {
	c := l.c
	acked, receipted := l.out.takeFreed(), l.out.receipts()
	var all []delivered
	var positions []protocol.Position
	var freed map[protocol.Stream]uint64
	err := c.base.Update(c.base.Ctx, failpoint.ReportsTaken, func(tx core.Tx) (err error) {
		all, positions = nil, nil
		if freed, err = l.free(tx, acked); err != nil {
			return err
		}
		states := make(map[protocol.Stream]core.StreamState)
		for _, m := range items {
			st, ok := states[m.Header.Stream]
			if !ok {
				if st, err = tx.Streams.Get(l.host, m.Header.Stream); err != nil {
					return err
				}
			}
			if stream.Receive(st.Pos, m.Header.Store, m.Header.N) != stream.Deliver {
				continue
			}
			d, err := c.deliver(tx, l.host, m, receipted)
			if err != nil {
				return err
			}
			all = append(all, d)
			st.Pos = stream.Next(st.Pos, m.Header.Item)
			states[m.Header.Stream] = st
		}
		for _, st := range states {
			positions = append(positions, st.Pos)
			if err := tx.Streams.Put(st); err != nil {
				return err
			}
		}
		return nil
	})
	l.freed(acked, freed, err)
	if err != nil {
		if !errors.Is(err, errHistory) {
			c.base.Log.Error("cannot store what a host reported; it will come again", "host", l.host, "err", err)
		}
		return
	}
	l.receipts.arrived(positions)
	l.taken(all)
	if len(positions) > 0 {
		c.base.Wake.Fire(core.EventsKey{}) // alerts and rejected items are events too
		if c.cfg.Questions.IsRecovering(l.host) {
			l.recoveryMoved()
		}
	}
}

// taken tells all that wait for it what items have changed, once that is durable.
func (l *link) taken(all []delivered) {
	c := l.c
	var told []protocol.Report
	for _, d := range all {
		if d.refused != nil {
			c.wire.Count(d.refused)
		}
		if d.report != nil && d.report.Event == protocol.EventTell {
			told = append(told, *d.report)
		}
	}
	c.cfg.Told(l.host, told)
	for _, d := range all {
		if a := d.changed; !a.ID.IsZero() {
			l.out.forgetReceipt(a.ID)
			c.base.Wake.Fire(a.ID)
			c.base.News.Tell(a)
			c.cfg.Output.Settle(a)
			if a.AtOnce > 0 && a.State.Final() {
				turns{c.base, c.link}.next(c.base.Ctx, a.Batch)
			}
		}
	}
}

// delivered is what one item has changed, beside the store.
type delivered struct {
	changed core.Action      // zero if no action has
	report  *protocol.Report // if it is one
	refused error            // what was wrong with the item
}

// deliver makes the effect of one item. An item that is broken is kept as
// rejected with its code, so that nothing behind it waits; only a failing
// store is an error.
func (c *Conversations) deliver(tx core.Tx, host protocol.HostID, m protocol.Message, receipted map[protocol.ActionID]int64) (delivered, error) {
	if m.Header.Stream != protocol.StreamReport {
		var a protocol.Alert
		if err := m.DecodeItem(&a); err != nil {
			return c.reject(tx, host, m, err)
		}
		return delivered{}, c.applyAlert(tx, host, &a)
	}
	var r protocol.Report
	if err := m.DecodeItem(&r); err != nil {
		return c.reject(tx, host, m, err)
	}
	if r.Policy != nil {
		return delivered{}, c.cfg.Policies.Told(tx, host, r.Policy)
	}
	d, err := c.applyReport(tx, host, m, &r, receipted[r.Action])
	d.report = &r
	return d, err
}

// reject keeps a broken item's code.
func (c *Conversations) reject(tx core.Tx, host protocol.HostID, m protocol.Message, why error) (delivered, error) {
	return delivered{refused: why}, c.base.Event(tx, "item.rejected", host, string(m.Header.Stream), map[string]any{
		"n": m.Header.N, "code": wire.CodeOf(why), "detail": why.Error(),
	})
}

// applyAlert keeps the list of raised alerts of a host and tells watchers.
func (c *Conversations) applyAlert(tx core.Tx, host protocol.HostID, a *protocol.Alert) error {
	h, err := tx.Hosts.Get(host)
	if err != nil || core.JudgedByCoordinator(a.ID) {
		return err
	}
	var event string
	h.Inventory, event = noteAlert(h.Inventory, a)
	return cmp.Or(tx.Hosts.Put(h), c.base.Event(tx, event, host, a.ID, map[string]any{"severity": a.Severity, "text": a.Text}))
}

// applyReport writes what a report changes.
func (c *Conversations) applyReport(tx core.Tx, host protocol.HostID, m protocol.Message, r *protocol.Report, receipted int64) (_ delivered, err error) {
	k := reported{host: host, recovering: c.cfg.Questions.IsRecovering(host), receiptedMS: receipted}
	k.action, err = tx.Actions.Get(r.Action)
	if k.found = err == nil; err != nil && !errors.Is(err, core.ErrNotFound) {
		return delivered{}, err
	}
	d := decideReport(k, r, c.base.NowMS())
	a := d.action
	switch d.effect {
	case nothingNew:
		return delivered{}, nil
	case knownNowhere:
		return delivered{}, c.cfg.Questions.Told(tx, host, r)
	case ofAnotherHost:
		return c.reject(tx, host, m, fmt.Errorf("%w: action %s is of host %s", protocol.ErrWrongHost, a.ID, a.Host))
	case lookAgain:
		return delivered{changed: a}, nil
	case formerLost:
		a, err = c.cfg.Questions.UnknownSince(tx, a)
		return delivered{changed: a}, err
	case lost:
		err = c.base.Move(tx, &a, protocol.EventHostUnknown)
		return delivered{changed: a}, err
	}
	return delivered{changed: a}, c.keepReport(tx, &d, k.action.State, m, r)
}

// keepReport writes an action that a report has changed.
func (c *Conversations) keepReport(tx core.Tx, d *observed, before protocol.State, m protocol.Message, r *protocol.Report) error {
	a, put := d.action, tx.Actions.Put
	if d.effect == insert {
		put = tx.Actions.Insert
	}
	if d.conflict {
		if err := c.base.Event(tx, "ACTION_CONFLICT", a.Host, a.ID.String(), map[string]any{"host_digest": r.Digest}); err != nil {
			return err
		}
	}
	if err := put(a); err != nil {
		return err
	}
	if err := c.keepFollowed(tx, &a, r); err != nil {
		return err
	}
	by := core.Actor{Name: string(protocol.HostParty(a.Host))}
	return cmp.Or(c.base.Transition(tx, by, a, before, r.Event, protocol.Sum(m.Header.Item)), c.base.ActionEvent(tx, a, before))
}

// keepFollowed writes what an action has made of its host, of its container or of
// its policy.
func (c *Conversations) keepFollowed(tx core.Tx, a *core.Action, r *protocol.Report) error {
	policySet := a.State == protocol.StateDone && a.Kind == protocol.KindPolicySet
	if r.Container == nil && !policySet && !removed(a) {
		return nil
	}
	h, err := tx.Hosts.Get(a.Host)
	if err != nil || r.AtMS < h.Inventory.Host.ClockMS {
		return err
	}
	if policySet {
		return c.cfg.Policies.PutIntoForce(tx, *a)
	}
	var changed bool
	before := h.Inventory
	before.Containers = slices.Clone(before.Containers)
	if h.Inventory, changed = follow(h.Inventory, a, r); !changed {
		return nil
	}
	if err := tellChanges(c.base, tx, h.ID, before, h.Inventory, a.Requester, a.ID); err != nil {
		return err
	}
	return tx.Hosts.Put(h)
}

// emitHost appends an event about a host's presence. Presence is no promise,
// so a store that cannot take it is only logged.
func (c *Conversations) emitHost(host protocol.HostID, typ, why string) {
	err := c.base.Store.Update(c.base.Ctx, func(tx core.Tx) error {
		return c.base.Event(tx, typ, host, string(host), map[string]any{"reason": why})
	})
	if err != nil {
		c.base.Log.Error("cannot note a change of presence", "host", host, "event", typ, "err", err)
	}
	c.base.Wake.Fire(core.EventsKey{})
}

// uptime is the boot clock as a duration, for resends.
func (c *Conversations) uptime() time.Duration {
	return time.Duration(c.base.Boot()) * time.Millisecond
}

// wentBack compares two heads of a host's audit log, as it told them one after
// the other. It returns why the host must have gone back in time, empty if it
// did not. That its database is another one is for its hello to show.
func wentBack(before, now protocol.Position) string {
	switch {
	case before.Store != now.Store || now.N > before.N:
		return ""
	case now.N < before.N:
		return fmt.Sprintf("its audit log has %d records, it had told of %d: its disk went back", now.N, before.N)
	case now.H != before.H:
		return fmt.Sprintf("record %d of its audit log is another one than before: two histories", now.N)
	}
	return ""
}
