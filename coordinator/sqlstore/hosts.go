package sqlstore

import (
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/protocol"
)

type hosts tx

const (
	hostColumns = `id, state, key_id, approved_ms, approved_by, revoked_ms, reason, quarantined, store, accept_seq, adopted_inc, adopted_conn, adopted_k, labels, public_key, inventory, former, csr, awaits`

	standing = `SELECT id, state, key_id, approved_ms, approved_by, revoked_ms, reason, quarantined, store, accept_seq,
		adopted_inc, adopted_conn, adopted_k FROM host WHERE id = $1`

	getHost      = `SELECT ` + hostColumns + ` FROM host WHERE id = $1`
	listHosts    = `SELECT ` + hostColumns + ` FROM host WHERE id > $1 ORDER BY id LIMIT $2`
	namesOfHosts = `SELECT id FROM host WHERE state = $1 ORDER BY id`
	putHost      = `INSERT INTO host (` + hostColumns + `, told)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20)
		ON CONFLICT (id) DO UPDATE SET state = excluded.state, key_id = excluded.key_id,
		approved_ms = excluded.approved_ms, approved_by = excluded.approved_by, revoked_ms = excluded.revoked_ms,
		reason = excluded.reason, quarantined = excluded.quarantined, store = excluded.store,
		accept_seq = excluded.accept_seq, adopted_inc = excluded.adopted_inc, adopted_conn = excluded.adopted_conn,
		adopted_k = excluded.adopted_k, labels = excluded.labels, public_key = excluded.public_key,
		inventory = excluded.inventory, former = excluded.former, csr = excluded.csr, awaits = excluded.awaits,
		told = excluded.told`
)

func scanHost(r scanner) (h core.Host, err error) {
	err = r.Scan(&h.ID, &h.State, textInto(&h.Key), &h.ApprovedMS, &h.ApprovedBy, &h.RevokedMS, &h.Reason,
		&h.Quarantined, textInto(&h.Store), &h.AcceptSeq, &h.Adopted.Inc, &h.Adopted.Conn, &h.Adopted.K, jsonInto(&h.Labels), &h.PublicKey, jsonInto(&h.Inventory),
		jsonInto(&h.Former), &h.CSR, &h.Awaits)
	return h, err
}

func (t hosts) Get(id protocol.HostID) (core.Host, error) {
	h, err := one(t.db, scanHost, getHost, id)
	return h, wrap(err, "host", id)
}

func (t hosts) Standing(id protocol.HostID) (core.Host, error) {
	h, err := one(t.db, func(r scanner) (h core.Host, err error) {
		err = r.Scan(&h.ID, &h.State, textInto(&h.Key), &h.ApprovedMS, &h.ApprovedBy, &h.RevokedMS, &h.Reason,
			&h.Quarantined, textInto(&h.Store), &h.AcceptSeq, &h.Adopted.Inc, &h.Adopted.Conn, &h.Adopted.K)
		return h, err
	}, standing, id)
	return h, wrap(err, "host", id)
}

func (t hosts) Put(h core.Host) error {
	_, err := exec(t.db, putHost, h.ID, h.State, h.Key.String(), h.ApprovedMS, h.ApprovedBy, h.RevokedMS, h.Reason,
		h.Quarantined, text(h.Store), h.AcceptSeq, h.Adopted.Inc, h.Adopted.Conn, h.Adopted.K, asJSON(h.Labels), h.PublicKey, asJSON(h.Inventory),
		asJSON(h.Former), h.CSR, h.Awaits, told(h.Inventory))
	return wrap(err, "putting host", h.ID)
}

func (t hosts) List(after protocol.HostID, limit int) ([]core.Host, error) {
	all, err := list(t.db, scanHost, listHosts, after, atMost(limit))
	return all, wrap(err, "hosts after", after)
}

type enrolments tx

const (
	inviteColumns = `id, secret, labels, created_ms, created_by, expires_ms, wrong, bound_key, revoked_ms, host`

	getInvite = `SELECT ` + inviteColumns + ` FROM invite WHERE id = $1`
	putInvite = `INSERT INTO invite (` + inviteColumns + `) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
		ON CONFLICT (id) DO UPDATE SET secret = excluded.secret, labels = excluded.labels,
		created_ms = excluded.created_ms, created_by = excluded.created_by, expires_ms = excluded.expires_ms,
		wrong = excluded.wrong, bound_key = excluded.bound_key, revoked_ms = excluded.revoked_ms,
		host = excluded.host`

	enrolmentColumns = `id, invite, host, key_id, words, state, reason, created_ms, decided_ms, decided_by, labels, public_key, csr, offer, certificate`

	getEnrolment      = `SELECT ` + enrolmentColumns + ` FROM enrolment WHERE id = $1`
	getEnrolmentByKey = `SELECT ` + enrolmentColumns + ` FROM enrolment WHERE key_id = $1 ORDER BY created_ms DESC, id DESC LIMIT 1`
	listEnrolments    = `SELECT ` + enrolmentColumns + ` FROM enrolment ORDER BY created_ms, id LIMIT $1`
	listEnrolmentsIn  = `SELECT ` + enrolmentColumns + ` FROM enrolment WHERE state = $2 ORDER BY created_ms, id LIMIT $1`
	putEnrolment      = `INSERT INTO enrolment (` + enrolmentColumns + `)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
		ON CONFLICT (id) DO UPDATE SET invite = excluded.invite, host = excluded.host, key_id = excluded.key_id,
		words = excluded.words, state = excluded.state, reason = excluded.reason, created_ms = excluded.created_ms,
		decided_ms = excluded.decided_ms, decided_by = excluded.decided_by, labels = excluded.labels,
		public_key = excluded.public_key, csr = excluded.csr, offer = excluded.offer, certificate = excluded.certificate`
)

func scanInvite(r scanner) (v core.Invite, err error) {
	err = r.Scan(&v.ID, &v.Secret, jsonInto(&v.Labels), &v.CreatedMS, &v.CreatedBy, &v.ExpiresMS, &v.Wrong,
		textInto(&v.BoundKey), &v.RevokedMS, &v.Host)
	return v, err
}

func (t enrolments) Invite(id string) (core.Invite, error) {
	v, err := one(t.db, scanInvite, getInvite, id)
	return v, wrap(err, "invite", id)
}

func (t enrolments) PutInvite(v core.Invite) error {
	_, err := exec(t.db, putInvite, v.ID, v.Secret, asJSON(v.Labels), v.CreatedMS, v.CreatedBy, v.ExpiresMS, v.Wrong,
		text(v.BoundKey), v.RevokedMS, v.Host)
	return wrap(err, "putting invite", v.ID)
}

func scanEnrolment(r scanner) (e core.Enrolment, err error) {
	err = r.Scan(&e.ID, &e.Invite, &e.Host, textInto(&e.Key), &e.Words, &e.State, &e.Reason, &e.CreatedMS, &e.DecidedMS,
		&e.DecidedBy, jsonInto(&e.Labels), &e.PublicKey, &e.CSR, &e.Offer, &e.Certificate)
	return e, err
}

func (t enrolments) Get(id string) (core.Enrolment, error) {
	e, err := one(t.db, scanEnrolment, getEnrolment, id)
	return e, wrap(err, "enrolment", id)
}

func (t enrolments) ByKey(key protocol.KeyID) (core.Enrolment, error) {
	e, err := one(t.db, scanEnrolment, getEnrolmentByKey, text(key))
	return e, wrap(err, "enrolment of key", key)
}

func (t enrolments) Put(e core.Enrolment) error {
	_, err := exec(t.db, putEnrolment, e.ID, e.Invite, e.Host, text(e.Key), e.Words, e.State, e.Reason, e.CreatedMS,
		e.DecidedMS, e.DecidedBy, asJSON(e.Labels), e.PublicKey, e.CSR, e.Offer, e.Certificate)
	return wrap(err, "putting enrolment", e.ID)
}

func (t enrolments) List(state core.EnrolmentState, limit int) (all []core.Enrolment, err error) {
	if state == "" {
		all, err = list(t.db, scanEnrolment, listEnrolments, atMost(limit))
	} else {
		all, err = list(t.db, scanEnrolment, listEnrolmentsIn, atMost(limit), state)
	}
	return all, wrap(err, "enrolments", state)
}
