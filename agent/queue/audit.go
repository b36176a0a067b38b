package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/hostler-io/hostler/internal/sqldb"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/audit"
)

// The host's own audit log is a table of records, each written in the step that
// does what it says. Its row among the streams tells how far the chain of
// digests was followed, and how far the records were forgotten.

// Numbers of the log.
const (
	// MaxAudit is how many records are kept: a busy day, or years of a quiet host.
	MaxAudit = 50_000
	// auditPage is how many records one look at the log reads.
	auditPage = 1000
	// auditForget is how many records one step forgets.
	auditForget = 5000
)

// Audit returns the host's own audit log.
func (q *Queue) Audit() *Log { return &Log{q} }

// Log is the host's own audit log. Its methods may be called from any goroutine.
type Log struct{ queue *Queue }

// beside is what is written with the next step that is written anyhow.
type beside struct {
	mu         sync.Mutex
	checkpoint []byte            // newest of the coordinator; nil: it is on the disk
	head       protocol.Position // how far the log was followed
	linked     uint64            // and is known to be on the disk
}

// KeepCheckpoint keeps the newest checkpoint of the coordinator's audit log with
// the next step that is written, or with [Queue.Flush]: what is lost before
// comes again.
func (l *Log) KeepCheckpoint(envelope []byte) {
	q := l.queue
	q.beside.mu.Lock()
	defer q.beside.mu.Unlock()
	q.beside.checkpoint = envelope
}

// waits reports whether a checkpoint waits to be written.
func (b *beside) waits() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.checkpoint != nil
}

// next returns what the next step is to write, nil for nothing, and what to call
// once it is written.
func (b *beside) next() (write func(txn) error, written func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	checkpoint, head := b.checkpoint, b.head
	link := head.N >= b.linked+auditPage
	if checkpoint == nil && !link {
		return nil, nil
	}
	write = func(tx txn) error {
		if checkpoint != nil {
			if _, err := tx.Exec(`UPDATE self SET checkpoint = $1`, checkpoint); err != nil {
				return err
			}
		}
		if !link {
			return nil
		}
		_, freed, err := position(tx, protocol.StreamAudit)
		if err != nil {
			return err
		}
		head.Stream = protocol.StreamAudit
		return move(tx, head, freed)
	}
	return write, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if len(checkpoint) > 0 && len(b.checkpoint) > 0 && &checkpoint[0] == &b.checkpoint[0] {
			b.checkpoint = nil
		}
		if link {
			b.linked = max(b.linked, head.N)
		}
	}
}

// note writes a record within a step.
func note(tx txn, r audit.Record) error {
	b, err := r.Encode()
	if err == nil {
		tx.memory.records = append(tx.memory.records, b)
	}
	return err
}

// maxReserve is how many records the reserve of the log takes: containers that keep
// failing for a night, and the ends of what runs.
const maxReserve = 10_000

// whatHappened tells that the step keeps what happened already, or must happen: if the
// log refuses its records, they go into the reserve. Any other step is refused with them.
func (tx txn) whatHappened() { tx.memory.happened = true }

// writeRecords writes the records of a step.
func (tx txn) writeRecords() error {
	m := tx.memory
	all := m.records
	m.records = nil
	into := "audit"
	for len(all) > 0 {
		some := all[:min(len(all), atOnce)]
		args := make([]any, len(some))
		for i, b := range some {
			args[i] = b
		}
		_, err := tx.Exec(`INSERT INTO `+into+` (record) VALUES `+rowsOf1[len(some)], args...)
		if err = tx.refused(err); errors.Is(err, ErrAudit) && m.happened && into == "audit" {
			into = "audit_reserve"
			var full bool
			if full, err = tx.overflows(all); full && err == nil {
				return nil
			}
		} else if err == nil {
			all = all[len(some):]
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// refused gives the error of a log that takes no records its name. What the disk is to
// blame for, or damage, is not the log's.
func (tx txn) refused(err error) error {
	for _, other := range []error{nil, sqldb.ErrFull, sqldb.ErrIO, sqldb.ErrCorrupt, sqldb.ErrTxDone} {
		if errors.Is(err, other) {
			return err
		}
	}
	tx.refusing.Store(true)
	return fmt.Errorf("%w: %w", ErrAudit, err)
}

// verbLost is the last record of a reserve that is full: how many records have no place in it.
const verbLost = "audit.lost"

// overflows reports whether the reserve has no room for records. Then it counts them, for
// what happened cannot wait: a host that could not write what it does would start no
// container, and end none whose lease has ended.
func (tx txn) overflows(all [][]byte) (bool, error) {
	var there int
	var newest []byte
	err := tx.QueryRow(`SELECT count(*), coalesce((SELECT record FROM audit_reserve ORDER BY n DESC LIMIT 1), x'7b7d') FROM audit_reserve`).Scan(&there, &newest)
	if err != nil {
		return false, err
	}
	var last, first struct {
		AtMS   int64  `json:"at_ms"`
		Verb   string `json:"verb"`
		Detail struct {
			Records int `json:"records"`
		} `json:"detail"`
	}
	if err := json.Unmarshal(newest, &last); err != nil {
		return false, fmt.Errorf("read the newest record of the audit log's reserve: %w", err)
	}
	statement, lost, atMS := `UPDATE audit_reserve SET record = $1 WHERE n = (SELECT max(n) FROM audit_reserve)`, len(all)+last.Detail.Records, last.AtMS
	if last.Verb != verbLost {
		if there+len(all) <= maxReserve {
			return false, nil
		}
		if err := json.Unmarshal(all[0], &first); err != nil {
			return false, fmt.Errorf("read a record for the audit log: %w", err)
		}
		statement, lost, atMS = `INSERT INTO audit_reserve (record) VALUES ($1)`, len(all), first.AtMS
	}
	b, err := audit.Record{AtMS: atMS, Actor: "host", Verb: verbLost, Detail: map[string]any{"records": lost}}.Encode()
	if err == nil {
		_, err = tx.Exec(statement, b)
	}
	return true, err
}

// spendReserve puts the records of the reserve into the log.
func (tx txn) spendReserve() error {
	n, err := tx.Exec(`INSERT INTO audit (record) SELECT record FROM audit_reserve ORDER BY n`)
	if err == nil && n > 0 {
		_, err = tx.Exec(`DELETE FROM audit_reserve`)
		return err
	}
	return tx.refused(err)
}

// moved records and reports that an action has moved.
func moved(tx txn, a *Action, became *protocol.Container, now Now) error {
	if err := recorded(tx, a, now); err != nil {
		return err
	}
	return tell(tx, a, protocol.Report{Event: a.Event, Container: became}, now)
}

// recorded records that an action has moved.
func recorded(tx txn, a *Action, now Now) error {
	r := audit.Record{
		AtMS: now.WallMS, Actor: "host", Verb: "action." + string(a.Event), Object: a.ID.String(), Digest: a.Digest,
		Detail: map[string]any{"state": string(a.State), "accept_seq": a.AcceptSeq},
	}
	audit.Copied(r.Detail, a.Output)
	switch a.Event {
	case protocol.EventAccept, protocol.EventRefuse, protocol.EventCancelled:
		r.Actor = string(protocol.Coordinator)
		if a.Local {
			r.Actor = "local"
			if spec, err := protocol.DecodeSpec(a.Spec); err == nil { // of the others the coordinator's log tells
				audit.Asked(r.Detail, spec.Process().Argv)
			}
		}
		r.Detail["requester"] = a.Requester
	}
	if a.Event == protocol.EventRefuse {
		r.Detail["why"] = a.Detail
	}
	if len(a.approved) > 0 {
		r.Detail["approved_by"] = a.approved
	}
	if a.Attempt > 0 {
		r.Detail["attempt"] = a.Attempt
	}
	if a.Reason != "" {
		r.Detail["reason"] = string(a.Reason)
	}
	if a.Exit != nil {
		r.Detail["exit"] = a.Exit.Code
	}
	if o, ok := protocol.RecordingOf(a.Output); ok {
		r.Detail["recording"] = o.SHA256.String()
		r.Detail["recording_bytes"] = o.Bytes
	}
	return note(tx, r)
}

// Record writes a record of its own into the host's audit log, for what moves no
// action and no container.
func (l *Log) Record(ctx context.Context, r audit.Record) error {
	return l.queue.update(ctx, "recording "+r.Verb, func(tx txn) error { return note(tx, r) })
}

// RecordDone writes records of what is done whether they are written or not. On a
// disk that is full it uses the space that was set aside, and if the log takes no
// records, its reserve.
func (l *Log) RecordDone(ctx context.Context, all []audit.Record) error {
	return l.queue.pressed(func() error {
		return l.queue.update(ctx, "recording what is done", func(tx txn) error {
			tx.whatHappened()
			for _, r := range all {
				if err := note(tx, r); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// Head returns the newest record of the host's audit log, as a position
// whose digest is the end of the chain. What it has followed once it does not
// read again.
func (l *Log) Head(ctx context.Context) (protocol.Position, error) {
	q := l.queue
	q.beside.mu.Lock()
	head := q.beside.head
	q.beside.mu.Unlock()
	head, err := view(ctx, q, "following the audit log", func(tx txn) (_ protocol.Position, err error) {
		at := head
		if at.N == 0 {
			if at, _, err = position(tx, protocol.StreamAudit); err != nil {
				return at, err
			}
		}
		return follow(tx, at, math.MaxInt64, nil)
	})
	if err != nil {
		return protocol.Position{}, err
	}
	head.Store, head.Stream = q.store, protocol.StreamAudit
	q.beside.mu.Lock()
	defer q.beside.mu.Unlock()
	if head.N > q.beside.head.N {
		q.beside.head = head
	}
	return head, nil
}

// At returns the place in the log at which record n is the newest. It
// reports false if there is no such record, or if it was forgotten.
func (l *Log) At(ctx context.Context, n uint64) (at protocol.Position, ok bool, err error) {
	at, err = view(ctx, l.queue, "looking up the audit log", func(tx txn) (protocol.Position, error) {
		_, base, err := position(tx, protocol.StreamAudit)
		if err != nil || base.N >= n {
			return base, err
		}
		return follow(tx, base, n-base.N, nil)
	})
	at.Store, at.Stream = l.queue.store, protocol.StreamAudit
	return at, at.N == n && n > 0, err
}

// Export calls write with each record of the log, as a line, and returns
// the place before the first: zero, unless records were forgotten.
func (l *Log) Export(ctx context.Context, write func(line []byte) error) (base, head protocol.Position, err error) {
	head, err = view(ctx, l.queue, "exporting the audit log", func(tx txn) (protocol.Position, error) {
		if _, base, err = position(tx, protocol.StreamAudit); err != nil {
			return base, err
		}
		return follow(tx, base, math.MaxInt64, write)
	})
	base.Store, head.Store = l.queue.store, l.queue.store
	return base, head, err
}

// follow follows the chain by up to limit records.
func follow(tx txn, at protocol.Position, limit uint64, see func(line []byte) error) (protocol.Position, error) {
	for r, err := range tx.Query(`SELECT n, record FROM audit WHERE n > $1 ORDER BY n LIMIT $2`, at.N, limit) {
		if err != nil {
			return at, err
		}
		var n uint64
		var stored []byte
		if err := r.Scan(&n, &stored); err != nil {
			return at, err
		}
		line := audit.Line(n, stored)
		at.N, at.H = n, audit.Fold(at.H, audit.Leaf(line))
		if see != nil {
			if err := see(line); err != nil {
				return at, err
			}
		}
	}
	return at, nil
}

// forgetAudit forgets the oldest records of too many. What is left of them is
// the digest that the chain goes on from.
func forgetAudit(tx txn) error {
	if err := tx.settle(); err != nil {
		return err
	}
	at, base, err := position(tx, protocol.StreamAudit)
	if err != nil {
		return err
	}
	var newest uint64
	if err := tx.QueryRow(`SELECT coalesce(max(n), 0) FROM audit`).Scan(&newest); err != nil {
		return err
	}
	if newest < base.N+MaxAudit+auditPage {
		return nil // more than a few at once, or none
	}
	next, err := follow(tx, base, min(auditForget, newest-base.N-MaxAudit), nil)
	if err != nil {
		return err
	}
	if _, err := tx.Exec(`DELETE FROM audit WHERE n <= $1`, next.N); err != nil {
		return fmt.Errorf("forgetting audit records: %w", err)
	}
	if at.N < next.N {
		at = next
	}
	return move(tx, at, next)
}
