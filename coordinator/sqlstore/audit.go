package sqlstore

import (
	"github.com/hostler-io/hostler/coordinator/core"
)

type auditLog tx

// Numbers of records are those of rows: SQLite gives the one after the greatest
// there is, and takes it back with an undone transaction, so they are dense. The
// newest row is never removed.
const (
	listAudit       = `SELECT n, record FROM audit WHERE n > $1 ORDER BY n LIMIT $2`
	listAuditBefore = `SELECT n, record FROM audit WHERE n < $1 ORDER BY n DESC LIMIT $2`
	pruneAudit      = `DELETE FROM audit WHERE n <= $1`

	sealColumns = `n, h, at_ms, leaves, checkpoint`

	listSeals  = `SELECT ` + sealColumns + ` FROM seal WHERE n > $1 ORDER BY n LIMIT $2`
	sealUpTo   = `SELECT ` + sealColumns + ` FROM seal WHERE n <= $1 ORDER BY n DESC LIMIT 1`
	pruneSeals = `DELETE FROM seal WHERE n < $1`
)

var appendAudit = several(insert("audit", "record"))

func auditFields(a *core.AuditRecord) []any { return []any{&a.N, &a.Stored} }

func sealFields(s *core.Seal) []any {
	return []any{&s.N, whole(&s.H), &s.AtMS, &s.Leaves, &s.Checkpoint}
}

// Append adds the record at the end of the Update, with others.
func (t auditLog) Append(stored []byte) error {
	if t.memory == nil {
		_, err := exec(t.db, appendAudit[0], stored)
		return wrap(err, "appending to the", "audit log")
	}
	t.memory.records = append(t.memory.records, stored)
	return nil
}

func (t auditLog) Records(after uint64, limit int) ([]core.AuditRecord, error) {
	all, err := settled(tx(t), auditFields, listAudit, upTo(after), atMost(limit))
	return all, wrap(err, "audit records after", after)
}

func (t auditLog) RecordsBefore(n uint64, limit int) ([]core.AuditRecord, error) {
	all, err := settled(tx(t), auditFields, listAuditBefore, upTo(n), atMost(limit))
	return all, wrap(err, "audit records before", n)
}

func (t auditLog) Seal(s core.Seal) error {
	_, err := exec(t.db, insert("seal", sealColumns), sealFields(&s)...)
	return wrap(err, "sealing audit record", s.N)
}

func (t auditLog) Seals(after uint64, limit int) ([]core.Seal, error) {
	all, err := list(t.db, sealFields, listSeals, upTo(after), atMost(limit))
	return all, wrap(err, "seals after", after)
}

func (t auditLog) SealUpTo(n uint64) (core.Seal, error) {
	s, err := one(t.db, sealFields, sealUpTo, upTo(n))
	return s, wrap(err, "seal up to", n)
}

func (t auditLog) Prune(n uint64) error {
	err := tx(t).settle()
	if err == nil {
		_, err = exec(t.db, pruneAudit, upTo(n))
	}
	if err == nil {
		_, err = exec(t.db, pruneSeals, upTo(n))
	}
	return wrap(err, "pruning the audit log up to", n)
}
