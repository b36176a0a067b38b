package sqldb

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strconv"
)

// migration is one file of the schema. Its number is the version that the
// database has after it.
type migration struct {
	name string
	sql  string
}

// readMigrations returns the files in order; the index of each is its number - 1.
func readMigrations(fsys fs.FS) ([]migration, error) {
	form := regexp.MustCompile(`^([0-9]{4})_[a-z0-9_]+\.sql$`)
	entries, err := fs.ReadDir(fsys, ".") // sorted by name
	if err != nil {
		return nil, fmt.Errorf("reading migrations: %w", err)
	}
	var all []migration
	for _, entry := range entries {
		m := form.FindStringSubmatch(entry.Name())
		if m == nil {
			return nil, fmt.Errorf("migration %q: the name is not NNNN_name.sql", entry.Name())
		}
		if n, _ := strconv.Atoi(m[1]); n != len(all)+1 {
			return nil, fmt.Errorf("migration %q: want number %04d next", entry.Name(), len(all)+1)
		}
		text, err := fs.ReadFile(fsys, entry.Name())
		if err != nil {
			return nil, fmt.Errorf("migration %q: %w", entry.Name(), err)
		}
		all = append(all, migration{name: entry.Name(), sql: string(text)})
	}
	if len(all) == 0 {
		return nil, errors.New("no migrations")
	}
	return all, nil
}

// migrate brings the schema to the newest version, in one transaction.
func migrate(ctx context.Context, c *conn, cfg Config) error {
	all, err := readMigrations(cfg.Migrations)
	if err != nil {
		return err
	}
	var version int
	if err := c.sql.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version); err != nil {
		return fmt.Errorf("reading schema version: %w", explain(err, cfg.Path))
	}
	switch {
	case version > len(all):
		return fmt.Errorf("%w: schema version %d, this program knows up to %d; install the release that wrote it, or a later one", ErrNewer, version, len(all))
	case version == len(all):
		return nil
	}
	if err := apply(ctx, c, all, version); err != nil {
		return err
	}
	cfg.Log.InfoContext(ctx, "database schema migrated", "path", cfg.Path, "from_version", version, "to_version", len(all))
	return nil
}

// apply runs the migrations after version. Foreign keys are off meanwhile, as
// rebuilding a table needs, and checked as a whole before the commit. The pragma
// has no effect inside a transaction.
func apply(ctx context.Context, c *conn, all []migration, version int) (err error) {
	if _, err := c.exec(ctx, "PRAGMA foreign_keys = OFF"); err != nil {
		return err
	}
	if _, err := c.exec(ctx, "BEGIN IMMEDIATE"); err != nil {
		return fmt.Errorf("migrating: %w", err)
	}
	for _, m := range all[version:] {
		if _, err := c.exec(ctx, m.sql); err != nil {
			return fmt.Errorf("migration %q: %w", m.name, err)
		}
	}
	if err := checkSchema(ctx, c); err != nil {
		return fmt.Errorf("migrating from version %d: %w", version, err)
	}
	if _, err := c.exec(ctx, fmt.Sprintf("PRAGMA user_version = %d", len(all))); err != nil {
		return fmt.Errorf("recording schema version: %w", err)
	}
	if _, err := c.exec(ctx, "COMMIT"); err != nil {
		return fmt.Errorf("committing the migration: %w", err)
	}
	_, err = c.exec(ctx, "PRAGMA foreign_keys = ON")
	return err
}

// checkSchema refuses tables that would take any type in any column, and rows
// that point nowhere.
func checkSchema(ctx context.Context, c *conn) error {
	var names string
	err := c.sql.QueryRowContext(ctx, `SELECT coalesce(group_concat(name, ', '), '') FROM pragma_table_list
		WHERE schema = 'main' AND type = 'table' AND strict = 0 AND name NOT LIKE 'sqlite\_%' ESCAPE '\'`).Scan(&names)
	if err != nil {
		return fmt.Errorf("listing tables: %w", err)
	}
	if names != "" {
		return fmt.Errorf("tables without STRICT: %s", names)
	}
	var table, parent string
	err = c.sql.QueryRowContext(ctx, `SELECT "table", parent FROM pragma_foreign_key_check LIMIT 1`).Scan(&table, &parent)
	switch {
	case err == nil:
		return fmt.Errorf("table %q has rows that refer to missing rows of %q", table, parent)
	case errors.Is(err, ErrNoRows):
		return nil
	}
	return fmt.Errorf("checking foreign keys: %w", err)
}
