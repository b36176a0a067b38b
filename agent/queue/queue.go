package queue

import (
	"cmp"
	"context"
	"embed"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync/atomic"

	"github.com/hostler-io/hostler/internal/durable"
	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/internal/sqldb"
	"github.com/hostler-io/hostler/protocol"
)

//go:embed schema/*.sql
var schema embed.FS

// applicationID marks the file as an agent's queue: "HstA".
const applicationID = 0x48737441

// Config says where the queue is.
type Config struct {
	// Path of the database file, in a directory that exists. The same name with
	// "-reserve" appended takes up 1 MiB beside it. Required.
	Path string
	// Log takes the rare events of the database. Default: none.
	Log *slog.Logger
}

// Queue is an open queue. Its methods may be called from any goroutine; those
// that change it are meant to be called by one, the agent's loop, because their
// results depend on what was there before.
type Queue struct {
	db      *sqldb.DB
	store   protocol.StoreID
	reserve durable.Reserve
	beside  beside
	lacking atomic.Bool // the reserve is not there
	// refusing tells that the audit log took no record when it was last tried.
	refusing atomic.Bool
	freed    receipts // whose rows go with the next step
	memory   memory
	known    known
}

// cacheKiB is small: the newest actions and the outbox fit, and the rest is of
// the past. An agent is to be small, and a page of 4 KiB takes twice that here.
const cacheKiB = 200

func (c Config) database() (sqldb.Config, error) {
	files, err := fs.Sub(schema, "schema")
	if err != nil {
		return sqldb.Config{}, fmt.Errorf("reading the queue's schema: %w", err)
	}
	return sqldb.Config{Path: c.Path, ApplicationID: applicationID, Migrations: files,
		Log: cmp.Or(c.Log, slog.New(slog.DiscardHandler)), Readers: 2, CacheKiB: cacheKiB}, nil
}

// Create makes a new queue whose streams bear the given random id, and opens it.
// It fails with [fs.ErrExist] if there is one already.
func Create(ctx context.Context, cfg Config, store protocol.StoreID) (*Queue, error) {
	if store.IsZero() {
		return nil, errors.New("creating the agent's queue: the store id is missing")
	}
	c, err := cfg.database()
	if err != nil {
		return nil, err
	}
	q := &Queue{store: store, reserve: durable.Reserve(cfg.Path + "-reserve")}
	c.Undone = q.memory.forget
	if q.db, err = sqldb.Create(ctx, c); err != nil {
		return nil, fmt.Errorf("creating the agent's queue: %w", err)
	}
	if err := errors.Join(found(ctx, q), q.fillReserve()); err != nil {
		return nil, errors.Join(fmt.Errorf("creating the agent's queue: %w", err), q.db.Close())
	}
	return q, nil
}

// Open opens a queue that exists. It fails with [fs.ErrNotExist] if there is
// none: an empty memory must not be taken for the truth.
func Open(ctx context.Context, cfg Config) (*Queue, error) {
	c, err := cfg.database()
	if err != nil {
		return nil, err
	}
	q := &Queue{reserve: durable.Reserve(cfg.Path + "-reserve")}
	c.Undone = q.memory.forget
	q.db, err = sqldb.Open(ctx, c)
	if (errors.Is(err, sqldb.ErrFull) || errors.Is(err, sqldb.ErrIO)) && q.reserve.Spend() {
		q.db, err = sqldb.Open(ctx, c)
	}
	if err != nil {
		return nil, fmt.Errorf("opening the agent's queue: %w", err)
	}
	if err := identify(ctx, q); err != nil {
		return nil, errors.Join(fmt.Errorf("opening the agent's queue: %w", err), q.db.Close())
	}
	q.lacking.Store(!q.reserve.Whole())
	return q, nil
}

// OpenCopy copies a queue, as it is at one moment, to a path where nothing is, and opens
// the copy. The queue itself is not changed, and may be in use. Every page that is read
// is held to its sum.
func OpenCopy(ctx context.Context, cfg Config, to string) (*Queue, error) {
	c, err := cfg.database()
	if err != nil {
		return nil, err
	}
	if err := sqldb.Copy(ctx, c, to); err != nil {
		return nil, fmt.Errorf("copying the agent's queue: %w", err)
	}
	cfg.Path = to
	return Open(ctx, cfg)
}

// Remove removes a queue that was never finished.
func Remove(cfg Config) error {
	var err error
	for _, suffix := range []string{"-wal", "-shm", "-journal", "-reserve", ""} { // the name last: it says that there is something
		if e := os.Remove(cfg.Path + suffix); e != nil && !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	if err != nil {
		return fmt.Errorf("removing the agent's queue: %w", err)
	}
	return nil
}

// Close writes what is under way and closes the database.
func (q *Queue) Close() error { return q.db.Close() }

// Stats counts what was written since the queue was opened.
func (q *Queue) Stats() sqldb.Stats { return q.db.Stats() }

// Statements counts what the database was asked since then.
func (q *Queue) Statements() uint64 { return q.db.Statements() }

// Store is the id of this queue, part of every position of its streams.
func (q *Queue) Store() protocol.StoreID { return q.store }

// update runs one step in a transaction of its own, which removes what receipts
// have freed meanwhile.
func (q *Queue) update(ctx context.Context, what string, fn func(txn) error) error {
	freed := q.freed.all()
	if len(freed) > 0 {
		failpoint.Before(failpoint.OutboxFreed)
	}
	beside, written := q.beside.next()
	var step uint64
	var places map[protocol.Stream]streamEnds
	var items []pushed
	err := q.db.Update(ctx, func(db *sqldb.Tx) error {
		tx := txn{db, &q.memory, &q.refusing}
		for _, r := range freed {
			if err := free(tx, r); err != nil {
				return err
			}
		}
		if beside != nil {
			if err := beside(tx); err != nil {
				return err
			}
		}
		if err := fn(tx); err != nil {
			return err
		}
		var err error
		step, places, items, err = tx.end()
		return err
	})
	if err == nil {
		q.known.wrote(step, places, items)
	}
	if err == nil && beside != nil {
		written()
	}
	if err == nil && len(freed) > 0 {
		q.freed.written(freed)
		failpoint.After(failpoint.OutboxFreed)
	}
	return wrap(what, err)
}

// commit is update for a step of the crash table.
func (q *Queue) commit(ctx context.Context, step failpoint.Step, what string, fn func(txn) error) error {
	failpoint.Before(step)
	err := q.update(ctx, what, fn)
	if err == nil {
		failpoint.After(step)
	}
	return err
}

// pressed makes a step that may not fail for want of space: on a disk that is full it
// uses what was set aside. [Queue.Reserved] tells, and [Queue.Probe] sets it aside again.
func (q *Queue) pressed(step func() error) error {
	err := step()
	if errors.Is(err, ErrDisk) && !errors.Is(err, ErrAudit) && q.Spend() {
		err = step()
	}
	return err
}

// view returns what fn reads.
func view[T any](ctx context.Context, q *Queue, what string, fn func(txn) (T, error)) (v T, err error) {
	err = q.db.View(ctx, func(db *sqldb.Tx) error {
		v, err = fn(txn{Tx: db})
		return err
	})
	return v, wrap(what, err)
}

// wrap gives the errors that a caller branches on their names here.
func wrap(what string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, sqldb.ErrFull), errors.Is(err, sqldb.ErrIO):
		return fmt.Errorf("%s: %w: %w", what, ErrDisk, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// found writes the first rows of a new queue.
func found(ctx context.Context, q *Queue) error {
	return q.update(ctx, "writing the first rows", func(tx txn) error {
		_, err := tx.Exec(`INSERT INTO self (one, store, inc, boot, term_ring, term_counter, coordinator, named, accept_seq, buried, evidence, checkpoint)
			VALUES (1, $1, $2, '', 0, 0, '', 0, 0, 0, $3, $3)`, q.store.String(), firstStart(q.store), []byte{})
		if err != nil {
			return err
		}
		for _, s := range append(streams(), protocol.StreamAudit) {
			_, err := tx.Exec(`INSERT INTO streams (stream, n, h, freed_n, freed_h) VALUES ($1, 0, $2, 0, $2)`,
				string(s), protocol.Digest{}.String())
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// firstStart is the number from which the process starts of a queue are counted:
// at random, as its id is. What a coordinator said to the machine that bore this
// host's name before answers state messages by their numbers; if both counted from
// one, it would answer ours, and an order of then could be played to us.
func firstStart(store protocol.StoreID) uint64 {
	return binary.BigEndian.Uint64(store[:8]) >> 24 // 40 bits, of the 53 that JSON carries
}

// starts is how many starts there were when they have come to a number. Those of
// databases that were made before there was a first one at random began with one.
func starts(store protocol.StoreID, number uint64) uint64 {
	if first := firstStart(store); number > first {
		return number - first
	}
	return number
}

// identify reads what never changes. A database without its first rows was being
// made when the power went: there is nothing in it to lose.
func identify(ctx context.Context, q *Queue) error {
	text, err := view(ctx, q, "reading who this is", func(tx txn) (text string, err error) {
		return text, tx.QueryRow(`SELECT store FROM self`).Scan(&text)
	})
	if errors.Is(err, sqldb.ErrNoRows) {
		return fmt.Errorf("%w: %w", ErrUnfinished, err)
	}
	if err != nil {
		return err
	}
	q.store, err = protocol.ParseStoreID(text)
	return err
}

func streams() []protocol.Stream {
	return []protocol.Stream{protocol.StreamOrder, protocol.StreamControl, protocol.StreamReport, protocol.StreamAlert}
}
