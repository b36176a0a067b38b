package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/internal/sqldb"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/audit"
	"github.com/hostler-io/hostler/protocol/stream"
)

// Begin counts a process start, before its first message. It returns who the
// process is. On a disk that is full it uses the space that was set aside, and if the
// audit log takes no records, its reserve: the workloads of a host that was restarted
// wait for it.
func (q *Queue) Begin(ctx context.Context, now Now) (id Identity, err error) {
	err = q.pressed(func() error {
		id, err = q.begin(ctx, now)
		return err
	})
	return id, err
}

func (q *Queue) begin(ctx context.Context, now Now) (Identity, error) {
	var id Identity
	err := q.commit(ctx, failpoint.StartCounted, "counting the process start", func(tx txn) error {
		tx.whatHappened()
		if err := tx.spendReserve(); err != nil && !errors.Is(err, ErrAudit) {
			return err
		}
		id = Identity{Store: q.store, Boot: now.Boot}
		var before, coordinator string
		var named bool
		err := tx.QueryRow(`SELECT inc, boot, term_ring, term_counter, coordinator, named, accept_seq, evidence, checkpoint FROM self`).
			Scan(&id.Inc, &before, &id.Term.Ring, &id.Term.Counter, &coordinator, &named, &id.AcceptSeq, &id.Evidence, &id.Checkpoint)
		if err != nil {
			return err
		}
		if named {
			if id.Coord, err = protocol.ParseStoreID(coordinator); err != nil {
				return err
			}
		}
		id.Inc++
		id.Starts = starts(q.store, id.Inc)
		id.Rebooted = before != now.Boot
		if _, err = tx.Exec(`UPDATE self SET inc = $1, boot = $2`, id.Inc, now.Boot); err != nil {
			return err
		}
		if _, err = uptime(tx, now); err != nil {
			return err
		}
		if id.Absence, err = beginAbsence(tx, now); err != nil {
			return err
		}
		return note(tx, audit.Record{AtMS: now.WallMS, Actor: "host", Verb: "agent.start", Detail: map[string]any{"start": id.Starts, "boot": now.Boot}})
	})
	return id, err
}

// Positions returns the places in all streams.
func (q *Queue) Positions(ctx context.Context) (Positions, error) {
	return view(ctx, q, "reading stream positions", func(tx txn) (p Positions, err error) {
		var coordinator string
		if err := tx.QueryRow(`SELECT coordinator FROM self`).Scan(&coordinator); err != nil {
			return p, err
		}
		var theirs protocol.StoreID
		if coordinator != "" {
			if err := theirs.UnmarshalText([]byte(coordinator)); err != nil {
				return p, err
			}
		}
		for _, s := range streams() {
			at, freed, err := position(tx, s)
			if err != nil {
				return p, err
			}
			if s == protocol.StreamOrder || s == protocol.StreamControl {
				at.Store = theirs
				p.Have = append(p.Have, at)
				continue
			}
			at.Store, freed.Store = q.store, q.store
			p.Sent, p.Freed = append(p.Sent, at), append(p.Freed, freed)
		}
		return p, nil
	})
}

// SawTerm makes durable that the coordinator speaks in a term, and which store
// it named; a zero store is none yet. Another store than that of the streams down
// starts them from zero: that it may be believed, because no other was named in
// this term, was decided by the caller. evidence is what is kept of it from now
// on; nil keeps what there is.
func (q *Queue) SawTerm(ctx context.Context, t protocol.Term, store protocol.StoreID, evidence []byte) error {
	return q.commit(ctx, failpoint.TermSeen, "recording the coordinator's term", func(tx txn) error {
		if err := tx.load(); err != nil {
			return err
		}
		if evidence != nil {
			tx.memory.evidence = evidence
		}
		_, err := tx.Exec(`UPDATE self SET term_ring = $1, term_counter = $2, named = $3`, t.Ring, t.Counter, !store.IsZero())
		if err != nil || store.IsZero() {
			return err
		}
		changed, err := tx.Exec(`UPDATE self SET coordinator = $1 WHERE coordinator <> $1`, store.String())
		if err != nil || changed == 0 {
			return err
		}
		for _, s := range []protocol.Stream{protocol.StreamOrder, protocol.StreamControl} {
			_, freed, err := position(tx, s)
			if err == nil {
				err = move(tx, protocol.Position{Stream: s}, freed)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// Reject takes in an item that cannot be read, so that it blocks nothing.
func (q *Queue) Reject(ctx context.Context, at protocol.Position, code protocol.Code, now Now) error {
	return q.commit(ctx, failpoint.OrderTaken, "recording a rejected item", func(tx txn) error {
		_, err := tx.Exec(`INSERT INTO rejected (stream, store, n, code, at_ms) VALUES ($1, $2, $3, $4, $5)`,
			string(at.Stream), at.Store.String(), at.N, string(code), now.WallMS)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(`DELETE FROM rejected WHERE id <= (SELECT max(id) FROM rejected) - $1`, maxRejected); err != nil {
			return err
		}
		return advance(tx, at)
	})
}

// advance moves a stream down to the item whose effect the transaction holds.
// The zero position is that of what did not come by a stream.
func advance(tx txn, at protocol.Position) error {
	if at.N == 0 {
		return nil
	}
	was, freed, err := position(tx, at.Stream)
	if err == nil && was.N != at.N-1 {
		err = fmt.Errorf("item %d of stream %s is not the next", at.N, at.Stream)
	}
	if err != nil {
		return err
	}
	return move(tx, at, freed)
}

// push gives an item the next number of a stream up and puts it into the outbox.
func push(tx txn, s protocol.Stream, v any) (n uint64, err error) {
	item, err := json.Marshal(v)
	if err != nil {
		return 0, fmt.Errorf("item of stream %s: %w", s, err)
	}
	at, freed, err := position(tx, s)
	if err != nil {
		return 0, err
	}
	at = stream.Next(at, item)
	tx.memory.pushed = append(tx.memory.pushed, pushed{s, at.H, Row{at.N, item}})
	return at.N, move(tx, at, freed)
}

// Outbox returns the rows first to last of a stream that wait for a receipt.
func (q *Queue) Outbox(ctx context.Context, s protocol.Stream, first, last uint64) ([]Row, error) {
	if rows, ok := q.known.rows(s, first, last); ok {
		return rows, nil
	}
	return view(ctx, q, "reading the outbox", func(tx txn) ([]Row, error) {
		return sqldb.All(tx.Tx, func(r sqldb.Row) (row Row, err error) { return row, r.Scan(&row.N, &row.Item) },
			`SELECT n, item FROM outbox WHERE stream = $1 AND n BETWEEN $2 AND $3 ORDER BY n`, string(s), first, last)
	})
}

// Freed takes a receipt for a stream up, and tells by the verdict what it says;
// one that frees nothing changes nothing. The rows that it covers go, and its
// bytes are kept as evidence, with the next step of the queue that is written
// anyhow, or with [Queue.Flush]: what is lost before is receipted once more.
func (q *Queue) Freed(ctx context.Context, have protocol.Position, evidence []byte) (stream.Covers, error) {
	if evidence == nil {
		return 0, errors.New("freeing what was receipted: the receipt's bytes are missing")
	}
	newest, _ := q.freed.get(have.Stream)
	verdict, ok := q.known.judge(q.store, have, newest.have)
	var err error
	if !ok {
		verdict, err = judge(ctx, q, have, newest.have)
	}
	if err == nil && verdict == stream.Frees {
		q.freed.put(receipt{have, evidence})
	}
	return verdict, err
}

// judge is that of what is known, by the rows. newest is what was freed in memory.
func judge(ctx context.Context, q *Queue, have, newest protocol.Position) (stream.Covers, error) {
	return view(ctx, q, "judging a receipt", func(tx txn) (stream.Covers, error) {
		sent, freed, err := position(tx, have.Stream)
		if err != nil {
			return 0, err
		}
		if newest.N > freed.N {
			freed = newest
		}
		sent.Store, freed.Store = q.store, q.store
		verdict := stream.Receipt(sent, freed, have, func(n uint64) (h protocol.Digest, ok bool) {
			h, ok, err = chain(tx, have.Stream, n)
			return h, ok
		})
		return verdict, err
	})
}

// Flush writes what receipts have freed, and brought, since the last step.
func (q *Queue) Flush(ctx context.Context) error {
	if len(q.freed.all()) == 0 && !q.beside.waits() {
		return nil
	}
	return q.commit(ctx, failpoint.OutboxFreed, "freeing what was receipted", func(txn) error { return nil })
}

// receipt is one that frees rows which are still there.
type receipt struct {
	have     protocol.Position
	evidence []byte
}

// receipts are the newest of each stream, oldest first. Their methods may be
// called from any goroutine.
type receipts struct {
	mu   sync.Mutex
	list []receipt
}

func (r *receipts) all() []receipt {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.list)
}

func (r *receipts) get(s protocol.Stream) (receipt, bool) {
	for _, have := range r.all() {
		if have.have.Stream == s {
			return have, true
		}
	}
	return receipt{}, false
}

func (r *receipts) put(newer receipt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = slices.DeleteFunc(r.list, func(old receipt) bool { return old.have.Stream == newer.have.Stream })
	r.list = append(r.list, newer)
}

// written forgets what a step has written.
func (r *receipts) written(done []receipt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = slices.DeleteFunc(r.list, func(left receipt) bool {
		return slices.ContainsFunc(done, func(d receipt) bool { return d.have == left.have })
	})
}

// free removes what a receipt covers.
func free(tx txn, r receipt) error {
	if _, err := tx.Exec(`DELETE FROM outbox WHERE stream = $1 AND n <= $2`, string(r.have.Stream), r.have.N); err != nil {
		return err
	}
	at, _, err := position(tx, r.have.Stream)
	if err == nil {
		err = move(tx, at, r.have)
	}
	if err != nil {
		return err
	}
	tx.memory.evidence = r.evidence
	if r.have.Stream == protocol.StreamAlert {
		return pushWaiting(tx)
	}
	return nil
}

// chain reads the digest of an item that waits.
func chain(tx txn, s protocol.Stream, n uint64) (h protocol.Digest, ok bool, err error) {
	var text string
	err = tx.QueryRow(`SELECT h FROM outbox WHERE stream = $1 AND n = $2`, string(s), n).Scan(&text)
	if errors.Is(err, sqldb.ErrNoRows) {
		return h, false, nil
	}
	if err == nil {
		h, err = protocol.ParseDigest(text)
	}
	return h, err == nil, err
}

// waiting is how many items of a stream wait for a receipt.
func waiting(tx txn, s protocol.Stream) (uint64, error) {
	at, freed, err := position(tx, s)
	return at.N - freed.N, err
}
