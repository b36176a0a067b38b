package storetest

import (
	"cmp"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/protocol"
)

type memPast struct{ *memTx }

// place compares places in the order of ends.
func place(a, b core.Ended) int {
	return cmp.Or(cmp.Compare(a.AtMS, b.AtMS), cmp.Compare(a.ID, b.ID))
}

// ended picks what comes after a place; what has not ended is at none.
func ended[K comparable, V any](t *memTx, rows map[K]V, clone func(V) V, after core.Ended, limit int, at func(V) core.Ended) ([]V, error) {
	return pick(t, rows, clone, limit,
		func(v V) bool { return at(v).AtMS > 0 && place(at(v), after) > 0 },
		func(a, b V) int { return place(at(a), at(b)) })
}

func (t memPast) Actions(after core.Ended, limit int) ([]core.Action, error) {
	return ended(t.memTx, t.actions.rows, cloneAction, after, limit, func(a core.Action) core.Ended {
		return core.Ended{AtMS: a.EndedMS, ID: a.ID.String()}
	})
}

func (t memPast) RemoveAction(id protocol.ActionID) error {
	if err := t.write(); err != nil {
		return err
	}
	delete(t.actions.change(t.memTx), id)
	delete(t.asked.change(t.memTx), id)
	outputs := t.outputs.change(t.memTx)
	for key := range outputs {
		if key.action == id {
			delete(outputs, key)
		}
	}
	return nil
}

func (t memPast) Enrolments(after core.Ended, limit int) ([]core.Enrolment, error) {
	return ended(t.memTx, t.enrolments.rows, cloneEnrolment, after, limit, func(e core.Enrolment) core.Ended {
		return core.Ended{AtMS: e.DecidedMS, ID: e.ID}
	})
}

func (t memPast) RemoveEnrolment(id string) error {
	if err := t.write(); err != nil {
		return err
	}
	delete(t.enrolments.change(t.memTx), id)
	return nil
}

func (t memPast) Invites(after core.Ended, limit int) ([]core.Invite, error) {
	return ended(t.memTx, t.invites.rows, cloneInvite, after, limit, func(v core.Invite) core.Ended {
		return core.Ended{AtMS: v.ExpiresMS, ID: v.ID}
	})
}

func (t memPast) RemoveInvite(id string) error {
	if err := t.write(); err != nil {
		return err
	}
	delete(t.invites.change(t.memTx), id)
	return nil
}
