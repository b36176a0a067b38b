package storetest

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/protocol"
)

func testAudit(t *testing.T, s core.Store) {
	row := func(n int) core.AuditRecord {
		return core.AuditRecord{N: uint64(n), Stored: fmt.Appendf(nil, `{"verb":"%d"}`, n)}
	}
	for n := 1; n <= 3; n++ {
		update(t, s, func(tx core.Tx) error { return tx.Audit.Append(row(n).Stored) })
	}
	undone := errors.New("undone")
	updateFails(t, s, undone, func(tx core.Tx) error {
		return errors.Join(tx.Audit.Append([]byte("undone")), undone)
	})
	update(t, s, func(tx core.Tx) error { return tx.Audit.Append(row(4).Stored) })
	want := []core.AuditRecord{row(1), row(2), row(3), row(4)}
	for _, limit := range []int{1, 2, 10} {
		all := pages(t, s, limit, func(tx core.Tx, last core.AuditRecord) ([]core.AuditRecord, error) {
			return tx.Audit.Records(last.N, limit)
		})
		equal(t, "records", all, want)
	}
	before := func(n uint64, limit int) (all []core.AuditRecord) {
		view(t, s, func(tx core.Tx) (err error) {
			all, err = tx.Audit.RecordsBefore(n, limit)
			return err
		})
		return all
	}
	equal(t, "the newest", before(math.MaxUint64, 2), []core.AuditRecord{row(4), row(3)})
	equal(t, "those before", before(3, 10), []core.AuditRecord{row(2), row(1)})
	noLimit(t, s, func(tx core.Tx, limit int) (int, error) {
		all, err := tx.Audit.Records(0, limit)
		return len(all), err
	})
}

func testSeals(t *testing.T, s core.Store) {
	seal := func(n uint64) core.Seal {
		return core.Seal{N: n, H: protocol.Sum([]byte{byte(n)}), AtMS: int64(n), Leaves: []byte{1, byte(n)}, Checkpoint: []byte("c")}
	}
	upTo := func(n uint64) (got core.Seal) {
		view(t, s, func(tx core.Tx) error {
			return values(func() (core.Seal, error) { return tx.Audit.SealUpTo(n) }, &got)
		})
		return got
	}
	missing(t, s, map[string]func(core.Tx) error{
		"seal": func(tx core.Tx) error { _, err := tx.Audit.SealUpTo(9); return err },
	})
	update(t, s, func(tx core.Tx) error {
		log := tx.Audit
		for range 9 {
			if err := log.Append([]byte("{}")); err != nil {
				return err
			}
		}
		return errors.Join(log.Seal(seal(2)), log.Seal(seal(5)), log.Seal(seal(9)))
	})
	updateFails(t, s, core.ErrExists, func(tx core.Tx) error { return tx.Audit.Seal(seal(5)) })
	equal(t, "newest", upTo(math.MaxUint64), seal(9))
	equal(t, "up to its own number", upTo(5), seal(5))
	equal(t, "between", upTo(8), seal(5))
	missing(t, s, map[string]func(core.Tx) error{
		"before the first": func(tx core.Tx) error { _, err := tx.Audit.SealUpTo(1); return err },
	})
	update(t, s, func(tx core.Tx) error { return tx.Audit.Prune(5) })
	view(t, s, func(tx core.Tx) error {
		log := tx.Audit
		seals, err := log.Seals(0, 10)
		equal(t, "seals after pruning", seals, []core.Seal{seal(5), seal(9)})
		records, rerr := log.Records(0, 1)
		equal(t, "first record after pruning", records, []core.AuditRecord{{N: 6, Stored: []byte("{}")}})
		return errors.Join(err, rerr)
	})
	update(t, s, func(tx core.Tx) error { return tx.Audit.Append([]byte("{1}")) })
	view(t, s, func(tx core.Tx) error {
		records, err := tx.Audit.Records(9, 10)
		equal(t, "numbers go on", records, []core.AuditRecord{{N: 10, Stored: []byte("{1}")}})
		return err
	})
}
