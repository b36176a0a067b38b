package journal

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/audit"
)

// AuditFilter chooses records of the audit log; the zero value chooses the
// newest.
type Filter struct {
	After   uint64 // with numbers after this one, the oldest first; 0: the newest
	Before  uint64 // with numbers before this one; 0: any
	SinceMS int64  // not older, by the wall clock of the time
	UntilMS int64  // older, likewise; 0: any
	Host    protocol.HostID
	Actor   string
	Verb    string
	Object  string
	Limit   int
}

func (f Filter) chooses(r *audit.Record) bool {
	return r.AtMS >= f.SinceMS && (f.UntilMS == 0 || r.AtMS < f.UntilMS) && (f.Host == "" || r.Host == f.Host) && (f.Actor == "" || r.Actor == f.Actor) &&
		(f.Verb == "" || r.Verb == f.Verb) && (f.Object == "" || r.Object == f.Object)
}

// maxSearched is how many records one request looks at: they are kept in the
// order of their numbers and in no other, so that recording costs little.
const maxSearched = 100_000

// Audit returns records of the audit log in the order of their numbers, and the
// number from which on, backwards or forwards, nothing was looked at; 0 if
// everything was.
func (r *Room) Audit(ctx context.Context, f Filter) (all []audit.Record, rest uint64, err error) {
	at := f.After
	if f.After == 0 {
		if at = f.Before; at == 0 {
			at = math.MaxInt64
		}
	}
	for looked := 0; len(all) < f.Limit; {
		var page []core.AuditRecord
		err := r.base.View(ctx, func(tx core.Tx) (err error) {
			if f.After == 0 {
				page, err = tx.Audit.RecordsBefore(at, core.PageSize)
			} else {
				page, err = tx.Audit.Records(at, core.PageSize)
			}
			return err
		})
		if err != nil {
			return nil, 0, fmt.Errorf("read the audit log: %w", err)
		}
		old := false
		for _, stored := range page {
			if at = stored.N; len(all) == f.Limit || f.After > 0 && f.Before > 0 && at >= f.Before {
				old = true
				break
			}
			r := decodeRecord(stored)
			if f.chooses(&r) {
				all = append(all, r)
			}
			old = f.After == 0 && r.AtMS < f.SinceMS
		}
		if looked += len(page); old || len(page) < core.PageSize {
			at = 0
			break
		}
		if looked >= maxSearched {
			break
		}
	}
	if f.After == 0 {
		slices.Reverse(all)
	}
	if len(all) == f.Limit {
		at = 0
	}
	return all, at, nil
}

// decodeRecord reads a record to be shown. What was changed in the store is shown
// as it is: to find it is not for a list.
func decodeRecord(stored core.AuditRecord) (r audit.Record) {
	if err := json.Unmarshal(stored.Stored, &r); err != nil {
		r = audit.Record{Verb: "unreadable", Detail: map[string]any{"error": err.Error()}}
	}
	r.N = stored.N
	return r
}

// Checkpoint returns the newest checkpoint of the audit log after sealing what
// there is; nil while nothing was recorded, or in recovery.
func (r *Room) Checkpoint(ctx context.Context) ([]byte, error) {
	if err := r.seal(ctx); err != nil {
		return nil, err
	}
	newest, err := core.Read(ctx, r.base, func(tx core.Tx) (core.Seal, error) { return core.NewestSeal(tx) })
	return newest.Checkpoint, err
}

// exportPage is how many checkpoints, of MaxSealed records each at most, are
// read in one transaction.
const exportPage = 16

// ExportAudit writes the audit log as package audit describes it, line by line,
// without line ends: from the beginning, or from the newest checkpoint before a
// time.
func (r *Room) ExportAudit(ctx context.Context, sinceMS int64, write func(line []byte) error) error {
	head, err := r.Checkpoint(ctx)
	if err != nil || head == nil {
		return err
	}
	r.sealer.pruning.RLock()
	defer r.sealer.pruning.RUnlock()
	if err := write(head); err != nil {
		return err
	}
	last, err := r.exportAnchor(ctx, sinceMS)
	if err != nil {
		return err
	}
	if last.N > 0 {
		if err := write(last.Checkpoint); err != nil {
			return err
		}
	}
	for {
		var lines [][]byte
		err := r.base.View(ctx, func(tx core.Tx) (err error) {
			lines, last, err = exportLines(tx, last)
			return err
		})
		if err != nil {
			return fmt.Errorf("export the audit log: %w", err)
		}
		for _, line := range lines {
			if err := write(line); err != nil {
				return err
			}
		}
		if len(lines) == 0 {
			return nil
		}
	}
}

// exportLines returns what follows a seal, exactly as it is stored, and the last
// seal among it.
func exportLines(tx core.Tx, last core.Seal) (lines [][]byte, _ core.Seal, _ error) {
	log := tx.Audit
	seals, err := log.Seals(last.N, exportPage)
	if err != nil {
		return nil, last, err
	}
	for _, s := range seals {
		for at := last.N; at < s.N; {
			records, err := log.Records(at, min(core.PageSize, int(s.N-at)))
			if err != nil {
				return nil, last, err
			}
			for _, r := range records {
				if at = r.N; at <= s.N {
					lines = append(lines, audit.Line(r.N, r.Stored))
				}
			}
			if len(records) == 0 {
				break
			}
		}
		lines = append(lines, audit.LeavesLine(s.N, s.Leaves), s.Checkpoint)
		last = s
	}
	return lines, last, nil
}

// exportAnchor returns the seal behind which an export begins, zero for the
// beginning.
func (r *Room) exportAnchor(ctx context.Context, sinceMS int64) (anchor core.Seal, err error) {
	err = r.base.View(ctx, func(tx core.Tx) error {
		anchor = core.Seal{}
		log := tx.Audit
		first, err := log.Records(0, 1)
		if err != nil || len(first) == 0 {
			return err
		}
		oldest, err := log.Seals(0, 1)
		if err != nil || len(oldest) == 0 {
			return err
		}
		if first[0].N > oldest[0].N {
			anchor = oldest[0] // what was before it was pruned
		}
		newest, err := core.NewestSeal(tx)
		if err != nil {
			return err
		}
		// The clock may have been set in between; then it is some other one.
		for low, high := oldest[0].N, newest.N; sinceMS > 0 && low <= high; {
			mid := low + (high-low)/2
			s, err := log.SealUpTo(mid)
			if err != nil {
				return err
			}
			if s.AtMS >= sinceMS {
				high = min(mid, s.N) - 1
				continue
			}
			if s.N > anchor.N {
				anchor = s
			}
			low = mid + 1
		}
		return nil
	})
	return anchor, err
}
