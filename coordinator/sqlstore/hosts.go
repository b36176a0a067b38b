package sqlstore

import (
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/protocol"
)

type hosts tx

const (
	standingColumns = `id, state, key_id, approved_ms, approved_by, revoked_ms, reason, quarantined, store, accept_seq, adopted_inc, adopted_conn, adopted_k`
	hostColumns     = standingColumns + `, labels, public_key, inventory, former, csr, awaits, availability`

	standing     = `SELECT ` + standingColumns + ` FROM host WHERE id = $1`
	getHost      = `SELECT ` + hostColumns + ` FROM host WHERE id = $1`
	listHosts    = `SELECT ` + hostColumns + ` FROM host WHERE id > $1 ORDER BY id LIMIT $2`
	namesOfHosts = `SELECT id FROM host WHERE state = $1 ORDER BY id`
)

var putHost = upsert("host", 1, hostColumns+`, told`)

func standingFields(h *core.Host) []any {
	return []any{&h.ID, &h.State, whole(&h.Key), &h.ApprovedMS, &h.ApprovedBy, &h.RevokedMS, &h.Reason,
		&h.Quarantined, text(&h.Store), &h.AcceptSeq, &h.Adopted.Inc, &h.Adopted.Conn, &h.Adopted.K}
}

func hostFields(h *core.Host) []any {
	return append(standingFields(h), asJSON(&h.Labels), &h.PublicKey, asJSON(&h.Inventory), asJSON(&h.Former), &h.CSR, &h.Awaits, asJSON(&h.Availability))
}

func (t hosts) Get(id protocol.HostID) (core.Host, error) {
	h, err := one(t.db, hostFields, getHost, id)
	return h, wrap(err, "host", id)
}

func (t hosts) Standing(id protocol.HostID) (core.Host, error) {
	h, err := recall(tx(t), func(m *memory) *map[protocol.HostID]core.Host { return &m.hosts }, id, func() (core.Host, error) {
		return one(t.db, standingFields, standing, id)
	})
	return h, wrap(err, "host", id)
}

func (t hosts) Put(h core.Host) error {
	if t.memory != nil {
		delete(t.memory.hosts, h.ID)
	}
	_, err := exec(t.db, putHost, append(hostFields(&h), told(h.Inventory))...)
	return wrap(err, "putting host", h.ID)
}

func (t hosts) List(after protocol.HostID, limit int) ([]core.Host, error) {
	all, err := list(t.db, hostFields, listHosts, after, atMost(limit))
	return all, wrap(err, "hosts after", after)
}

type enrolments tx

const (
	inviteColumns = `id, secret, labels, created_ms, created_by, expires_ms, wrong, bound_key, revoked_ms, host`

	getInvite = `SELECT ` + inviteColumns + ` FROM invite WHERE id = $1`

	enrolmentColumns = `id, invite, host, key_id, words, state, reason, created_ms, decided_ms, decided_by, labels, public_key, csr, offer, certificate`

	getEnrolment      = `SELECT ` + enrolmentColumns + ` FROM enrolment WHERE id = $1`
	getEnrolmentByKey = `SELECT ` + enrolmentColumns + ` FROM enrolment WHERE key_id = $1 ORDER BY created_ms DESC, id DESC LIMIT 1`
	listEnrolments    = `SELECT ` + enrolmentColumns + ` FROM enrolment ORDER BY created_ms, id LIMIT $1`
	listEnrolmentsIn  = `SELECT ` + enrolmentColumns + ` FROM enrolment WHERE state = $2 ORDER BY created_ms, id LIMIT $1`
)

var (
	putInvite    = upsert("invite", 1, inviteColumns)
	putEnrolment = upsert("enrolment", 1, enrolmentColumns)
)

func inviteFields(v *core.Invite) []any {
	return []any{&v.ID, &v.Secret, asJSON(&v.Labels), &v.CreatedMS, &v.CreatedBy, &v.ExpiresMS, &v.Wrong,
		text(&v.BoundKey), &v.RevokedMS, &v.Host}
}

func enrolmentFields(e *core.Enrolment) []any {
	return []any{&e.ID, &e.Invite, &e.Host, text(&e.Key), &e.Words, &e.State, &e.Reason, &e.CreatedMS, &e.DecidedMS,
		&e.DecidedBy, asJSON(&e.Labels), &e.PublicKey, &e.CSR, &e.Offer, &e.Certificate}
}

func (t enrolments) Invite(id string) (core.Invite, error) {
	v, err := one(t.db, inviteFields, getInvite, id)
	return v, wrap(err, "invite", id)
}

func (t enrolments) PutInvite(v core.Invite) error {
	_, err := exec(t.db, putInvite, inviteFields(&v)...)
	return wrap(err, "putting invite", v.ID)
}

func (t enrolments) Get(id string) (core.Enrolment, error) {
	e, err := one(t.db, enrolmentFields, getEnrolment, id)
	return e, wrap(err, "enrolment", id)
}

func (t enrolments) ByKey(key protocol.KeyID) (core.Enrolment, error) {
	e, err := one(t.db, enrolmentFields, getEnrolmentByKey, text(&key))
	return e, wrap(err, "enrolment of key", key)
}

func (t enrolments) Put(e core.Enrolment) error {
	_, err := exec(t.db, putEnrolment, enrolmentFields(&e)...)
	return wrap(err, "putting enrolment", e.ID)
}

func (t enrolments) List(state core.EnrolmentState, limit int) (all []core.Enrolment, err error) {
	if state == "" {
		all, err = list(t.db, enrolmentFields, listEnrolments, atMost(limit))
	} else {
		all, err = list(t.db, enrolmentFields, listEnrolmentsIn, atMost(limit), state)
	}
	return all, wrap(err, "enrolments", state)
}
