package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/audit"
)

// sealEvery is how often what was recorded is sealed.
const sealEvery = time.Second

// errUnsealed tells that the log cannot be sealed any further.
var errUnsealed = errors.New("the audit log is not as it was sealed")

// sealer is what the one goroutine that seals shares with those who record.
type sealer struct {
	waiting atomic.Int64  // transactions since the newest seal
	full    chan struct{} // there are enough of them

	mu     sync.Mutex // one seals at a time
	broken bool       // people were told

	newest  atomic.Pointer[core.Seal]
	pruning sync.RWMutex // held for reading during an export
}

// note counts a transaction, which may have recorded something: it only tells when to look.
func (s *sealer) note() {
	if s.waiting.Add(1) >= audit.MaxSealed {
		select {
		case s.full <- struct{}{}:
		default: // the sealer has been told
		}
	}
}

// SealLoop seals after every second of activity, or as soon as there is enough
// for one checkpoint, and the rest at the end.
func (r *Room) SealLoop(ctx context.Context) error {
	t := time.NewTicker(sealEvery)
	defer t.Stop()
	prune := time.NewTicker(pruneEvery)
	defer prune.Stop()
	for {
		if err := r.seal(ctx); err != nil && ctx.Err() == nil {
			r.base.Log.ErrorContext(ctx, "cannot seal the audit log; it is tried again", "err", err)
		}
		for idle := true; idle; {
			select {
			case <-ctx.Done():
				if err := r.seal(context.WithoutCancel(ctx)); err != nil {
					r.base.Log.Error("the last records of the audit log are sealed at the next start", "err", err)
				}
				return nil
			case <-r.sealer.full:
				idle = false
			case <-t.C:
				idle = r.sealer.waiting.Load() == 0
			case <-prune.C:
				if err := r.pruneAudit(ctx); err != nil {
					r.base.Log.ErrorContext(ctx, "cannot forget old records of the audit log", "err", err)
				}
			}
		}
	}
}

// seal seals everything that was recorded. A coordinator that went back in time
// seals nothing: it would sign a second history.
func (r *Room) seal(ctx context.Context) error {
	r.sealer.mu.Lock()
	defer r.sealer.mu.Unlock()
	for r.base.Recovery() == "" {
		r.sealer.waiting.Store(0)
		next, hosts, err := r.sealNext(ctx)
		if errors.Is(err, errUnsealed) {
			r.tellBroken(ctx, err)
			return nil
		}
		if err != nil {
			r.sealer.waiting.Add(1) // the next tick tries again
			return err
		}
		if next.N == 0 {
			return nil
		}
		r.sealer.newest.Store(&next)
		r.cfg.Sealed(hosts)
	}
	return nil
}

// sealNext seals the next records, as many as one checkpoint takes. It returns
// the seal, zero if there is nothing to be sealed, and the hosts that the
// records are about.
func (r *Room) sealNext(ctx context.Context) (next core.Seal, hosts []protocol.HostID, err error) {
	var last core.Seal
	var records []core.AuditRecord
	err = r.base.View(ctx, func(tx core.Tx) (err error) {
		last, records, err = unsealed(tx)
		return err
	})
	if err != nil || len(records) == 0 {
		return core.Seal{}, nil, err
	}
	next = core.Seal{H: last.H, AtMS: r.base.NowMS()}
	for _, r := range records {
		if r.N != last.N+uint64(len(next.Leaves)/len(protocol.Digest{}))+1 {
			return core.Seal{}, nil, fmt.Errorf("%w: record %d follows where another should", errUnsealed, r.N)
		}
		leaf := audit.Leaf(audit.Line(r.N, r.Stored))
		next.N, next.H, next.Leaves = r.N, audit.Fold(next.H, leaf), append(next.Leaves, leaf[:]...)
		hosts = append(hosts, hostOf(r.Stored))
	}
	next.Checkpoint, err = core.SignMessage(r.cfg.Signer, protocol.Checkpoint{
		Type: protocol.TypeCheckpoint, Fleet: r.base.Fleet, Log: protocol.Coordinator, Store: r.base.Store.ID(),
		After: last.N, N: next.N, H: next.H, Ring: r.base.Keys.Ring(), Term: r.cfg.Term, AtMS: next.AtMS,
	})
	if err != nil {
		return core.Seal{}, nil, fmt.Errorf("sign a checkpoint: %w", err)
	}
	err = core.Update(ctx, r.base.Store, failpoint.AuditSealed, func(tx core.Tx) error { return tx.Audit.Seal(next) })
	slices.Sort(hosts)
	return next, slices.Compact(hosts), err
}

// unsealed returns the newest seal and the records behind it. The record that it
// names must be there as it was sealed: numbers of records that were cut off
// would be given again.
func unsealed(tx core.Tx) (last core.Seal, records []core.AuditRecord, err error) {
	log := tx.Audit
	if last, err = core.NewestSeal(tx); err != nil {
		return last, nil, err
	}
	if last.N > 0 {
		tail, err := log.Records(last.N-1, 1)
		if err != nil {
			return last, nil, err
		}
		size := len(protocol.Digest{})
		if len(tail) == 0 || tail[0].N != last.N || len(last.Leaves) < size {
			return last, nil, fmt.Errorf("%w: record %d, the newest that was, is missing", errUnsealed, last.N)
		}
		if leaf := audit.Leaf(audit.Line(last.N, tail[0].Stored)); !bytes.Equal(leaf[:], last.Leaves[len(last.Leaves)-size:]) {
			return last, nil, fmt.Errorf("%w: record %d, the newest that was, is another one", errUnsealed, last.N)
		}
	}
	records, err = log.Records(last.N, audit.MaxSealed)
	return last, records, err
}

// hostOf finds the host in a record. Within texts a quotation mark is escaped,
// so the first that looks like the member is it.
func hostOf(stored []byte) protocol.HostID {
	_, rest, ok := bytes.Cut(stored, []byte(`,"host":"`))
	name, _, closed := bytes.Cut(rest, []byte(`"`))
	if !ok || !closed {
		return ""
	}
	return protocol.HostID(name)
}

// tellBroken tells people, once, that the log was changed.
func (r *Room) tellBroken(ctx context.Context, why error) {
	if r.sealer.broken {
		return
	}
	r.sealer.broken = true
	r.base.Log.ErrorContext(ctx, "the audit log is sealed no further; run hostler audit verify", "err", why)
	err := r.base.Store.Update(ctx, func(tx core.Tx) error {
		return r.base.Event(tx, "audit.broken", "", "audit", map[string]any{"detail": why.Error()})
	})
	if err != nil {
		r.base.Log.ErrorContext(ctx, "cannot note that the audit log is broken", "err", err)
	}
	r.base.Wake.Fire(core.EventsKey{})
}

// The audit log is kept by number, never by age: a clock that is set wrong must
// not erase it.
const (
	pruneStep  = 10_000 // records in one transaction, so that no other waits for long
	pruneEvery = time.Minute
)

// pruneAudit forgets the oldest records of too many, up to a checkpoint that
// stays and vouches for what it was behind.
func (r *Room) pruneAudit(ctx context.Context) error {
	if !r.sealer.pruning.TryLock() {
		return nil // an export is under way; the next time will do
	}
	defer r.sealer.pruning.Unlock()
	return core.Update(ctx, r.base.Store, failpoint.AuditPruned, func(tx core.Tx) error {
		newest, err := core.NewestSeal(tx)
		kept, step := r.cfg.Records, min(pruneStep, r.cfg.Records)
		if err != nil || newest.N <= kept {
			return err
		}
		log := tx.Audit
		first, err := log.Records(0, 1)
		if err != nil || len(first) == 0 || first[0].N+step > newest.N-kept {
			return err
		}
		anchor, err := log.SealUpTo(first[0].N + step)
		if err != nil || anchor.N < first[0].N {
			return err
		}
		return log.Prune(anchor.N)
	})
}
