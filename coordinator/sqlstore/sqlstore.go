// Package sqlstore is the coordinator's memory in a SQL database.
//
// It implements [core.Store] on package sqldb, whose promises it passes on:
// an Update that returned nil is on disk, Updates of many callers share a commit,
// and functions run one after the other, which is as serializable as can be. What
// is here is the schema, one constant text for each query, and the way between
// columns and records. Each query is answered from an index, whatever is in the
// database; a test holds them to it.
package sqlstore

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"syscall"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/internal/sqldb"
	"github.com/hostler-io/hostler/protocol"
)

//go:embed schema/*.sql
var schema embed.FS

// applicationID marks the files of this package: "HosC".
const applicationID = 0x486f7343

// Config says where the database is.
type Config struct {
	// Path is the database file. Required.
	Path string
	// Readers is how many Views run at the same time; default 4.
	Readers int
	// Log takes rare events of the database. Default: discarded.
	Log *slog.Logger
}

// Store is a [core.Store].
type Store struct {
	db     *sqldb.DB
	id     protocol.StoreID
	memory memory
}

var _ core.Store = (*Store)(nil)

// Create makes a new database, with a new id, and opens it. It fails with
// [fs.ErrExist] when there is something at its path.
func Create(ctx context.Context, cfg Config) (*Store, error) { return start(ctx, cfg, sqldb.Create) }

// Open opens the database. It fails with [fs.ErrNotExist] when there is none, and
// as [sqldb.Open] does when it is damaged, in use, or of a later release.
func Open(ctx context.Context, cfg Config) (*Store, error) { return start(ctx, cfg, sqldb.Open) }

// Verify reads the database whole, and returns what is wrong with it. It may be in use; see
// [sqldb.Verify].
func Verify(ctx context.Context, path string) error {
	return sqldb.Verify(ctx, sqldb.Config{Path: path, ApplicationID: applicationID})
}

// Copy writes the database, as it is at one moment, into a new file in a
// directory that nobody else uses, and returns its id. Another process may go on
// using it; see [sqldb.Copy].
func Copy(ctx context.Context, cfg Config, to string) (id protocol.StoreID, err error) {
	migrations, err := fs.Sub(schema, "schema")
	if err != nil {
		return id, err
	}
	if err := sqldb.Copy(ctx, sqldb.Config{Path: cfg.Path, ApplicationID: applicationID, Migrations: migrations}, to); err != nil {
		if errors.Is(err, sqldb.ErrFull) {
			err = fmt.Errorf("%w: %w", err, syscall.ENOSPC) // as every other file says it
		}
		return id, fmt.Errorf("coordinator's store: %w", err)
	}
	s, err := Open(ctx, Config{Path: to})
	if err != nil {
		return id, err
	}
	return s.ID(), s.Close()
}

func start(ctx context.Context, cfg Config, open func(context.Context, sqldb.Config) (*sqldb.DB, error)) (*Store, error) {
	migrations, err := fs.Sub(schema, "schema")
	if err != nil {
		return nil, err
	}
	s := &Store{}
	s.db, err = open(ctx, sqldb.Config{
		Path:          cfg.Path,
		ApplicationID: applicationID,
		Migrations:    migrations,
		Log:           cfg.Log,
		Readers:       cfg.Readers,
		Undone:        s.memory.forget,
	})
	if err != nil {
		return nil, fmt.Errorf("coordinator's store: %w", err)
	}
	err = s.db.View(ctx, func(t *sqldb.Tx) error {
		return t.QueryRow("SELECT id FROM store").Scan(text(&s.id))
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("coordinator's store: reading its id: %w", err), s.db.Close())
	}
	return s, nil
}

// ID returns the id of the database.
func (s *Store) ID() protocol.StoreID { return s.id }

// Update implements [core.Store].
func (s *Store) Update(ctx context.Context, fn func(core.Tx) error) error {
	return available(s.db.Update(ctx, func(db *sqldb.Tx) error {
		t := tx{db, &s.memory}
		if err := fn(t.tables()); err != nil {
			return err
		}
		return t.settle()
	}))
}

// View implements [core.Store].
func (s *Store) View(ctx context.Context, fn func(core.Tx) error) error {
	return available(s.db.View(ctx, func(db *sqldb.Tx) error { return fn(tx{db: db}.tables()) }))
}

// available marks what may go away by itself, or with a restart: callers are to
// try again. A damaged database is not among it.
func available(err error) error {
	for _, passing := range []error{sqldb.ErrFull, sqldb.ErrIO, sqldb.ErrClosed} {
		if errors.Is(err, passing) {
			return fmt.Errorf("%w: %w", core.ErrUnavailable, err)
		}
	}
	return err
}

// Stats returns what the database's writer did.
func (s *Store) Stats() sqldb.Stats { return s.db.Stats() }

// Statements returns how many statements the database was asked, see [sqldb.DB.Statements].
func (s *Store) Statements() uint64 { return s.db.Statements() }

// Close implements [core.Store].
func (s *Store) Close() error { return s.db.Close() }

// tx is a transaction of the database; so are the tables, under names of their own.
type tx struct {
	db     *sqldb.Tx
	memory *memory // nil in a View
}

// tables are the tables as a transaction sees them.
func (t tx) tables() core.Tx {
	return core.Tx{
		Hosts: hosts(t), Enrolments: enrolments(t), Actions: actions(t), Queue: actions(t), Streams: streams(t), Outputs: outputs(t),
		Access: access(t), Events: events(t), Audit: auditLog(t), Past: past(t), Values: values(t), Workloads: workloads(t), Fences: fences(t),
	}
}
