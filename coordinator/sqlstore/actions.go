package sqlstore

import (
	"slices"
	"strings"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/protocol"
)

type actions tx

const (
	// actionCounter is the name of the counter of actions that were ever asked for, and
	// of the numbers that are set aside for others: they need only be in order.
	actionCounter = "action"
	aside         = 1000

	setAside = `UPDATE counter SET last = last + $2 WHERE name = $1 RETURNING last`
)

const (
	actionColumns = `id, host, kind, target, name, digest, state, reason, detail, requester,
		created_ms, updated_ms, ended_ms, expires_ms, n, accept_seq, attempt, cancelling, cancel_by, corrected,
		exit, output, conflict, spec, batch, sent_ms, receipted_ms, accepted_ms, started_ms, finished_ms, needs, approvals, former, at_once`

	getAction   = `SELECT ` + actionColumns + ` FROM action WHERE id = $1`
	findActions = `SELECT id FROM action WHERE id >= $1 AND id < $2 OR substr(id, 37 - length($1)) = $1 ORDER BY id LIMIT $3`

	// Lists take an exclusive upper bound of the id and a limit. There is a text for
	// each index. Those of a target and of a batch say what else is wanted in a way
	// that no index matches: they have few actions, a host or a state any number.
	listActions            = `SELECT ` + actionColumns + ` FROM action WHERE id < $1 ORDER BY id DESC LIMIT $2`
	listActionsOfHost      = `SELECT ` + actionColumns + ` FROM action WHERE id < $1 AND host = $3 ORDER BY id DESC LIMIT $2`
	listActionsOfHostState = `SELECT ` + actionColumns + ` FROM action WHERE id < $1 AND host = $3 AND state = $4 ORDER BY id DESC LIMIT $2`
	listActionsInState     = `SELECT ` + actionColumns + ` FROM action WHERE id < $1 AND state = $3 ORDER BY id DESC LIMIT $2`
	listActionsOfBatch     = `SELECT ` + actionColumns + ` FROM action WHERE id < $1 AND batch = $3 AND batch <> ''
		AND ($4 = '' OR host = $4) AND ($5 = '' OR state = $5) AND ($6 = '' OR target = $6) ORDER BY id DESC LIMIT $2`
	listActionsOfTarget = `SELECT ` + actionColumns + ` FROM action WHERE id < $1 AND target = $3 AND target <> ''
		AND ($4 = '' OR host = $4) AND ($5 = '' OR state = $5) ORDER BY id DESC LIMIT $2`

	expiredActions = `SELECT ` + actionColumns + ` FROM action
		WHERE n = 0 AND former = 0 AND state IN ('PENDING_APPROVE', 'PENDING_SCHEDULE') AND expires_ms < $1
		ORDER BY expires_ms, id LIMIT $2`
)

// controls lists the kinds that travel as controls.
var controls = func() string {
	var all []string
	for _, k := range protocol.Kinds() {
		if core.StreamOf(k) == protocol.StreamControl {
			all = append(all, "'"+string(k)+"'")
		}
	}
	return strings.Join(all, ", ")
}()

var (
	insertAction = insert("action", actionColumns+", asked")
	updateAction = update("action", actionColumns)

	unsentActions = `SELECT ` + actionColumns + ` FROM action
		WHERE host = $1 AND state = 'PENDING_SCHEDULE' AND n = 0 AND former = 0 AND kind NOT IN (` + controls + `) ORDER BY asked, id LIMIT $2`
	unsentControls = `SELECT ` + actionColumns + ` FROM action
		WHERE host = $1 AND state = 'PENDING_SCHEDULE' AND n = 0 AND former = 0 AND kind IN (` + controls + `) ORDER BY asked, id LIMIT $2`
)

// afterAllIDs is greater than the text of any id, and appended to the beginning of
// one greater than all that begin so.
const afterAllIDs = "g"

func actionFields(a *core.Action) []any {
	return []any{whole(&a.ID), &a.Host, &a.Kind, text(&a.Target), &a.Name, whole(&a.Digest), &a.State, &a.Reason,
		&a.Detail, &a.Requester, &a.CreatedMS, &a.UpdatedMS, &a.EndedMS, &a.ExpiresMS, &a.N, &a.AcceptSeq, &a.Attempt,
		&a.Cancelling, &a.CancelBy, &a.Corrected, asJSON(&a.Exit), asJSON(&a.Output), &a.Conflict, &a.Spec,
		text(&a.Batch), &a.SentMS, &a.ReceiptedMS, &a.AcceptedMS, &a.StartedMS, &a.FinishedMS,
		asJSON(&a.Needs), asJSON(&a.Approvals), &a.Former, &a.AtOnce}
}

func (t actions) Get(id protocol.ActionID) (core.Action, error) {
	a, err := one(t.db, actionFields, getAction, id.String())
	return a, wrap(err, "action", id)
}

// asked returns the next number of what is asked for.
func (t actions) asked() (uint64, error) {
	m := t.memory
	if m == nil || m.asked.next == 0 || m.asked.next > m.asked.last {
		last, err := one(t.db, single[uint64], setAside, actionCounter, aside)
		if err != nil || m == nil {
			return last, err
		}
		m.asked = numbers{next: last - aside + 1, last: last}
	}
	m.asked.next++
	return m.asked.next - 1, nil
}

func (t actions) Insert(a core.Action) error {
	asked, err := t.asked()
	if err == nil {
		_, err = exec(t.db, insertAction, append(actionFields(&a), asked)...)
	}
	return wrap(err, "inserting action", a.ID)
}

func (t actions) Put(a core.Action) error {
	n, err := exec(t.db, updateAction, actionFields(&a)...)
	if err == nil && n == 0 {
		err = core.ErrNotFound
	}
	return wrap(err, "putting action", a.ID)
}

func (t actions) Find(part string, limit int) ([]protocol.ActionID, error) {
	ids, err := list(t.db, func(id *protocol.ActionID) []any { return []any{text(id)} }, findActions, part, part+afterAllIDs, atMost(limit))
	return ids, wrap(err, "actions like", part)
}

func (t actions) List(f core.ActionFilter) ([]core.Action, error) {
	if f.Limit <= 0 {
		f.Limit = 100
	}
	if len(f.States) == 0 {
		all, err := t.inState(f, "")
		return all, wrap(err, "actions", f)
	}
	// One search for each state, merged: a search for several would read all of
	// them before it could sort.
	var all []core.Action
	for _, state := range slices.Compact(slices.Sorted(slices.Values(f.States))) {
		some, err := t.inState(f, state)
		if err != nil {
			return nil, wrap(err, "actions", f)
		}
		all = append(all, some...)
	}
	slices.SortFunc(all, func(a, b core.Action) int { return strings.Compare(b.ID.String(), a.ID.String()) })
	return all[:min(len(all), f.Limit)], nil
}

// inState lists with one state, or all if it is empty, in place of the filter's.
func (t actions) inState(f core.ActionFilter, state protocol.State) ([]core.Action, error) {
	before := afterAllIDs
	if !f.Before.IsZero() {
		before = f.Before.String()
	}
	switch {
	case !f.Batch.IsZero():
		return list(t.db, actionFields, listActionsOfBatch, before, f.Limit, f.Batch.String(), f.Host, state, text(&f.Target))
	case !f.Target.IsZero():
		return list(t.db, actionFields, listActionsOfTarget, before, f.Limit, f.Target.String(), f.Host, state)
	case f.Host != "" && state != "":
		return list(t.db, actionFields, listActionsOfHostState, before, f.Limit, f.Host, state)
	case f.Host != "":
		return list(t.db, actionFields, listActionsOfHost, before, f.Limit, f.Host)
	case state != "":
		return list(t.db, actionFields, listActionsInState, before, f.Limit, state)
	}
	return list(t.db, actionFields, listActions, before, f.Limit)
}

func (t actions) Unsent(host protocol.HostID, on protocol.Stream, limit int) ([]core.Action, error) {
	query := unsentActions
	if on == protocol.StreamControl {
		query = unsentControls
	}
	all, err := list(t.db, actionFields, query, host, atMost(limit))
	return all, wrap(err, "unsent actions of host", host)
}

func (t actions) Expired(nowMS int64, limit int) ([]core.Action, error) {
	all, err := list(t.db, actionFields, expiredActions, nowMS, atMost(limit))
	return all, wrap(err, "actions expired at", nowMS)
}
