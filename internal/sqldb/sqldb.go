// Package sqldb keeps one SQLite database the way Hostler needs it, for the
// agent's queue and for the coordinator's store alike. It is the only importer
// of a SQL driver.
//
// Three promises shape it.
//
// What was answered with nil is on disk. Every write is a function given to
// [DB.Update]. One goroutine, the writer, runs the functions that wait, each
// under a savepoint of its own, makes one commit of them (WAL, synchronous=FULL)
// and answers them all. No function waits for company: a lone one is committed
// at once, and under load the batch is what arrived during the last commit.
// So a thousand callers cost about as many fsyncs as one.
//
// Create and Open are different calls. [Open] never makes a database: a path
// with nothing behind it is an error, since an empty store taken for the truth
// forgets everything that was promised. [Create] never touches one that exists,
// and it puts the finished file in place with one rename, so that a crash leaves
// either no database or a whole one.
//
// A database that cannot be trusted is not opened. Open takes the lock that
// keeps a second process out, checks that the file is one of the expected
// application and no newer than the program, and has SQLite walk its pages, each
// of which carries a checksum. A torn tail of the write-ahead log is not damage:
// it is what kill -9 leaves, and it is dropped; a log that lost more is refused.
// So one turned bit, wherever it is, changes nothing that is read.
//
// The SQL given to this package is portable to PostgreSQL: $1 placeholders,
// times as INTEGER milliseconds, ids as TEXT, documents as BLOB, no INSERT OR,
// no deferred constraints (one would fail at the commit, together with every
// neighbour in the batch), no transaction statements.
package sqldb

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hostler-io/hostler/internal/durable"
)

// Config says which database to use and how.
type Config struct {
	// Path is the database file. The same name with -wal, -shm, -lock and (while
	// it is being created) -new appended belongs to it too.
	Path string

	// ApplicationID is stored in the file's header and tells the databases of
	// different programs apart. Required, not 0, never changed.
	ApplicationID int32

	// Migrations holds the schema as files <number>_<name>.sql, numbered from
	// 0001 without gaps. Those that the database has not seen are applied when it is
	// opened, all in one transaction, with foreign keys checked at its end instead
	// of on the way, so that a table may be rebuilt. A released file never changes.
	// Every table must be STRICT.
	Migrations fs.FS

	// Log takes the rare events (schema migrated, connection replaced).
	// Default: discarded.
	Log *slog.Logger

	// Undone is called on the writer's goroutine, before the next function of an
	// Update, when one was undone: what its caller remembers of rows may be of it.
	// Default: nothing.
	Undone func()

	// MaxBatch is the largest number of functions in one commit. Default 256.
	MaxBatch int

	// BatchWindow ends a batch that has been running this long even if more
	// functions wait, so that the first does not wait for all. Default 2 ms.
	BatchWindow time.Duration

	// CacheKiB is how many KiB of pages each connection keeps in memory. Default
	// 2000.
	CacheKiB int

	// Readers is the number of connections for View, and so of Views that run at
	// the same time. Each is opened when first needed and grows with its cache.
	// Default 4.
	Readers int
}

func (c Config) validate() (Config, error) {
	switch {
	case c.Path == "":
		return c, errors.New("sqldb: Path is missing")
	case c.ApplicationID == 0:
		return c, errors.New("sqldb: ApplicationID is missing")
	case c.Migrations == nil:
		return c, errors.New("sqldb: Migrations is missing")
	case c.MaxBatch < 0 || c.BatchWindow < 0 || c.Readers < 0 || c.CacheKiB < 0:
		return c, errors.New("sqldb: MaxBatch, BatchWindow, CacheKiB and Readers must not be negative")
	}
	path, err := filepath.Abs(c.Path)
	if err != nil {
		return c, fmt.Errorf("sqldb: path %q: %w", c.Path, err)
	}
	c.Path = path
	if c.Undone == nil {
		c.Undone = func() {}
	}
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	c.MaxBatch = cmp.Or(c.MaxBatch, 256)
	c.BatchWindow = cmp.Or(c.BatchWindow, 2*time.Millisecond)
	c.Readers = cmp.Or(c.Readers, 4)
	c.CacheKiB = cmp.Or(c.CacheKiB, 2000)
	return c, nil
}

// DB is an open database. Its methods may be called from any goroutine.
type DB struct {
	cfg    Config
	lock   *durable.Lock
	writer *writer
	views  *readers
	used   *atomic.Uint64 // statements
	stop   func() error   // closes everything, once
}

// Create makes the database with its whole schema and opens it. It fails with
// [fs.ErrExist] when the path is taken, also by what is left of an earlier one.
func Create(ctx context.Context, cfg Config) (*DB, error) {
	cfg, err := cfg.validate()
	if err != nil {
		return nil, err
	}
	lock, err := lockFile(cfg.Path)
	if err != nil {
		return nil, fmt.Errorf("creating database %q: %w", cfg.Path, err)
	}
	if err := create(ctx, cfg); err != nil {
		return nil, fmt.Errorf("creating database %q: %w", cfg.Path, errors.Join(err, lock.Close()))
	}
	return open(ctx, cfg, lock)
}

// Open opens an existing database, checks it and brings its schema up to date.
//
// It fails with [fs.ErrNotExist] when there is none, [ErrLocked] when another
// process has it, [ErrCorrupt] when the file is damaged, [ErrForeign] when it
// belongs to another program, and [ErrNewer] when a later release wrote it. In
// each of these cases the file is left as it was found.
func Open(ctx context.Context, cfg Config) (*DB, error) {
	cfg, err := cfg.validate()
	if err != nil {
		return nil, err
	}
	if err := exists(cfg.Path); err != nil {
		return nil, fmt.Errorf("opening database %q: %w", cfg.Path, err)
	}
	lock, err := lockFile(cfg.Path)
	if err != nil {
		return nil, fmt.Errorf("opening database %q: %w", cfg.Path, err)
	}
	return open(ctx, cfg, lock)
}

// open takes over the lock: it is released on failure.
func open(ctx context.Context, cfg Config, lock *durable.Lock) (*DB, error) {
	w, err := openChecked(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("opening database %q: %w", cfg.Path, errors.Join(err, lock.Close()))
	}
	used := new(atomic.Uint64)
	views := newReaders(cfg, used)
	db := &DB{
		cfg:    cfg,
		lock:   lock,
		writer: newWriter(cfg, w, used, views.renew),
		views:  views,
		used:   used,
	}
	db.stop = sync.OnceValue(db.close)
	go db.writer.run() // ended and waited for by close
	return db, nil
}

// openChecked returns the writer's connection to a database that has passed
// every check and has the newest schema.
func openChecked(ctx context.Context, cfg Config) (*conn, error) {
	if err := checkHeader(cfg.Path, cfg.ApplicationID); err != nil {
		return nil, err
	}
	if err := checkLog(cfg.Path); err != nil {
		return nil, explain(err, cfg.Path)
	}
	c, err := connect(ctx, cfg.Path, readWrite, cfg.CacheKiB)
	if err != nil {
		return nil, explain(err, cfg.Path)
	}
	if err := checkPages(ctx, c, cfg.Path); err != nil {
		return nil, errors.Join(err, c.close())
	}
	if err := migrate(ctx, c, cfg); err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

// Close runs the functions that Update has taken, commits them, and closes the
// database. Update and View called afterwards fail with [ErrClosed]; Close waits
// for Views that run. More calls return what the first returned.
func (db *DB) Close() error { return db.stop() }

func (db *DB) close() error {
	// Readers go first: SQLite moves the log into the database and removes it when
	// the last connection closes, and a read-only one cannot do that.
	db.writer.drain()
	if err := errors.Join(db.views.close(), db.writer.close(), db.lock.Close()); err != nil {
		return fmt.Errorf("closing database %q: %w", db.cfg.Path, err)
	}
	return nil
}

// Stats counts what the writer did since Open.
type Stats struct {
	Updates  uint64 // functions whose effects are durable
	Failed   uint64 // functions that were run and answered with an error
	Commits  uint64 // commits that succeeded; Updates/Commits is the mean batch
	Lost     uint64 // batches that failed as a whole
	MaxBatch uint64 // largest number of functions in one commit
}

// Stats returns the counters.
func (db *DB) Stats() Stats { return db.writer.stats.snapshot() }

// Statements returns how many were run since Open, by Views too. Those that begin and end
// transactions count.
func (db *DB) Statements() uint64 { return db.used.Load() }

// ErrNoRows is returned by [Row.Scan] after [Tx.QueryRow] found nothing.
var ErrNoRows = sql.ErrNoRows
