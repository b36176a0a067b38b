package hostlink

import (
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/protocol"
)

// askRecovering asks a host the next question about what it did before a recovery.
func (c *Conversations) askRecovering(l *link) {
	marker := c.base.NewActionID(c.base.NowMS())
	var given []core.Item
	err := c.base.Update(c.base.Ctx, failpoint.QuestionAsked, func(tx core.Tx) error {
		given = nil
		q, err := c.cfg.Questions.NextQuestion(tx, l.host, marker)
		if err != nil || q == nil {
			return err
		}
		it, err := c.control(tx, l.host, *q)
		given = append(given, it)
		return err
	})
	if err != nil {
		c.base.Log.Error("cannot ask a host what it did before the recovery; it is tried again", "host", l.host, "err", err)
		l.agenda.ask()
		return
	}
	l.out.add(protocol.StreamControl, given...)
}

// recoveryMoved looks whether the next question is due, after reports of a host were
// taken. When the host has told everything, it is asked about its open actions.
func (l *link) recoveryMoved() {
	if l.c.cfg.Questions.ToldMore(l.c.base.Ctx, l.host) {
		l.agenda.ask()
	}
	l.c.cfg.Start(func() { l.sendWaiting(l.c.base.Ctx) })
}
