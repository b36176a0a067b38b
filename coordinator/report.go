package coordinator

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/stream"
)

// onItems takes reports and alerts of a host: all that are next in line become
// effects and positions in one transaction, and only then are receipted.
func (l *link) onItems(items []protocol.Message) {
	c := l.c
	acked, receipted := l.out.takeFreed(), l.out.receipts()
	var changed []core.Action
	var told []protocol.Report
	var positions []protocol.Position
	var freed map[protocol.Stream]uint64
	noted := make(map[protocol.ActionID]int64)
	err := c.base.Update(c.ctx, failpoint.ReportsTaken, func(tx core.Tx) (err error) {
		changed, positions, told = nil, nil, nil
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
			a, r, err := c.deliver(tx, l.host, m, receipted)
			if err != nil {
				return err
			}
			if r != nil && r.Event == protocol.EventTell {
				told = append(told, *r)
			}
			if !a.ID.IsZero() {
				changed = append(changed, a)
				noted[a.ID] = a.ReceiptedMS
			}
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
			c.log.Error("cannot store what a host reported; it will come again", "host", l.host, "err", err)
		}
		return
	}
	l.receipts.arrived(positions)
	l.out.forgetReceipts(noted)
	c.explain.Heard(l.host, told)
	for _, a := range changed {
		c.base.Wake.Fire(a.ID)
		c.base.News.Tell(a)
		c.relay.Output.Settle(a)
	}
	if len(positions) > 0 {
		c.base.Wake.Fire(core.EventsKey{}, l.host) // alerts and rejected items are events too
		if c.recovery.IsRecovering(l.host) {
			l.recoveryMoved()
		}
	}
}

// deliver makes the effect of one item. An item that is broken is kept as
// rejected with its code, so that nothing behind it waits; only a failing
// store is an error. It returns the action that it has changed, if any, and the
// report, if it is one.
func (c *Coordinator) deliver(tx core.Tx, host protocol.HostID, m protocol.Message, receipted map[protocol.ActionID]int64) (core.Action, *protocol.Report, error) {
	switch m.Header.Stream {
	case protocol.StreamReport:
		var r protocol.Report
		if err := m.DecodeItem(&r); err != nil {
			return core.Action{}, nil, c.reject(tx, host, m, err)
		}
		if r.Policy != nil {
			return core.Action{}, nil, c.toldPolicy(tx, host, r.Policy)
		}
		a, err := c.applyReport(tx, host, m, &r, receipted[r.Action])
		return a, &r, err
	default:
		var a protocol.Alert
		if err := m.DecodeItem(&a); err != nil {
			return core.Action{}, nil, c.reject(tx, host, m, err)
		}
		return core.Action{}, nil, c.applyAlert(tx, host, &a)
	}
}

// reject keeps a broken item's code.
func (c *Coordinator) reject(tx core.Tx, host protocol.HostID, m protocol.Message, why error) error {
	code := c.wire.Count(why)
	return c.base.Event(tx, "item.rejected", host, string(m.Header.Stream), map[string]any{
		"n": m.Header.N, "code": code, "detail": why.Error(),
	})
}

// Bounds of what a host's reports can add to its inventory: each change writes
// it anew. An honest host merges alerts long before, and the next heartbeat
// tells of everything in any case.
const (
	maxAlerts     = 1000
	maxContainers = 10_000
)

// applyAlert keeps the list of raised alerts of a host and tells watchers.
func (c *Coordinator) applyAlert(tx core.Tx, host protocol.HostID, a *protocol.Alert) error {
	h, err := tx.Hosts.Get(host)
	if err != nil {
		return err
	}
	kept := make([]protocol.AlertInfo, 0, len(h.Inventory.Alerts)+1)
	for _, old := range h.Inventory.Alerts {
		if old.ID != a.ID {
			kept = append(kept, old)
		}
	}
	verb := "alert.cleared"
	if a.Raised {
		verb = "alert.raised"
		if len(kept) < maxAlerts {
			kept = append(kept, a.AlertInfo)
		}
	}
	h.Inventory.Alerts = kept
	if err := tx.Hosts.Put(h); err != nil {
		return err
	}
	return c.base.Event(tx, verb, host, a.ID, map[string]any{"severity": a.Severity, "text": a.Text})
}

// applyReport moves the coordinator's view of an action along the evidence of
// its host. receipted is when its order was acknowledged, if that is to be noted.
func (c *Coordinator) applyReport(tx core.Tx, host protocol.HostID, m protocol.Message, r *protocol.Report, receipted int64) (core.Action, error) {
	a, err := tx.Actions.Get(r.Action)
	local := errors.Is(err, core.ErrNotFound)
	switch {
	case local && r.State == protocol.StateNone:
		return core.Action{}, c.recovery.Told(tx, host, r) // neither side knows it
	case local && r.Event == protocol.EventTell && !c.recovery.IsRecovering(host):
		// The answer to a question about what was forgotten here meanwhile. What
		// began on the host is told without being asked.
		return core.Action{}, nil
	case local:
		a = c.adopt(host, r)
	case err != nil:
		return core.Action{}, err
	case a.Host != host:
		return core.Action{}, c.reject(tx, host, m, fmt.Errorf("%w: action %s is of host %s", protocol.ErrWrongHost, a.ID, a.Host))
	}
	if r.Event == protocol.EventTell && r.State == protocol.StateNone {
		return c.applyUnknown(tx, a, r)
	}
	before := a
	a.ReceiptedMS = cmp.Or(a.ReceiptedMS, receipted)
	if !r.Digest.IsZero() && r.Digest != a.Digest {
		if err := c.conflict(tx, &a, r); err != nil {
			return a, err
		}
	}
	// Of what began elsewhere a report may have come before the answer that tells
	// what it is.
	learnt := !local && len(a.Spec) == 0 && len(r.Spec) > 0
	if learnt {
		takeIntent(&a, r)
	}
	if !observe(&a, r, c.base.NowMS()) && !learnt && a.Digest == before.Digest && a.Cancelling == before.Cancelling && a.Detail == before.Detail {
		return core.Action{}, nil // evidence of what was known
	}
	if local {
		err = tx.Actions.Insert(a)
	} else {
		err = tx.Actions.Put(a)
	}
	if err != nil {
		return a, err
	}
	if err := c.follow(tx, a, r); err != nil {
		return a, err
	}
	by := core.Actor{Name: string(protocol.HostParty(host))}
	if err := c.base.Transition(tx, by, a, before.State, r.Event, protocol.Sum(m.Header.Item)); err != nil {
		return a, err
	}
	return a, c.base.ActionEvent(tx, a, before.State)
}

// follow brings what is known of the host up to date with what an action has made
// of it, of its container or of its policy: whoever waited for the action sees it. A report that comes late
// says nothing against a newer heartbeat; both are dated by the host's clock.
func (c *Coordinator) follow(tx core.Tx, a core.Action, r *protocol.Report) error {
	done := a.State == protocol.StateDone
	gone, policySet := done && a.Kind == protocol.KindDestroy, done && a.Kind == protocol.KindPolicySet
	if r.Container == nil && !gone && !policySet {
		return nil
	}
	h, err := tx.Hosts.Get(a.Host)
	if err != nil || r.AtMS < h.Inventory.Host.ClockMS {
		return err
	}
	if policySet {
		return c.setPolicy(tx, a)
	}
	old := h.Inventory.Containers
	i := slices.IndexFunc(old, func(ct protocol.Container) bool { return ct.CTID == a.Target })
	switch {
	case gone && i < 0:
		return nil
	case gone:
		h.Inventory.Containers = slices.Delete(slices.Clone(old), i, i+1)
	case r.Container.CTID != a.Target:
		return nil
	case i < 0 && len(old) >= maxContainers:
		return nil
	case i < 0:
		h.Inventory.Containers = append(slices.Clone(old), *r.Container)
	default:
		h.Inventory.Containers = slices.Clone(old)
		h.Inventory.Containers[i] = *r.Container
	}
	return tx.Hosts.Put(h)
}

// observe applies a report to an action; it reports whether the action moved.
// Evidence that leads nowhere new is no error: it comes twice after every
// crash.
func observe(a *core.Action, r *protocol.Report, nowMS int64) bool {
	next, reason, err := r.Observe(a.State, a.Reason)
	moved := err == nil && (next != a.State || !next.Final() && r.Attempt > a.Attempt)
	if err == nil {
		a.Corrected = a.Corrected || a.State == protocol.StateLost
		a.State, a.Reason = next, reason
	}
	if a.State.Final() && !moved {
		return false
	}
	a.Detail = r.Detail
	a.Cancelling = r.Cancel && !a.State.Final()
	a.AcceptSeq = max(a.AcceptSeq, r.AcceptSeq)
	a.Attempt = max(a.Attempt, r.Attempt)
	// What was told first of a step stays.
	a.AcceptedMS, a.StartedMS, a.FinishedMS = cmp.Or(a.AcceptedMS, r.AcceptedMS), cmp.Or(a.StartedMS, r.StartedMS), cmp.Or(a.FinishedMS, r.EndedMS)
	if r.Exit != nil {
		a.Exit = r.Exit
	}
	if len(r.Output) > 0 {
		a.Output = r.Output
	}
	a.UpdatedMS = nowMS
	if a.State.Final() {
		a.EndedMS = nowMS
	}
	return moved
}

// adopt makes the record of an action that began on the host itself.
func (c *Coordinator) adopt(host protocol.HostID, r *protocol.Report) core.Action {
	a := core.Action{ID: r.Action, Host: host, CreatedMS: r.AtMS, UpdatedMS: c.base.NowMS()}
	takeIntent(&a, r)
	return a
}

// takeIntent makes an action what its host says that it is, and whose. A report that
// does not carry the spec leaves it open: the host tells it when it is asked.
func takeIntent(a *core.Action, r *protocol.Report) {
	a.Spec, a.Digest, a.Requester = r.Spec, r.Digest, "host:"+string(a.Host)
	if r.Requester != "" {
		a.Requester += "/" + r.Requester
	}
	a.Kind, a.Target, a.Name = "", protocol.CTID{}, ""
	if spec, err := protocol.DecodeSpec(r.Spec); err == nil {
		a.Kind, a.Target, a.Name = spec.Kind, spec.Target, spec.Name
	}
}

// applyUnknown makes LOST what the host does not know although it has the
// order: an order that may still be under way says nothing. The answer may be
// to a question of before the action ended; then it says nothing new.
func (c *Coordinator) applyUnknown(tx core.Tx, a core.Action, r *protocol.Report) (core.Action, error) {
	have := r.HaveOrder
	if core.StreamOf(a.Kind) == protocol.StreamControl {
		have = r.HaveControl
	}
	switch {
	case a.Unnumbered() || a.State.Final():
		return a, nil
	case a.Former:
		return c.recovery.UnknownSince(tx, a)
	case a.N > have:
		return a, nil
	}
	err := c.base.Move(tx, &a, protocol.EventHostUnknown)
	return a, err
}

// conflict takes over the host's record of an id that means something else
// here. What was asked for here stays visible and can be issued again.
func (c *Coordinator) conflict(tx core.Tx, a *core.Action, r *protocol.Report) error {
	if a.Conflict == nil {
		a.Conflict = a.Spec // the first intent is what was asked for
	}
	takeIntent(a, r)
	return c.base.Event(tx, "ACTION_CONFLICT", a.Host, a.ID.String(), map[string]any{"host_digest": r.Digest})
}

// emitHost appends an event about a host's presence. Presence is no promise,
// so a store that cannot take it is only logged.
func (c *Coordinator) emitHost(host protocol.HostID, typ, why string) {
	err := c.cfg.Store.Update(c.ctx, func(tx core.Tx) error {
		return c.base.Event(tx, typ, host, string(host), map[string]any{"reason": why})
	})
	if err != nil {
		c.log.Error("cannot note a change of presence", "host", host, "event", typ, "err", err)
	}
	c.base.Wake.Fire(core.EventsKey{}, host)
}

// uptime is the boot clock as a duration, for resends.
func (c *Coordinator) uptime() time.Duration {
	return time.Duration(c.cfg.Boot()) * time.Millisecond
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
