package hostlink

import (
	"context"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/stream"
)

// ask gives the question that next returns, if there is one, its number in a transaction
// of its own. The caller sends it by pump.
func (l *link) ask(ctx context.Context, next func(core.Tx) (*protocol.ControlItem, error)) error {
	var given []core.Item
	err := l.c.base.Update(ctx, failpoint.QuestionAsked, func(tx core.Tx) error {
		given = nil
		q, err := next(tx)
		if err != nil || q == nil {
			return err
		}
		it, err := l.c.control(tx, l.host, *q)
		given = append(given, it)
		return err
	})
	if err == nil {
		l.out.add(protocol.StreamControl, given...)
	}
	return err
}

// askRecovering asks a host the next question about what it did before a recovery.
func (l *link) askRecovering() {
	marker := l.c.base.NewActionID(l.c.base.NowMS())
	err := l.ask(l.c.base.Ctx, func(tx core.Tx) (*protocol.ControlItem, error) {
		return l.c.cfg.Questions.NextQuestion(tx, l.host, marker)
	})
	if err != nil {
		l.c.base.Log.Error("cannot ask a host what it did before the recovery; it is tried again", "host", l.host, "err", err)
		l.agenda.ask()
	}
}

// recoveryMoved looks whether the next question is due, after reports of a host were
// taken. When the host has told everything, it is asked about its open actions.
func (l *link) recoveryMoved() {
	if l.c.cfg.Questions.ToldMore(l.c.base.Ctx, l.host) {
		l.agenda.ask()
	}
	l.c.cfg.Start(func() { l.sendWaiting(l.c.base.Ctx) })
}

// askAgain asks a host that came back about the actions that it should know and never
// told the end of: after a restart of either side nothing stays RUNNING by mistake.
func (l *link) askAgain() {
	if l.c.base.Recovery() != "" {
		return
	}
	later := false
	err := l.ask(l.c.base.Ctx, func(tx core.Tx) (*protocol.ControlItem, error) {
		controls, err := tx.Streams.Get(l.host, protocol.StreamControl)
		// A host that takes no controls, however often it comes back, makes no more than
		// a window of questions.
		if later = err == nil && controls.Pos.N-controls.Freed.N >= stream.Window; err != nil || later {
			return nil, err
		}
		orders, err := tx.Streams.Get(l.host, protocol.StreamOrder)
		if err != nil {
			return nil, err
		}
		open, err := tx.Actions.List(core.ActionFilter{
			Host: l.host, States: []protocol.State{protocol.StatePendingSchedule, protocol.StateNew, protocol.StateRunning}, Limit: protocol.MaxTell,
		})
		ids := nextQuestion(open, orders, controls)
		if err != nil || len(ids) == 0 {
			return nil, err
		}
		return &protocol.ControlItem{Verb: protocol.VerbTell, IDs: ids}, nil
	})
	if err != nil {
		l.c.base.Log.Error("cannot ask a host about its actions; it is tried again", "host", l.host, "err", err)
	}
	if err != nil || later {
		l.agenda.ask()
	}
}
