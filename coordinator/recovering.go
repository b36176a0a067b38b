package coordinator

import (
	"context"
	"errors"
	"fmt"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/protocol"
)

// loadRecovery reads whom a recovered coordinator has to ask still.
func (c *Coordinator) loadRecovery(tx core.Tx) error {
	r, err := recovered(tx)
	if errors.Is(err, core.ErrNotFound) {
		return nil
	}
	c.recovered = r
	return err
}

// loadRecovering reads whether one host has to be asked still.
func (c *Coordinator) loadRecovering(tx core.Tx, h core.Host) error {
	_, ok, err := loadHostRecovery(tx, h.ID)
	if ok && h.State == core.HostApproved {
		c.recovering[h.ID] = true
	}
	return err
}

func (c *Coordinator) isRecovering(host protocol.HostID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.recovering[host]
}

func (c *Coordinator) setRecovering(host protocol.HostID, yes bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if yes {
		c.recovering[host] = true
	} else {
		delete(c.recovering, host)
	}
}

// Recovering tells how far a recovery is.
type Recovering struct {
	Recovered
	Left int // hosts that have not told everything yet
}

// Recovering returns the newest recovery of this coordinator; its time is 0 if
// there was none.
func (c *Coordinator) Recovering(ctx context.Context) (Recovering, error) {
	var r Recovering
	err := c.base.View(ctx, func(tx core.Tx) (err error) {
		if r.Recovered, err = recovered(tx); errors.Is(err, core.ErrNotFound) {
			err = nil
		}
		return err
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	r.Left = len(c.recovering)
	return r, err
}

// meet notes, when a host has said hello, what it can tell that is not known
// here. It reports whether the host has to be asked.
func (n *notes) meet(tx core.Tx, host *core.Host, h *protocol.Hello) error {
	rec, ok, err := loadHostRecovery(tx, host.ID)
	if err != nil {
		return err
	}
	if !ok {
		// One that has worked before it was known here has a past with another
		// coordinator of the fleet, or of its own.
		st, err := tx.Streams.Get(host.ID, protocol.StreamReport)
		if err != nil || !host.Store.IsZero() || !st.Pos.Store.IsZero() || h.AcceptSeq == 0 {
			return err
		}
	}
	n.ask = true
	was := rec
	rec.Until = h.AcceptSeq
	if host.Store != h.Store || h.AcceptSeq < rec.Since {
		rec.Since, rec.Listed = 0, false // its numbers are not those that were known
	}
	if ok && rec == was {
		return nil
	}
	return putHostRecovery(tx, host.ID, rec)
}

// sealedBefore returns how far the audit log of the former store went, as a
// checkpoint shows that a host keeps; 0 if it shows nothing.
func (c *Coordinator) sealedBefore(checkpoint []byte) uint64 {
	if len(checkpoint) == 0 || c.recovered.FormerStore.IsZero() {
		return 0
	}
	p, _, err := protocol.OpenCheckpoint(checkpoint, c.cfg.Fleet, c.cfg.Trust.Former())
	if err != nil || p.Log != protocol.Coordinator || p.Store != c.recovered.FormerStore {
		return 0
	}
	return p.N
}

// noteSealed keeps how far the audit log of the former store went.
func noteSealed(tx core.Tx, n uint64) error {
	if n == 0 {
		return nil
	}
	r, err := recovered(tx)
	if err != nil || n <= r.AuditSeen {
		return err
	}
	r.AuditSeen = n
	return putJSON(tx, recoveredValue, r)
}

// askRecovering asks a host the next question: for everything that it accepted
// since the backup, and then for each action that had not ended. One question
// is under way at a time, and each ends with an id that nobody uses, whose
// answer tells that all before it has come.
func (c *Coordinator) askRecovering(l *link) {
	marker := c.base.NewActionID(c.base.NowMS())
	var given []core.Item
	err := c.base.Update(c.ctx, failpoint.QuestionAsked, func(tx core.Tx) error {
		given = nil
		rec, ok, err := loadHostRecovery(tx, l.host)
		if err != nil || !ok || !rec.Marker.IsZero() {
			return err
		}
		q := protocol.ControlItem{Verb: protocol.VerbTell}
		if !rec.Listed {
			q.Since = &rec.Since
		} else if q.IDs, rec.Next, err = former(tx, l.host, rec.Before); err != nil {
			return err
		}
		rec.Marker = marker
		q.IDs = append(q.IDs, marker)
		it, err := c.control(tx, l.host, q)
		if err != nil {
			return err
		}
		given = append(given, it)
		return putHostRecovery(tx, l.host, rec)
	})
	if err != nil {
		c.log.Error("cannot ask a host what it did before the recovery; it is tried again", "host", l.host, "err", err)
		l.agenda.ask()
		return
	}
	l.out.add(protocol.StreamControl, given...)
}

// askAnew begins with the questions to a host anew: what it has answered may have
// been taken for what it had said before.
func askAnew(tx core.Tx, host protocol.HostID) error {
	if _, ok, err := loadHostRecovery(tx, host); err != nil || !ok {
		return err
	}
	return putHostRecovery(tx, host, hostRecovery{})
}

// former returns actions of a host that had not ended before the recovery, the
// newest before an id, as many as one question takes. next is the oldest of
// them; zero if there are no more.
func former(tx core.Tx, host protocol.HostID, before protocol.ActionID) (ids []protocol.ActionID, next protocol.ActionID, err error) {
	f := core.ActionFilter{Host: host, States: openStates(), Before: before, Limit: protocol.MaxTell - 1}
	page, err := tx.Actions.List(f)
	for _, a := range page {
		if a.Former {
			ids = append(ids, a.ID)
		}
	}
	if len(page) == f.Limit {
		next = page[len(page)-1].ID
	}
	return ids, next, err
}

// told takes the answer about an id that neither side knows: if it is the marker
// of a question, all that was asked has been told.
func (c *Coordinator) told(tx core.Tx, host protocol.HostID, r *protocol.Report) error {
	rec, ok, err := loadHostRecovery(tx, host)
	if err != nil || !ok || rec.Marker.IsZero() || r.Action != rec.Marker {
		return err
	}
	rec.Marker = protocol.ActionID{}
	switch {
	case !rec.Listed:
		// Who has nothing more to tell has told everything, whatever it claimed.
		rec.Listed = r.AcceptSeq >= rec.Until || r.AcceptSeq <= rec.Since
		rec.Since = max(rec.Since, r.AcceptSeq)
	case !rec.Next.IsZero():
		rec.Before, rec.Next = rec.Next, protocol.ActionID{}
	default:
		if err := tx.Values.Put(hostRecoveries+string(host), nil); err != nil {
			return err
		}
		return c.base.Event(tx, "host.recovered", host, string(host), map[string]any{"accepted": rec.Until})
	}
	return putHostRecovery(tx, host, rec)
}

// recoveryMoved looks whether the next question is due, after reports of a host
// were taken.
func (l *link) recoveryMoved() {
	c := l.c
	var rec hostRecovery
	var left bool
	err := c.base.View(c.ctx, func(tx core.Tx) (err error) {
		rec, left, err = loadHostRecovery(tx, l.host)
		return err
	})
	if err != nil {
		c.log.Error("cannot look how far a host has told what it did", "host", l.host, "err", err)
		return // the next report, or hello, looks again
	}
	if !left {
		c.setRecovering(l.host, false)
		c.log.Info("a host has told what it did before the recovery", "host", l.host)
	}
	if !left || rec.Marker.IsZero() {
		l.agenda.ask()
	}
	c.workers.Start(func() { l.sendWaiting(c.ctx) })
}

// unknownSince judges the answer that a host does not know an action which had
// not ended before the recovery. Answers from before it has told everything may
// be to questions of the former store, and say nothing.
func (c *Coordinator) unknownSince(tx core.Tx, a core.Action) (core.Action, error) {
	if rec, ok, err := loadHostRecovery(tx, a.Host); err != nil || ok && !rec.Listed {
		return a, err
	}
	if a.State == protocol.StatePendingApprove {
		// Nobody has sent it, so it may still be approved.
		a.Former = false
		if err := tx.Actions.Put(a); err != nil {
			return a, fmt.Errorf("action %s: %w", a.ID, err)
		}
		return a, nil
	}
	err := c.base.Move(tx, &a, protocol.EventRestored)
	return a, err
}
