package hostlink

import (
	"context"
	"fmt"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/protocol"
)

// A batch may go in turns: so many of its actions are under way at once, and the first
// one that fails halts it, which ends all that were not sent.

// turn is what becomes of an action that waits for its number.
type turn int

const (
	turnGo   turn = iota + 1 // it gets its number now
	turnWait                 // others of its batch are under way
	turnHalt                 // one of them failed
)

// decideTurn says whether an action of a batch may go. all are the actions of the batch;
// why goes with turnHalt.
func decideTurn(all []core.Action, a *core.Action) (t turn, why string) {
	busy := 0
	for i := range all {
		switch o := &all[i]; {
		case o.State == protocol.StateFailed || o.State == protocol.StateLost:
			return turnHalt, fmt.Sprintf("its batch was halted: host %s did not end its part well (action %s)", o.Host, o.ID)
		case !o.Unnumbered() && !o.State.Final():
			busy++
		}
	}
	if busy >= a.AtOnce {
		return turnWait, ""
	}
	return turnGo, ""
}

// turns lets batches go in turns.
type turns struct {
	base *core.Base
	link func(protocol.HostID) *link
}

// inTurn leaves out of what waits for a host what its batch does not let go yet, and
// ends what never will go.
func (t turns) inTurn(tx core.Tx, l *link, unsent []core.Action, all *numbered) (rest []core.Action, _ error) {
	for _, a := range unsent {
		if a.AtOnce == 0 {
			rest = append(rest, a)
			continue
		}
		batch, err := batchOf(tx, a.Batch)
		if err != nil {
			return nil, err
		}
		switch turn, why := decideTurn(batch, &a); turn {
		case turnGo:
			rest = append(rest, a)
		case turnWait:
			l.agenda.hold()
		case turnHalt:
			if err := t.halt(tx, a, why); err != nil {
				return nil, err
			}
			all.ended = append(all.ended, a.ID)
		}
	}
	return rest, nil
}

// halt ends an action that was never sent.
func (t turns) halt(tx core.Tx, a core.Action, why string) error {
	a.Detail = why
	return t.base.Move(tx, &a, protocol.EventHalt)
}

// batchOf reads all actions of a batch.
func batchOf(tx core.Tx, id protocol.BatchID) (all []core.Action, err error) {
	f := core.ActionFilter{Batch: id, Limit: core.PageSize}
	for {
		page, err := tx.Actions.List(f)
		if all = append(all, page...); err != nil || len(page) < core.PageSize {
			return all, err
		}
		f.Before = page[len(page)-1].ID
	}
}

// next looks at a batch in turns after an action of it has ended: it lets the next
// ones go, or ends those that wait. What a crash keeps from that is done when their hosts
// come, or by [Conversations.LookAtHeld].
func (t turns) next(ctx context.Context, id protocol.BatchID) {
	var ended []protocol.ActionID
	var next []protocol.HostID
	err := t.base.Update(ctx, failpoint.ActionsExpired, func(tx core.Tx) error {
		ended, next = nil, nil
		all, err := batchOf(tx, id)
		if err != nil {
			return err
		}
		for _, a := range all {
			if a.State != protocol.StatePendingSchedule || !a.Unnumbered() {
				continue
			}
			switch turn, why := decideTurn(all, &a); turn {
			case turnHalt:
				if err := t.halt(tx, a, why); err != nil {
					return err
				}
				ended = append(ended, a.ID)
			case turnGo:
				next = append(next, a.Host)
			case turnWait:
			}
		}
		return nil
	})
	if err != nil {
		t.base.Log.ErrorContext(ctx, "cannot look at a batch; it is looked at again within a minute", "batch", id, "err", err)
		return
	}
	tell(t.base, ended)
	for _, host := range next {
		t.link(host).agenda.number()
	}
}

// LookAtHeld has actions looked at that waited for their turn in a batch, although
// nothing of that batch was heard of.
func (c *Conversations) LookAtHeld() {
	for _, l := range c.allLinks() {
		l.agenda.numberHeld()
	}
}
