package coordinator

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/protocol"
)

const (
	forgetStep  = 500 // records in one transaction, so that nobody waits for long
	forgetSteps = 20  // of actions at one look, each minute
)

// forgetting is how far a walk over what has ended has come. What must stay is
// passed by, and looked at again when the walk begins anew.
type forgetting struct {
	actions, enrolments core.Ended
}

// forget goes on with the walk, for a bounded number of records.
func (c *Coordinator) forget(ctx context.Context, from *forgetting) error {
	if c.base.Recovery() != "" {
		return nil
	}
	return errors.Join(c.forgetActions(ctx, &from.actions), c.forgetEnrolments(ctx, &from.enrolments), c.forgetInvites(ctx))
}

// old returns before when something must have ended to be forgotten by its age.
func (c *Coordinator) old() int64 { return c.base.NowMS() - c.cfg.ActionAge.Milliseconds() }

// forgetActions removes actions that ended too long ago, and of more than are
// kept those that ended first. One that has not ended is never removed, nor one of
// which its host may speak again; what it told is in the audit log.
func (c *Coordinator) forgetActions(ctx context.Context, from *core.Ended) error {
	tooMany, err := c.endedBeyond(ctx)
	if err != nil {
		return err
	}
	for range forgetSteps {
		var page []core.Action
		err := c.base.View(ctx, func(tx core.Tx) (err error) {
			page, err = tx.Past.Actions(*from, forgetStep)
			return err
		})
		if err != nil {
			return err
		}
		old := c.old()
		n := 0
		for n < len(page) && (page[n].EndedMS < old || n < tooMany) {
			n++
		}
		removed, err := c.removeActions(ctx, page[:n])
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
func (c *Coordinator) endedBeyond(ctx context.Context) (n int, err error) {
	err = c.base.View(ctx, func(tx core.Tx) error {
		n = -c.cfg.Actions
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
// removed after them; those that a crash leaves are nobody's, and go at a look at
// the output that is kept.
func (c *Coordinator) removeActions(ctx context.Context, all []core.Action) (int, error) {
	if len(all) == 0 {
		return 0, nil
	}
	// Nobody begins to read their output meanwhile.
	c.outputs.mu.Lock()
	defer c.outputs.mu.Unlock()
	var gone []core.Action
	err := c.base.Update(ctx, failpoint.PastForgotten, func(tx core.Tx) error {
		gone = nil
		silent := make(map[protocol.HostID]func(core.Action) bool)
		for _, a := range all {
			if silent[a.Host] == nil {
				says, err := c.silentAbout(tx, a.Host)
				if err != nil {
					return err
				}
				silent[a.Host] = says
			}
			if !silent[a.Host](a) || c.isRead(a) {
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
		return 0, fmt.Errorf("forgetting actions: %w", err)
	}
	for _, a := range gone {
		for id := range c.outputs.known[a.Host] {
			if id.action == a.ID {
				delete(c.outputs.known[a.Host], id)
			}
		}
		if err := os.RemoveAll(filepath.Join(c.outputs.dir, a.ID.String())); err != nil {
			return len(gone), err
		}
	}
	return len(gone), nil
}

// isRead reports whether somebody reads output of an action. The caller holds
// c.outputs.mu.
func (c *Coordinator) isRead(a core.Action) bool {
	for id, o := range c.outputs.known[a.Host] {
		if id.action == a.ID && o.refs > 0 {
			return true
		}
	}
	return false
}

// silentAbout returns what tells of which actions a host has nothing to say any
// more: it has acknowledged the order, so that it will not come to it again, and no
// question to it is under way. A number that its stream has not come to is of before
// a recovery, or of the machine before. Answers that are still on their way change
// nothing, see applyReport. A host that is asked for all that it did, or that is
// quarantined, may speak of anything, and one that was shut out of nothing.
func (c *Coordinator) silentAbout(tx core.Tx, id protocol.HostID) (func(core.Action) bool, error) {
	always := func(yes bool) func(core.Action) bool { return func(core.Action) bool { return yes } }
	h, err := tx.Hosts.Standing(id)
	switch {
	case errors.Is(err, core.ErrNotFound) || err == nil && h.State != core.HostApproved:
		return always(true), nil
	case err != nil:
		return nil, err
	case h.Quarantined != "" || c.isRecovering(id):
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
		return a.N > orders.Pos.N || a.N <= orders.Freed.N || core.StreamOf(a.Kind) == protocol.StreamControl
	}, nil
}

// forgetEnrolments removes what was decided long ago, but for the enrolments of
// the hosts that there are: with them they get their certificates.
func (c *Coordinator) forgetEnrolments(ctx context.Context, from *core.Ended) error {
	var gone []string
	old, next := c.old(), core.Ended{}
	err := c.base.View(ctx, func(tx core.Tx) error {
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
	return c.remove(ctx, gone, core.Past.RemoveEnrolment)
}

// forgetInvites removes those whose time was over long ago.
func (c *Coordinator) forgetInvites(ctx context.Context) error {
	var gone []string
	old := c.old()
	err := c.base.View(ctx, func(tx core.Tx) error {
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
	return c.remove(ctx, gone, core.Past.RemoveInvite)
}

// remove removes records in one transaction, if there are any.
func (c *Coordinator) remove(ctx context.Context, ids []string, one func(core.Past, string) error) error {
	if len(ids) == 0 {
		return nil
	}
	return c.base.Update(ctx, failpoint.PastForgotten, func(tx core.Tx) error {
		for _, id := range ids {
			if err := one(tx.Past, id); err != nil {
				return err
			}
		}
		return nil
	})
}

// forgotten is the error for an action that is not there: it may have been.
func (c *Coordinator) forgotten(id string) error {
	return fmt.Errorf("action %s: %w; actions are kept for %d days after their end, and the newest %d of them (actions.days, actions.count); the audit log tells what became of older ones: hostler audit ls",
		id, core.ErrNotFound, int(c.cfg.ActionAge.Hours()/24), c.cfg.Actions)
}
