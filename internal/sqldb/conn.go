package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"sync/atomic"

	"modernc.org/sqlite"
)

// mode is what a connection may do.
type mode string

const (
	readWrite mode = "rw" // of an existing file: "rw" never creates one
	readOnly  mode = "ro"
)

// keepStatements bounds the prepared statements that a connection keeps. Programs
// have some dozens; the bound is for texts that are put together at run time.
const keepStatements = 256

// conn is one SQLite connection with its prepared statements. One goroutine uses
// it at a time.
type conn struct {
	pool *sql.DB // of this one connection
	sql  *sql.Conn
	idle map[string][]*sql.Stmt // by text; several while the same text is nested
	kept int
	used *atomic.Uint64 // statements that were taken, of all connections together
	age  uint64         // of a reading connection, see [readers.renew]
}

// connect opens the file, which must exist.
func connect(ctx context.Context, path string, m mode, cacheKiB int) (*conn, error) {
	if err := useLayer(); err != nil {
		return nil, err
	}
	connector, err := sqlite.NewConnector(dsn(path, m, cacheKiB))
	if err != nil {
		return nil, err
	}
	pool := sql.OpenDB(connector)
	sc, err := pool.Conn(ctx)
	if err != nil {
		return nil, errors.Join(err, pool.Close())
	}
	c := &conn{pool: pool, sql: sc, idle: make(map[string][]*sql.Stmt), used: new(atomic.Uint64)}
	// SQLite opens the file at the first read and refuses modes in silence.
	var journal string
	err = sc.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&journal)
	if err == nil && journal != "wal" {
		err = fmt.Errorf("this file system allows no write-ahead log (journal mode is %q)", journal)
	}
	if err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

// dsn spells the settings of a connection in the driver's grammar.
func dsn(path string, m mode, cacheKiB int) string {
	q := url.Values{
		"mode":       {string(m)},
		"vfs":        {layerName},
		"_dqs":       {"0"}, // a misspelt column in double quotes is an error, not a string
		"_defensive": {"1"},
		"_error_rc":  {"1"},
		"_pragma":    {"trusted_schema(0)", "temp_store(MEMORY)", fmt.Sprintf("cache_size(-%d)", cacheKiB)},
	}
	q.Set("_busy_timeout", "5000") // a backup tool may hold the lock for a moment
	if m == readWrite {
		q.Set("_journal_mode", "WAL")
		q.Set("_synchronous", "FULL")
		q.Set("_foreign_keys", "1")
		// A log that grew behind a long View shrinks again.
		q["_pragma"] = append(q["_pragma"], "journal_size_limit(16777216)")
	}
	u := url.URL{Scheme: "file", Path: path, RawQuery: q.Encode()}
	return u.String()
}

// close closes the statements and the connection.
func (c *conn) close() error {
	var errs []error
	for _, stmts := range c.idle {
		for _, s := range stmts {
			errs = append(errs, s.Close())
		}
	}
	c.idle = nil
	// An sql.Conn goes back to its pool; closing the pool closes it for good.
	return errors.Join(append(errs, c.sql.Close(), c.pool.Close())...)
}

// exec runs one or more statements that are not worth keeping.
func (c *conn) exec(ctx context.Context, query string) (sql.Result, error) {
	res, err := c.sql.ExecContext(ctx, query)
	return res, classify(err)
}

// take returns a prepared statement that is not in use, so that a query
// may be nested in the iteration of one with the same text.
func (c *conn) take(query string) (*sql.Stmt, error) {
	c.used.Add(1)
	if stmts := c.idle[query]; len(stmts) > 0 {
		last := len(stmts) - 1
		s := stmts[last]
		c.idle[query] = stmts[:last]
		c.kept--
		return s, nil
	}
	return c.sql.PrepareContext(context.Background(), parsedOnce(query))
}

// bound is a limit whose value is an argument.
var bound = regexp.MustCompile(`\b(LIMIT|OFFSET) (\$[0-9]+)`)

// parsedOnce returns a statement that SQLite does not parse anew for each value of its
// arguments. It does that where the value of a limit is an argument alone, to plan by it, and
// parsing takes ten times as long as finding a row. A sum is not looked into.
func parsedOnce(query string) string { return bound.ReplaceAllString(query, "$1 $2 + 0") }

// give takes a statement back.
func (c *conn) give(query string, s *sql.Stmt) error {
	if c.kept >= keepStatements || c.idle == nil {
		return s.Close()
	}
	c.idle[query] = append(c.idle[query], s)
	c.kept++
	return nil
}

// run executes a statement of the writer's or a reader's own: no arguments, no
// rows, never interrupted.
func (c *conn) run(query string) error {
	s, err := c.take(query)
	if err != nil {
		return classify(err)
	}
	_, err = s.ExecContext(context.Background())
	return classify(errors.Join(err, c.give(query, s)))
}
