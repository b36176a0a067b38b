package members

import (
	"context"
	"errors"
	"fmt"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/internal/failpoint"
)

// maxInvites is how many invites one answer holds.
const maxInvites = 1000

// Invites returns the invites that are valid, by the time at which they end.
func (r *Room) Invites(ctx context.Context) (all []core.Invite, err error) {
	err = r.base.View(ctx, func(tx core.Tx) error {
		all, err = tx.Past.Invites(core.Ended{AtMS: r.base.LifeMS() + 1}, maxInvites)
		return err
	})
	return all, err
}

// EndInvite ends an invite: its code admits no host any more. A host that waits for
// approval goes on waiting. Ending an invite that has ended changes nothing.
func (r *Room) EndInvite(ctx context.Context, by core.Actor, id string) error {
	if err := by.May(core.RoleApprover, "end invites"); err != nil {
		return err
	}
	if err := r.base.MayDecide(); err != nil {
		return err
	}
	return r.base.Update(ctx, failpoint.InviteMade, func(tx core.Tx) error {
		i, err := tx.Enrolments.Invite(id)
		if err != nil {
			return fmt.Errorf("invite %.40q: %w", id, err)
		}
		now := r.base.LifeMS()
		if i.ExpiresMS <= now {
			return nil
		}
		i.ExpiresMS = now
		return errors.Join(tx.Enrolments.PutInvite(i), r.base.Audit(tx, by, "host.invite_ended", i.ID, nil))
	})
}
