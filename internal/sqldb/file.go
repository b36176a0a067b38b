package sqldb

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/hostler-io/hostler/internal/durable"
	"github.com/hostler-io/hostler/internal/failpoint"
)

// lockFile takes the lock that one process holds for as long as it uses the
// database. SQLite's own locks let two writers take turns, which is harmless to
// the file and fatal to programs that each believe to be alone. The lock is on a
// file of its own, as closing any descriptor of the database would drop SQLite's
// locks on it.
func lockFile(path string) (*durable.Lock, error) {
	l, err := durable.TryLock(path + "-lock")
	if errors.Is(err, durable.ErrLocked) {
		err = ErrLocked
	}
	return l, err
}

// exists tells a database that is not there from one that was lost.
func exists(path string) error {
	_, err := os.Stat(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if _, werr := os.Lstat(path + "-wal"); werr == nil {
		return fmt.Errorf("%w, but its log %s-wal is: the file was moved or deleted; put it back, or restore a backup", fs.ErrNotExist, path)
	}
	return fs.ErrNotExist
}

// create builds the database under a name of its own and then puts it in place.
func create(ctx context.Context, cfg Config) error {
	// A log without its database would be played into the new one.
	for _, name := range []string{cfg.Path, cfg.Path + "-wal", cfg.Path + "-journal"} {
		if _, err := os.Lstat(name); err == nil {
			return fmt.Errorf("%s: %w", name, fs.ErrExist)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	draft := cfg.Path + "-new"
	if err := removeDraft(draft); err != nil {
		return fmt.Errorf("removing an unfinished one: %w", err)
	}
	if err := build(ctx, cfg, draft); err != nil {
		return errors.Join(err, removeDraft(draft))
	}
	return publish(draft, cfg.Path)
}

func removeDraft(draft string) error {
	for _, suffix := range []string{"", "-wal", "-shm", "-journal"} {
		if err := durable.Remove(draft + suffix); err != nil {
			return err
		}
	}
	return nil
}

// build makes a complete database; closing it leaves nothing in a log.
func build(ctx context.Context, cfg Config, draft string) error {
	f, err := os.OpenFile(draft, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(firstPage(cfg.ApplicationID))
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	c, err := connect(ctx, draft, readWrite, cfg.CacheKiB)
	if err != nil {
		return classify(err)
	}
	return errors.Join(migrate(ctx, c, cfg), c.close())
}

// publish makes the finished file appear under its name, durably: contents first,
// then the name.
func publish(draft, path string) error {
	if err := durable.Sync(draft); err != nil {
		return err
	}
	failpoint.Before(failpoint.DatabasePlaced)
	if err := os.Rename(draft, path); err != nil {
		return err
	}
	if err := durable.Sync(filepath.Dir(path)); err != nil {
		return err
	}
	failpoint.After(failpoint.DatabasePlaced)
	return nil
}

// checkHeader looks at the first bytes before SQLite does: SQLite takes an empty
// file for a new database.
func checkHeader(path string, applicationID int32) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	var header [100]byte
	switch n, err := io.ReadFull(f, header[:]); {
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return explain(fmt.Errorf("%w: it has only %d bytes", ErrCorrupt, n), path)
	case err != nil:
		return err
	}
	if !bytes.HasPrefix(header[:], []byte("SQLite format 3\x00")) {
		return explain(fmt.Errorf("%w: it does not begin as a SQLite database", ErrCorrupt), path)
	}
	if id := int32(binary.BigEndian.Uint32(header[68:])); id != applicationID {
		return fmt.Errorf("%w: application id %#x, want %#x", ErrForeign, uint32(id), uint32(applicationID))
	}
	return nil
}

// checkPages has SQLite walk all pages (not the indexes' contents).
func checkPages(ctx context.Context, c *conn, path string) error {
	var verdict string
	err := c.sql.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&verdict)
	if err != nil {
		return explain(fmt.Errorf("checking its pages: %w", err), path)
	}
	if verdict != "ok" {
		if page := damagedPage(path); page != nil {
			return explain(fmt.Errorf("%w: %w", ErrCorrupt, page), path)
		}
		return explain(fmt.Errorf("%w: %s", ErrCorrupt, verdict), path)
	}
	return nil
}

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
	return durable.Sync(to)
}

// Verify reads all pages of the database of cfg and looks whether it is whole. It takes no
// lock and changes nothing: another connection may use the database meanwhile.
func Verify(ctx context.Context, cfg Config) error {
	if err := checkHeader(cfg.Path, cfg.ApplicationID); err != nil {
		return err
	}
	c, err := connect(ctx, cfg.Path, readOnly, cfg.CacheKiB)
	if err != nil {
		return explain(err, cfg.Path)
	}
	return errors.Join(checkPages(ctx, c, cfg.Path), c.close())
}

// Check looks whether a file that is not in use is a whole database of cfg, whose
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
