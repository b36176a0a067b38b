package journal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/protocol"
)

const (
	forgetStep  = 500 // records in one transaction, so that no other waits for long
	forgetSteps = 20  // of actions at one look, each minute
)

// forgetting is how far a walk over what has ended has come. What must stay is
// passed by, and looked at again when the walk begins anew.
type forgetting struct {
	actions, enrolments core.Ended
}

// Forget goes on with the walk, for a bounded number of records. One goroutine calls it.
func (r *Room) Forget(ctx context.Context) error {
	from := &r.walk
	if r.base.Recovery() != "" {
		return nil
	}
	return errors.Join(r.forgetActions(ctx, &from.actions), r.forgetEnrolments(ctx, &from.enrolments), r.forgetInvites(ctx))
}

// old returns before when something must have ended to be forgotten by its age.
func (r *Room) old() int64 { return r.base.NowMS() - r.cfg.ActionAge.Milliseconds() }

// forgetActions removes actions that ended too long ago, and of more than are
// kept those that ended first. One that has not ended is never removed, nor one of
// which its host may speak again; what it told is in the audit log.
func (r *Room) forgetActions(ctx context.Context, from *core.Ended) error {
	tooMany, err := r.endedBeyond(ctx)
	if err != nil {
		return err
	}
	for range forgetSteps {
		page, err := core.Read(ctx, r.base, func(tx core.Tx) ([]core.Action, error) { return tx.Past.Actions(*from, forgetStep) })
		if err != nil {
			return err
		}
		old := r.old()
		n := 0
		for n < len(page) && (page[n].EndedMS < old || n < tooMany) {
			n++
		}
		removed, err := r.removeActions(ctx, page[:n])
		if err != nil {
			return err
		}
		tooMany -= removed
		if n < forgetStep {
			*from = core.Ended{}
			return nil
		}
		*from = core.Ended{AtMS: page[n-1].EndedMS, ID: page[n-1].ID.String()}
	}
	return nil
}

// endedBeyond returns how many more actions have ended than are kept.
func (r *Room) endedBeyond(ctx context.Context) (n int, err error) {
	err = r.base.View(ctx, func(tx core.Tx) error {
		n = -r.cfg.Actions
		all, err := tx.Actions.Count()
		for state, some := range all {
			if state.Final() {
				n += some
			}
		}
		return err
	})
	return n, err
}

// removeActions removes those of some actions that may go. Their files are
// removed after them; those that a crash leaves belong to no action, and go at a look at
// the output that is kept.
func (r *Room) removeActions(ctx context.Context, all []core.Action) (int, error) {
	if len(all) == 0 {
		return 0, nil
	}
	n := 0
	err := r.cfg.Outputs.Remove(all, func(unread []core.Action) (gone []core.Action, err error) {
		gone, err = r.forgetOf(ctx, unread)
		n = len(gone)
		return gone, err
	})
	return n, err
}

// forgetOf removes those of some actions that may go, whose output is not being read.
func (r *Room) forgetOf(ctx context.Context, all []core.Action) (gone []core.Action, _ error) {
	err := r.base.Update(ctx, failpoint.PastForgotten, func(tx core.Tx) error {
		gone = nil
		silent := make(map[protocol.HostID]func(core.Action) bool)
		for _, a := range all {
			if silent[a.Host] == nil {
				says, err := r.silentAbout(tx, a.Host)
				if err != nil {
					return err
				}
				silent[a.Host] = says
			}
			if !silent[a.Host](a) {
				continue
			}
			// Late evidence may have come since the list was made.
			if now, err := tx.Actions.Get(a.ID); err != nil || !now.State.Final() || now.EndedMS != a.EndedMS {
				if err != nil && !errors.Is(err, core.ErrNotFound) {
					return err
				}
				continue
			}
			if err := tx.Past.RemoveAction(a.ID); err != nil {
				return err
			}
			gone = append(gone, a)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("forgetting actions: %w", err)
	}
	return gone, nil
}

// silentAbout returns what tells of which actions a host has nothing to say any
// more: it has acknowledged the order, so that it will not come to it again, and no
// question to it is under way. A number that its stream has not come to is of before
// a recovery, or of the machine before. Answers that are still on their way change
// nothing, see applyReport. A host that is asked for all that it did, or that is
// quarantined, may speak of anything, and one that was shut out of nothing.
func (r *Room) silentAbout(tx core.Tx, id protocol.HostID) (func(core.Action) bool, error) {
	always := func(yes bool) func(core.Action) bool { return func(core.Action) bool { return yes } }
	h, err := tx.Hosts.Standing(id)
	switch {
	case errors.Is(err, core.ErrNotFound) || err == nil && h.State != core.HostApproved:
		return always(true), nil
	case err != nil:
		return nil, err
	case h.Quarantined != "" || r.cfg.Recovering(id):
		return always(false), nil
	}
	orders, err := tx.Streams.Get(id, protocol.StreamOrder)
	if err != nil {
		return nil, err
	}
	controls, err := tx.Streams.Get(id, protocol.StreamControl)
	if err != nil {
		return nil, err
	}
	if controls.Freed.N < controls.Pos.N {
		return always(false), nil
	}
	return func(a core.Action) bool {
		return a.Former || a.N > orders.Pos.N || a.N <= orders.Freed.N || core.StreamOf(a.Kind) == protocol.StreamControl
	}, nil
}

// forgetEnrolments removes what was decided long ago, but for the enrolments of
// the hosts that there are: with them they get their certificates.
func (r *Room) forgetEnrolments(ctx context.Context, from *core.Ended) error {
	var gone []string
	old, next := r.old(), core.Ended{}
	err := r.base.View(ctx, func(tx core.Tx) error {
		gone, next = nil, core.Ended{}
		page, err := tx.Past.Enrolments(*from, forgetStep)
		if err != nil {
			return err
		}
		for i, e := range page {
			if e.DecidedMS >= old {
				return nil
			}
			h, err := tx.Hosts.Standing(e.Host)
			if err != nil && !errors.Is(err, core.ErrNotFound) {
				return err
			}
			if e.State != core.EnrolmentPending && (err != nil || h.State != core.HostApproved || h.Key != e.Key) {
				gone = append(gone, e.ID)
			}
			if i == forgetStep-1 {
				next = core.Ended{AtMS: e.DecidedMS, ID: e.ID}
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	*from = next
	return r.remove(ctx, gone, core.Past.RemoveEnrolment)
}

// forgetInvites removes those whose time was over long ago.
func (r *Room) forgetInvites(ctx context.Context) error {
	var gone []string
	old := r.old()
	err := r.base.View(ctx, func(tx core.Tx) error {
		gone = nil
		page, err := tx.Past.Invites(core.Ended{}, forgetStep)
		for _, v := range page {
			if v.ExpiresMS < old {
				gone = append(gone, v.ID)
			}
		}
		return err
	})
	if err != nil {
		return err
	}
	return r.remove(ctx, gone, core.Past.RemoveInvite)
}

// remove removes records in one transaction, if there are any.
func (r *Room) remove(ctx context.Context, ids []string, one func(core.Past, string) error) error {
	if len(ids) == 0 {
		return nil
	}
	return r.base.Update(ctx, failpoint.PastForgotten, func(tx core.Tx) error {
		for _, id := range ids {
			if err := one(tx.Past, id); err != nil {
				return err
			}
		}
		return nil
	})
}

// Forgotten is the error for an action that is not there: it may have been.
func (r *Room) Forgotten(id string) error {
	recovery := ""
	if at := r.cfg.RecoveredMS(); at != 0 {
		recovery = fmt.Sprintf("; this coordinator was recovered from a backup on %s, and what was asked for between the backup and that is known to the hosts alone: hostler --local action show, on its host",
			time.UnixMilli(at).UTC().Format(time.RFC3339))
	}
	return fmt.Errorf("action %s: %w; actions are kept for %d days after their end, and the newest %d of them (actions.days, actions.count); the audit log tells what became of older ones: hostler audit ls%s",
		id, core.ErrNotFound, int(r.cfg.ActionAge.Hours()/24), r.cfg.Actions, recovery)
}
