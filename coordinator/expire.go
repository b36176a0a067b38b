package coordinator

import (
	"context"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/protocol"
)

// expire ends what was never numbered and whose start budget is used up.
func (c *Coordinator) expire(ctx context.Context) error {
	if c.base.Recovery() != "" {
		return nil
	}
	var due []core.Action
	now := c.base.LifeMS()
	err := c.base.View(ctx, func(tx core.Tx) (err error) {
		due, err = tx.Queue.Expired(now, core.PageSize)
		return err
	})
	if err != nil || len(due) == 0 {
		return err
	}
	err = c.base.Update(ctx, failpoint.ActionsExpired, func(tx core.Tx) error {
		for _, d := range due {
			a, err := tx.Actions.Get(d.ID)
			if err != nil {
				return err
			}
			if !a.Unnumbered() || a.State.Final() || a.ExpiresMS >= now {
				continue // it was numbered, has ended, or was approved meanwhile
			}
			a.Detail = c.whyExpired(&a)
			if err := c.base.Move(tx, &a, protocol.EventExpire); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	c.base.Wake.Fire(core.EventsKey{})
	for _, a := range due {
		c.base.Wake.Fire(a.ID)
		c.base.News.Ask(a.ID)
	}
	return nil
}
