package storetest

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"math"

	"github.com/hostler-io/hostler/coordinator/core"
)

type memAudit struct{ *memTx }

func (t memAudit) Append(stored []byte) error {
	if err := t.write(); err != nil {
		return err
	}
	t.lastAudit++
	t.audit.change(t.memTx)[t.lastAudit] = core.AuditRecord{N: t.lastAudit, Stored: bytes.Clone(stored)}
	return nil
}

func cloneAudit(r core.AuditRecord) core.AuditRecord {
	r.Stored = bytes.Clone(r.Stored)
	return r
}

func (t memAudit) Records(after uint64, limit int) ([]core.AuditRecord, error) {
	return pick(t.memTx, t.audit.rows, cloneAudit, limit,
		func(r core.AuditRecord) bool { return r.N > after },
		func(a, b core.AuditRecord) int { return cmp.Compare(a.N, b.N) })
}

func (t memAudit) RecordsBefore(n uint64, limit int) ([]core.AuditRecord, error) {
	return pick(t.memTx, t.audit.rows, cloneAudit, limit,
		func(r core.AuditRecord) bool { return r.N < n },
		func(a, b core.AuditRecord) int { return cmp.Compare(b.N, a.N) })
}

func cloneSeal(s core.Seal) core.Seal {
	s.Leaves, s.Checkpoint = bytes.Clone(s.Leaves), bytes.Clone(s.Checkpoint)
	return s
}

func (t memAudit) Seal(s core.Seal) error {
	if err := t.write(); err != nil {
		return err
	}
	if s.N > math.MaxInt64 {
		return fmt.Errorf("seal %d: %w", s.N, core.ErrInvalid)
	}
	if _, taken := t.seals.rows[s.N]; taken {
		return fmt.Errorf("seal %d: %w", s.N, core.ErrExists)
	}
	t.seals.change(t.memTx)[s.N] = cloneSeal(s)
	return nil
}

func (t memAudit) Seals(after uint64, limit int) ([]core.Seal, error) {
	return pick(t.memTx, t.seals.rows, cloneSeal, limit,
		func(s core.Seal) bool { return s.N > after },
		func(a, b core.Seal) int { return cmp.Compare(a.N, b.N) })
}

func (t memAudit) SealUpTo(n uint64) (core.Seal, error) {
	all, err := pick(t.memTx, t.seals.rows, cloneSeal, 1,
		func(s core.Seal) bool { return s.N <= n },
		func(a, b core.Seal) int { return cmp.Compare(b.N, a.N) })
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("seal up to %d: %w", n, core.ErrNotFound)
	}
	if err != nil {
		return core.Seal{}, err
	}
	return all[0], nil
}

func (t memAudit) Prune(n uint64) error {
	if err := t.write(); err != nil {
		return err
	}
	maps.DeleteFunc(t.audit.change(t.memTx), func(k uint64, _ core.AuditRecord) bool { return k <= n })
	maps.DeleteFunc(t.seals.change(t.memTx), func(k uint64, _ core.Seal) bool { return k < n })
	return nil
}
