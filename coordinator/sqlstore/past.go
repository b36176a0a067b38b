package sqlstore

import (
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/protocol"
)

type past tx

const (
	endedActions = `SELECT ` + actionColumns + ` FROM action
		WHERE ended_ms > 0 AND (ended_ms, id) > ($1, $2) ORDER BY ended_ms, id LIMIT $3`
	removeAction      = `DELETE FROM action WHERE id = $1`
	removeOutputs     = `DELETE FROM output WHERE action = $1`
	decidedEnrolments = `SELECT ` + enrolmentColumns + ` FROM enrolment
		WHERE decided_ms > 0 AND (decided_ms, id) > ($1, $2) ORDER BY decided_ms, id LIMIT $3`
	removeEnrolment = `DELETE FROM enrolment WHERE id = $1`
	endedInvites    = `SELECT ` + inviteColumns + ` FROM invite
		WHERE expires_ms > 0 AND (expires_ms, id) > ($1, $2) ORDER BY expires_ms, id LIMIT $3`
	removeInvite = `DELETE FROM invite WHERE id = $1`
)

func (t past) Actions(after core.Ended, limit int) ([]core.Action, error) {
	all, err := list(t.db, actionFields, endedActions, after.AtMS, after.ID, atMost(limit))
	return all, wrap(err, "actions that ended after", after.AtMS)
}

func (t past) RemoveAction(id protocol.ActionID) error {
	_, err := exec(t.db, removeOutputs, id.String())
	if err == nil {
		_, err = exec(t.db, removeAction, id.String())
	}
	return wrap(err, "removing action", id)
}

func (t past) Enrolments(after core.Ended, limit int) ([]core.Enrolment, error) {
	all, err := list(t.db, enrolmentFields, decidedEnrolments, after.AtMS, after.ID, atMost(limit))
	return all, wrap(err, "enrolments decided after", after.AtMS)
}

func (t past) RemoveEnrolment(id string) error {
	_, err := exec(t.db, removeEnrolment, id)
	return wrap(err, "removing enrolment", id)
}

func (t past) Invites(after core.Ended, limit int) ([]core.Invite, error) {
	all, err := list(t.db, inviteFields, endedInvites, after.AtMS, after.ID, atMost(limit))
	return all, wrap(err, "invites that end after", after.AtMS)
}

func (t past) RemoveInvite(id string) error {
	_, err := exec(t.db, removeInvite, id)
	return wrap(err, "removing invite", id)
}
