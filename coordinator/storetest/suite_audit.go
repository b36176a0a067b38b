package storetest

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/hostler-io/hostler/coordinator"
	"github.com/hostler-io/hostler/protocol"
)

func testAudit(t *testing.T, s coordinator.Store) {
	row := func(n int) coordinator.AuditRecord {
		return coordinator.AuditRecord{N: uint64(n), Stored: fmt.Appendf(nil, `{"verb":"%d"}`, n)}
	}
	for n := 1; n <= 3; n++ {
		update(t, s, func(tx coordinator.Tx) error { return tx.Journal().Audit().Append(row(n).Stored) })
	}
	undone := errors.New("undone")
	updateFails(t, s, undone, func(tx coordinator.Tx) error {
		return errors.Join(tx.Journal().Audit().Append([]byte("undone")), undone)
	})
	update(t, s, func(tx coordinator.Tx) error { return tx.Journal().Audit().Append(row(4).Stored) })
	want := []coordinator.AuditRecord{row(1), row(2), row(3), row(4)}
	for _, limit := range []int{1, 2, 10} {
		all := pages(t, s, limit, func(tx coordinator.Tx, last coordinator.AuditRecord) ([]coordinator.AuditRecord, error) {
			return tx.Journal().Audit().Records(last.N, limit)
		})
		equal(t, "records", all, want)
	}
	before := func(n uint64, limit int) (all []coordinator.AuditRecord) {
		view(t, s, func(tx coordinator.Tx) (err error) {
			all, err = tx.Journal().Audit().RecordsBefore(n, limit)
			return err
		})
		return all
	}
	equal(t, "the newest", before(math.MaxUint64, 2), []coordinator.AuditRecord{row(4), row(3)})
	equal(t, "those before", before(3, 10), []coordinator.AuditRecord{row(2), row(1)})
	noLimit(t, s, func(tx coordinator.Tx, limit int) (int, error) {
		all, err := tx.Journal().Audit().Records(0, limit)
		return len(all), err
	})
}

func testSeals(t *testing.T, s coordinator.Store) {
	seal := func(n uint64) coordinator.Seal {
		return coordinator.Seal{N: n, H: protocol.Sum([]byte{byte(n)}), AtMS: int64(n), Leaves: []byte{1, byte(n)}, Checkpoint: []byte("c")}
	}
	upTo := func(n uint64) (got coordinator.Seal) {
		view(t, s, func(tx coordinator.Tx) error {
			return values(func() (coordinator.Seal, error) { return tx.Journal().Audit().SealUpTo(n) }, &got)
		})
		return got
	}
	missing(t, s, map[string]func(coordinator.Tx) error{
		"seal": func(tx coordinator.Tx) error { _, err := tx.Journal().Audit().SealUpTo(9); return err },
	})
	update(t, s, func(tx coordinator.Tx) error {
		log := tx.Journal().Audit()
		for range 9 {
			if err := log.Append([]byte("{}")); err != nil {
				return err
			}
		}
		return errors.Join(log.Seal(seal(2)), log.Seal(seal(5)), log.Seal(seal(9)))
	})
	updateFails(t, s, coordinator.ErrExists, func(tx coordinator.Tx) error { return tx.Journal().Audit().Seal(seal(5)) })
	equal(t, "newest", upTo(math.MaxUint64), seal(9))
	equal(t, "up to its own number", upTo(5), seal(5))
	equal(t, "between", upTo(8), seal(5))
	missing(t, s, map[string]func(coordinator.Tx) error{
		"before the first": func(tx coordinator.Tx) error { _, err := tx.Journal().Audit().SealUpTo(1); return err },
	})
	update(t, s, func(tx coordinator.Tx) error { return tx.Journal().Audit().Prune(5) })
	view(t, s, func(tx coordinator.Tx) error {
		log := tx.Journal().Audit()
		seals, err := log.Seals(0, 10)
		equal(t, "seals after pruning", seals, []coordinator.Seal{seal(5), seal(9)})
		records, rerr := log.Records(0, 1)
		equal(t, "first record after pruning", records, []coordinator.AuditRecord{{N: 6, Stored: []byte("{}")}})
		return errors.Join(err, rerr)
	})
	update(t, s, func(tx coordinator.Tx) error { return tx.Journal().Audit().Append([]byte("{1}")) })
	view(t, s, func(tx coordinator.Tx) error {
		records, err := tx.Journal().Audit().Records(9, 10)
		equal(t, "numbers go on", records, []coordinator.AuditRecord{{N: 10, Stored: []byte("{1}")}})
		return err
	})
}
