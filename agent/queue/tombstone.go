package queue

import (
	"context"
)

// bury writes the tombstone of an action and drops the oldest one of too many.
func bury(tx txn, a *Action, now Now) error {
	up, err := uptime(tx, now)
	if err != nil {
		return err
	}
	var number int64
	if err := tx.QueryRow(`UPDATE self SET buried = buried + 1 RETURNING buried`).Scan(&number); err != nil {
		return err
	}
	digest := ""
	if !a.Digest.IsZero() {
		digest = a.Digest.String()
	}
	_, err = tx.Exec(`INSERT INTO tombstones (id, number, accept_seq, digest, state, event, reason, up_ms, approved_ms) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
		a.ID.String(), number, a.AcceptSeq, digest, string(a.State), string(a.Event), string(a.Reason), up, a.ApprovedMS)
	if err != nil {
		return err
	}
	return drop(tx, `number <= $1`, number-MaxTombstones)
}

// drop drops tombstones. An id that is remembered no more could be ordered once
// more with the approvals that were for it, so these count for nothing from then
// on; see [Queue.UsedMS].
func drop(tx txn, which string, args ...any) error {
	var used int64
	if err := tx.QueryRow(`SELECT coalesce(max(approved_ms), 0) FROM tombstones WHERE `+which, args...).Scan(&used); err != nil {
		return err
	}
	if used > 0 {
		if _, err := tx.Exec(`UPDATE self SET used_ms = max(used_ms, $1)`, used); err != nil {
			return err
		}
	}
	_, err := tx.Exec(`DELETE FROM tombstones WHERE `+which, args...)
	return err
}

// UsedMS is a date: approvals that were given until then may have been used by an
// action that is not remembered any more. 0 is no such date.
func (q *Queue) UsedMS(ctx context.Context) (int64, error) {
	return view(ctx, q, "reading which approvals may have been used", func(tx txn) (ms int64, err error) {
		return ms, tx.QueryRow(`SELECT used_ms FROM self`).Scan(&ms)
	})
}

// uptime notes how long this host has been up since the queue was made, as far as
// it is known to the agent, and returns it in milliseconds.
//
// It is counted on the boot clock, between two moments of one boot. What passed
// before the first look in a boot is left out: after another init in a container
// the boot clock is that of its host, with all that was counted before. A clock
// that goes back takes nothing away, and nothing is counted twice.
func uptime(tx txn, now Now) (ms int64, err error) {
	err = tx.QueryRow(`UPDATE self SET
		up_ms = CASE WHEN up_boot = $1 THEN up_ms + max(0, $2 - up_boot_ms) ELSE up_ms END,
		up_boot_ms = CASE WHEN up_boot = $1 THEN max(up_boot_ms, $2) ELSE $2 END,
		up_boot = $1 RETURNING up_ms`, now.Boot, now.BootMS).Scan(&ms)
	return ms, err
}

// ageEvery is how often the age of tombstones is looked at: each look writes.
const ageEvery = 3600 * 1000

// forgetTombstones drops tombstones that are too old, a few at a time.
func forgetTombstones(tx txn, now Now) error {
	var boot string
	var noted int64
	if err := tx.QueryRow(`SELECT up_boot, up_boot_ms FROM self`).Scan(&boot, &noted); err != nil {
		return err
	}
	if boot == now.Boot && now.BootMS-noted < ageEvery {
		return nil
	}
	up, err := uptime(tx, now)
	if err != nil {
		return err
	}
	return drop(tx, `number IN (SELECT number FROM tombstones ORDER BY number LIMIT $1) AND up_ms < $2`, forgetBatch, up-KeepTombstonesMS)
}
