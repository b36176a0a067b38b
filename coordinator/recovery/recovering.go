package recovery

import (
	"context"
	"errors"
	"fmt"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/protocol"
)

// recoveryValue names the value that says why nothing may be decided.
const recoveryValue = "recovery"

// Load reads whether anything may be decided, and what the newest recovery was. It is
// called at the start.
func (r *Room) Load(tx core.Tx) error {
	why, err := tx.Values.Get(recoveryValue)
	if err != nil && !errors.Is(err, core.ErrNotFound) {
		return err
	}
	if len(why) > 0 {
		r.base.Gate.Close(string(why))
		r.base.Log.Error("still in recovery", "why", string(why))
	}
	newest, err := recovered(tx)
	if errors.Is(err, core.ErrNotFound) {
		return nil
	}
	r.recovered = newest
	return err
}

// LoadHost reads whether one host has to be asked still. It is called for each host at the
// start.
func (r *Room) LoadHost(tx core.Tx, h core.Host) error {
	_, ok, err := loadHostRecovery(tx, h.ID)
	if ok && h.State == core.HostApproved {
		r.recovering[h.ID] = true
	}
	return err
}

// IsRecovering reports whether a host has still to tell what it did before a recovery.
func (r *Room) IsRecovering(host protocol.HostID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.recovering[host]
}

// Begin notes that a host has to be asked for all that it did.
func (r *Room) Begin(host protocol.HostID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.recovering[host] = true
}

// End notes that a host has told everything, or never will.
func (r *Room) End(host protocol.HostID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.recovering, host)
}

// Forget drops what is noted of a host: it is not asked any more.
func Forget(tx core.Tx, host protocol.HostID) error {
	return tx.Values.Put(hostRecoveries+string(host), nil)
}

// MadeMS is when the newest recovery was made, 0 if there was none.
func (r *Room) MadeMS() int64 { return r.recovered.AtMS }

// Progress tells how far a recovery is.
type Progress struct {
	Recovered
	Left int // hosts that have not told everything yet
}

// Progress returns the newest recovery of this coordinator; its time is 0 if
// there was none.
func (r *Room) Progress(ctx context.Context) (Progress, error) {
	var now Progress
	err := r.base.View(ctx, func(tx core.Tx) (err error) {
		if now.Recovered, err = recovered(tx); errors.Is(err, core.ErrNotFound) {
			err = nil
		}
		return err
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	now.Left = len(r.recovering)
	return now, err
}

// SealedBefore returns how far the audit log of the former store went, as a
// checkpoint shows that a host keeps; 0 if it shows nothing.
func (r *Room) SealedBefore(checkpoint []byte) uint64 {
	if len(checkpoint) == 0 || r.recovered.FormerStore.IsZero() {
		return 0
	}
	p, _, err := protocol.OpenCheckpoint(checkpoint, r.base.Fleet, r.base.Keys.Former())
	if err != nil || p.Log != protocol.Coordinator || p.Store != r.recovered.FormerStore {
		return 0
	}
	return p.N
}

// NoteSealed keeps how far the audit log of the former store went.
func (r *Room) NoteSealed(tx core.Tx, n uint64) error {
	if n == 0 {
		return nil
	}
	made, err := recovered(tx)
	if err != nil || n <= made.AuditSeen {
		return err
	}
	made.AuditSeen = n
	return core.PutJSON(tx, recoveredValue, made)
}

// AskAnew begins with the questions to a host anew: what it has answered may have
// been taken for what it had said before.
func AskAnew(tx core.Tx, host protocol.HostID) error {
	if _, ok, err := loadHostRecovery(tx, host); err != nil || !ok {
		return err
	}
	return putHostRecovery(tx, host, hostRecovery{})
}

// former returns actions of a host that had not ended before the recovery, the
// newest before an id, as many as one question takes. next is the oldest of
// them; zero if there are no more.
func former(tx core.Tx, host protocol.HostID, before protocol.ActionID) (ids []protocol.ActionID, next protocol.ActionID, err error) {
	f := core.ActionFilter{Host: host, States: core.OpenStates(), Before: before, Limit: protocol.MaxTell - 1}
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

// Told takes the answer about an id that neither side knows: if it is the marker of a
// question, all that was asked has been told.
func (r *Room) Told(tx core.Tx, host protocol.HostID, answer *protocol.Report) error {
	rec, ok, err := loadHostRecovery(tx, host)
	if err != nil || !ok || rec.Marker.IsZero() || answer.Action != rec.Marker {
		return err
	}
	rec.Marker = protocol.ActionID{}
	switch {
	case !rec.Listed:
		// Who has nothing more to tell has told everything, whatever it claimed.
		rec.Listed = answer.AcceptSeq >= rec.Until || answer.AcceptSeq <= rec.Since
		rec.Since = max(rec.Since, answer.AcceptSeq)
	case !rec.Next.IsZero():
		rec.Before, rec.Next = rec.Next, protocol.ActionID{}
	default:
		if err := tx.Values.Put(hostRecoveries+string(host), nil); err != nil {
			return err
		}
		return r.base.Event(tx, "host.recovered", host, string(host), map[string]any{"accepted": rec.Until})
	}
	return putHostRecovery(tx, host, rec)
}

// UnknownSince judges the answer that a host does not know an action which had
// not ended before the recovery. Answers from before it has told everything may
// be to questions of the former store, and say nothing.
func (r *Room) UnknownSince(tx core.Tx, a core.Action) (core.Action, error) {
	if rec, ok, err := loadHostRecovery(tx, a.Host); err != nil || ok && !rec.Listed {
		return a, err
	}
	if a.State == protocol.StatePendingApprove {
		// It was never sent, so it may still be approved.
		a.Former = false
		if err := tx.Actions.Put(a); err != nil {
			return a, fmt.Errorf("action %s: %w", a.ID, err)
		}
		return a, nil
	}
	err := r.base.Move(tx, &a, protocol.EventRestored)
	return a, err
}

// NextQuestion returns the next question to a host: for everything that it accepted
// since the backup, and then for each action that had not ended; nil if none is due.
// One question is under way at a time, and each ends with an unused id, the
// marker, whose answer tells that all before it has come.
func (r *Room) NextQuestion(tx core.Tx, host protocol.HostID, marker protocol.ActionID) (*protocol.ControlItem, error) {
	rec, ok, err := loadHostRecovery(tx, host)
	if err != nil || !ok || !rec.Marker.IsZero() {
		return nil, err
	}
	q := protocol.ControlItem{Verb: protocol.VerbTell}
	if !rec.Listed {
		since := rec.Since
		q.Since = &since
	} else if q.IDs, rec.Next, err = former(tx, host, rec.Before); err != nil {
		return nil, err
	}
	rec.Marker = marker
	q.IDs = append(q.IDs, marker)
	return &q, putHostRecovery(tx, host, rec)
}

// ToldMore looks whether the next question to a host is due, after reports of it were
// taken. It reports whether the host is to be asked.
func (r *Room) ToldMore(ctx context.Context, host protocol.HostID) bool {
	var rec hostRecovery
	var left bool
	err := r.base.View(ctx, func(tx core.Tx) (err error) {
		rec, left, err = loadHostRecovery(tx, host)
		return err
	})
	if err != nil {
		r.base.Log.Error("cannot look how far a host has told what it did", "host", host, "err", err)
		return false // the next report, or hello, looks again
	}
	if !left {
		r.End(host)
		r.base.Log.Info("a host has told what it did before the recovery", "host", host)
	}
	return !left || rec.Marker.IsZero()
}

// Meet notes, when a host has said hello, what it can tell that is not known here. It
// reports whether the host has to be asked.
func (r *Room) Meet(tx core.Tx, host *core.Host, h *protocol.Hello) (ask bool, _ error) {
	rec, ok, err := loadHostRecovery(tx, host.ID)
	if err != nil {
		return false, err
	}
	if !ok {
		// One that has worked before it was known here has a past with another
		// coordinator of the fleet, or of its own.
		st, err := tx.Streams.Get(host.ID, protocol.StreamReport)
		if err != nil || !host.Store.IsZero() || !st.Pos.Store.IsZero() || h.AcceptSeq == 0 {
			return false, err
		}
	}
	was := rec
	rec.Until = h.AcceptSeq
	if host.Store != h.Store || h.AcceptSeq < rec.Since {
		rec.Since, rec.Listed = 0, false // its numbers are not those that were known
	}
	if ok && rec == was {
		return true, nil
	}
	return true, putHostRecovery(tx, host.ID, rec)
}
