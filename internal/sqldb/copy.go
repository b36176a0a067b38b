package sqldb

import (
	"context"
	"errors"
	"fmt"
)

// Copy writes the database of cfg, as it is at one moment, into a new file, and
// checks that file. It takes no lock, so another process may use the database
// meanwhile, and goes on writing: its log grows until the copy is done. Every
// page that is read is held to its checksum, so a damaged database is an error
// and no copy. The file to must not exist; on an error it may be left behind.
//
// The copy is made by SQLite from the rows, so it is as small as can be, and its
// bytes are not those of the original.
func Copy(ctx context.Context, cfg Config, to string) error {
	cfg, err := cfg.validate()
	if err != nil {
		return err
	}
	if err := exists(cfg.Path); err != nil {
		return fmt.Errorf("copying database %q: %w", cfg.Path, err)
	}
	if err := checkHeader(cfg.Path, cfg.ApplicationID); err != nil {
		return fmt.Errorf("copying database %q: %w", cfg.Path, err)
	}
	c, err := connect(ctx, cfg.Path, readOnly, cfg.CacheKiB)
	if err != nil {
		return fmt.Errorf("copying database %q: %w", cfg.Path, explain(err, cfg.Path))
	}
	_, err = c.sql.ExecContext(ctx, "VACUUM INTO $1", to)
	if err := errors.Join(classify(err), c.close()); err != nil {
		return fmt.Errorf("copying database %q: %w", cfg.Path, err)
	}
	if err := Check(ctx, cfg, to); err != nil {
		return fmt.Errorf("the copy of database %q: %w", cfg.Path, err)
	}
	return syncPath(to)
}

// Check looks whether a file that nobody uses is a whole database of cfg, whose
// own path does not matter. It leaves the log of it closed.
func Check(ctx context.Context, cfg Config, path string) error {
	if err := checkHeader(path, cfg.ApplicationID); err != nil {
		return err
	}
	c, err := connect(ctx, path, readWrite, cfg.CacheKiB)
	if err != nil {
		return explain(err, path)
	}
	return errors.Join(checkPages(ctx, c, path), c.close())
}
