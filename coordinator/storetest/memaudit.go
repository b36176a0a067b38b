package storetest

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"math"

	"github.com/hostler-io/hostler/coordinator"
)

type memAudit struct{ *memTx }

func (t memAudit) Append(stored []byte) error {
	if err := t.write(); err != nil {
		return err
	}
	t.lastAudit++
	t.audit.change(t.memTx)[t.lastAudit] = coordinator.AuditRecord{N: t.lastAudit, Stored: bytes.Clone(stored)}
	return nil
}

func cloneAudit(r coordinator.AuditRecord) coordinator.AuditRecord {
	r.Stored = bytes.Clone(r.Stored)
	return r
}

func (t memAudit) Records(after uint64, limit int) ([]coordinator.AuditRecord, error) {
	return pick(t.memTx, t.audit.rows, cloneAudit, limit,
		func(r coordinator.AuditRecord) bool { return r.N > after },
		func(a, b coordinator.AuditRecord) int { return cmp.Compare(a.N, b.N) })
}

func (t memAudit) RecordsBefore(n uint64, limit int) ([]coordinator.AuditRecord, error) {
	return pick(t.memTx, t.audit.rows, cloneAudit, limit,
		func(r coordinator.AuditRecord) bool { return r.N < n },
		func(a, b coordinator.AuditRecord) int { return cmp.Compare(b.N, a.N) })
}

func cloneSeal(s coordinator.Seal) coordinator.Seal {
	s.Leaves, s.Checkpoint = bytes.Clone(s.Leaves), bytes.Clone(s.Checkpoint)
	return s
}

func (t memAudit) Seal(s coordinator.Seal) error {
	if err := t.write(); err != nil {
		return err
	}
	if s.N > math.MaxInt64 {
		return fmt.Errorf("seal %d: %w", s.N, coordinator.ErrInvalid)
	}
	if _, taken := t.seals.rows[s.N]; taken {
		return fmt.Errorf("seal %d: %w", s.N, coordinator.ErrExists)
	}
	t.seals.change(t.memTx)[s.N] = cloneSeal(s)
	return nil
}

func (t memAudit) Seals(after uint64, limit int) ([]coordinator.Seal, error) {
	return pick(t.memTx, t.seals.rows, cloneSeal, limit,
		func(s coordinator.Seal) bool { return s.N > after },
		func(a, b coordinator.Seal) int { return cmp.Compare(a.N, b.N) })
}

func (t memAudit) SealUpTo(n uint64) (coordinator.Seal, error) {
	all, err := pick(t.memTx, t.seals.rows, cloneSeal, 1,
		func(s coordinator.Seal) bool { return s.N <= n },
		func(a, b coordinator.Seal) int { return cmp.Compare(b.N, a.N) })
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("seal up to %d: %w", n, coordinator.ErrNotFound)
	}
	if err != nil {
		return coordinator.Seal{}, err
	}
	return all[0], nil
}

func (t memAudit) Prune(n uint64) error {
	if err := t.write(); err != nil {
		return err
	}
	maps.DeleteFunc(t.audit.change(t.memTx), func(k uint64, _ coordinator.AuditRecord) bool { return k <= n })
	maps.DeleteFunc(t.seals.change(t.memTx), func(k uint64, _ coordinator.Seal) bool { return k < n })
	return nil
}
