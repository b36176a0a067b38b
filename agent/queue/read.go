package queue

import (
	"context"
	"fmt"
	"math"

	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/internal/sqldb"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/audit"
)

// Action returns one action, or what its tombstone still tells, or
// [ErrUnknown].
func (q *Queue) Action(ctx context.Context, id protocol.ActionID) (Action, error) {
	return view(ctx, q, "reading action "+id.String(), func(tx txn) (Action, error) { return remember(tx, id) })
}

// Actions returns up to limit actions, newest first, accepted before the one of
// the given accept_seq; 0 starts with the newest.
func (q *Queue) Actions(ctx context.Context, before uint64, limit int) ([]Action, error) {
	if before == 0 {
		before = math.MaxInt64
	}
	return q.list(ctx, `SELECT `+columns+` FROM actions WHERE accept_seq < $1 ORDER BY accept_seq DESC LIMIT $2`, before, limit)
}

// Unfinished returns all actions that have not ended, in the order of their
// acceptance.
func (q *Queue) Unfinished(ctx context.Context) ([]Action, error) {
	return q.list(ctx, `SELECT `+columns+` FROM actions WHERE state IN ($1, $2) ORDER BY accept_seq`,
		string(protocol.StateNew), string(protocol.StateRunning))
}

func (q *Queue) list(ctx context.Context, query string, args ...any) ([]Action, error) {
	return view(ctx, q, "listing actions", func(tx txn) ([]Action, error) { return sqldb.All(tx.Tx, scan, query, args...) })
}

// Has returns which of the ids have an action here, tombstones not counted.
func (q *Queue) Has(ctx context.Context, ids []protocol.ActionID) (map[protocol.ActionID]bool, error) {
	return view(ctx, q, "looking up actions", func(tx txn) (map[protocol.ActionID]bool, error) {
		has := make(map[protocol.ActionID]bool)
		for _, id := range ids {
			var found bool
			if err := tx.QueryRow(`SELECT EXISTS (SELECT 1 FROM actions WHERE id = $1)`, id.String()).Scan(&found); err != nil {
				return nil, err
			}
			if found {
				has[id] = true
			}
		}
		return has, nil
	})
}

// Ended is one action that has ended.
type Ended struct {
	ID       protocol.ActionID
	EndedMS  int64 // Unix milliseconds
	Reported bool  // its final report was receipted
}

// Ended returns all actions that have ended and are kept, in the order in which
// they did.
func (q *Queue) Ended(ctx context.Context) ([]Ended, error) {
	return view(ctx, q, "listing ended actions", func(tx txn) ([]Ended, error) {
		_, freed, err := position(tx, protocol.StreamReport)
		if err != nil {
			return nil, err
		}
		return sqldb.All(tx.Tx, func(r sqldb.Row) (e Ended, err error) {
			var id string
			var reported uint64
			if err := r.Scan(&id, &e.EndedMS, &reported); err != nil {
				return e, err
			}
			e.Reported = reported <= freed.N
			e.ID, err = protocol.ParseActionID(id)
			return e, err
		}, `SELECT id, ended_ms, report_n FROM actions WHERE state NOT IN ($1, $2) ORDER BY ended_ms, accept_seq`,
			string(protocol.StateNew), string(protocol.StateRunning))
	})
}

// forgetBatch bounds one transaction of Forget.
const forgetBatch = 500

// Forget replaces finished actions by tombstones: those whose newest report was
// receipted and that are too many or too old. What has output that may be on this host
// alone goes by its age, or when that was removed. It returns their ids, up to some
// hundreds at a time; the caller removes what they have left elsewhere. It also
// drops tombstones that are too old.
func (q *Queue) Forget(ctx context.Context, now Now) (gone []protocol.ActionID, err error) {
	err = q.commit(ctx, failpoint.ActionsBuried, "forgetting old actions", func(tx txn) error {
		gone = nil
		old, err := forgettable(tx, now)
		if err != nil {
			return err
		}
		for i := range old {
			if err := bury(tx, &old[i], now); err != nil {
				return err
			}
			if _, err := tx.Exec(`DELETE FROM actions WHERE id = $1`, old[i].ID.String()); err != nil {
				return err
			}
			gone = append(gone, old[i].ID)
		}
		if err := forgetTombstones(tx, now); err != nil {
			return err
		}
		return forgetAudit(tx)
	})
	return gone, err
}

func forgettable(tx txn, now Now) ([]Action, error) {
	_, freed, err := position(tx, protocol.StreamReport)
	if err != nil {
		return nil, err
	}
	var newest uint64 // of those that are too many
	err = tx.QueryRow(`SELECT coalesce(min(accept_seq), 0) FROM
		(SELECT accept_seq FROM actions WHERE state NOT IN ($1, $2) ORDER BY accept_seq DESC LIMIT $3)`,
		string(protocol.StateNew), string(protocol.StateRunning), KeepActions).Scan(&newest)
	if err != nil {
		return nil, err
	}
	return sqldb.All(tx.Tx, scan, `SELECT `+columns+` FROM actions WHERE state NOT IN ($1, $2) AND report_n <= $3
		AND (accept_seq < $4 AND kept = 0 OR ended_ms < $5) ORDER BY accept_seq LIMIT $6`,
		string(protocol.StateNew), string(protocol.StateRunning), freed.N, newest, now.WallMS-KeepMS, forgetBatch)
}

// Emptied notes that the output of actions was removed: for it alone they need not be
// kept any more.
func (q *Queue) Emptied(ctx context.Context, gone []protocol.ActionID) error {
	return q.update(ctx, "noting that output was removed", func(tx txn) error {
		for _, id := range gone {
			if _, err := tx.Exec(`UPDATE actions SET kept = 0 WHERE id = $1`, id.String()); err != nil {
				return err
			}
		}
		return nil
	})
}

// Ready says why no action should be accepted: [ErrAudit] while the audit log takes no
// records, ErrDisk while no space is set aside for the ends of actions. nil: all is well.
func (q *Queue) Ready() error {
	switch {
	case q.refusing.Load():
		return ErrAudit
	case q.lacking.Load():
		return fmt.Errorf("no space is set aside for ends: %w", ErrDisk)
	}
	return nil
}

// Spend gives up what is set aside, and reports whether there was anything.
func (q *Queue) Spend() bool {
	q.lacking.Store(true)
	return q.reserve.Spend()
}

// Probe writes something that changes nothing, to see whether the disk takes it,
// and sets space aside for the ends of actions if that was used. If the audit log has
// refused records, it gets them now, and one that says that it takes records again. An
// agent that found the disk full, or its log refusing, accepts nothing until this succeeds.
func (q *Queue) Probe(ctx context.Context, now Now) error {
	refused := q.refusing.Load()
	err := q.update(ctx, "trying the disk", func(tx txn) error {
		if refused {
			if err := tx.spendReserve(); err != nil {
				return err
			}
			if err := note(tx, audit.Record{AtMS: now.WallMS, Actor: "host", Verb: "audit.resume"}); err != nil {
				return err
			}
		}
		// SQLite writes nothing for a row that gets the value that it has, so it is changed and
		// changed back: the page goes to the disk.
		for _, by := range []int{1, -1} {
			if _, err := tx.Exec(`UPDATE self SET buried = buried + $1`, by); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if refused {
		q.refusing.Store(false)
	}
	if err := q.fillReserve(); err != nil {
		return err
	}
	q.lacking.Store(false)
	return nil
}

func (q *Queue) fillReserve() error {
	if err := q.reserve.Fill(); err != nil {
		return fmt.Errorf("%w: %w", ErrDisk, err)
	}
	return nil
}
