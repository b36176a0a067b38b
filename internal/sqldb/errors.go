package sqldb

import (
	"errors"
	"fmt"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// What callers branch on. Errors of this package wrap at most one of them.
var (
	// ErrFull: there is no space left. Nothing of the batch was kept. The database
	// stays open and works again as soon as there is space.
	ErrFull = errors.New("disk is full")

	// ErrIO: the disk failed to read or write. As ErrFull, but a commit that failed
	// so may turn out to be durable after all if the process or the machine goes
	// down before the next commit.
	ErrIO = errors.New("disk I/O error")

	// ErrCorrupt: the file is damaged. Trying again does not help.
	ErrCorrupt = errors.New("database is damaged")

	// ErrForeign: the file is a database of another program.
	ErrForeign = errors.New("database belongs to another program")

	// ErrNewer: the schema was made by a later release.
	ErrNewer = errors.New("database was written by a later release")

	// ErrLocked: another process has the database open.
	ErrLocked = errors.New("database is in use by another process")

	// ErrUnique: a row with this key exists. Only the one statement failed.
	ErrUnique = errors.New("row exists")

	// ErrConstraint: a row breaks any other rule of the schema (CHECK, NOT NULL,
	// foreign key, column type). Only the one statement failed.
	ErrConstraint = errors.New("row breaks the schema")

	// ErrClosed: the database was closed.
	ErrClosed = errors.New("database is closed")

	// ErrTxDone: a Tx was used after its function had returned.
	ErrTxDone = errors.New("transaction has ended")
)

// PanicError is the value with which [DB.Update] panics when its function
// panicked: the function runs on the writer's goroutine, and the panic belongs to
// the caller. What the function wrote was rolled back.
type PanicError struct {
	Value any
	Stack []byte // where it happened
}

func (e *PanicError) Error() string {
	return fmt.Sprintf("panic in update: %v\n\n%s", e.Value, e.Stack)
}

// Unwrap returns the value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// classify puts the matching sentinel in front of an error of the driver.
func classify(err error) error {
	e, ok := errors.AsType[*sqlite.Error](err)
	if !ok {
		return err
	}
	if sentinel := sentinelOf(e.Code()); sentinel != nil {
		return fmt.Errorf("%w: %w", sentinel, err)
	}
	return err
}

func sentinelOf(code int) error {
	switch code {
	case sqlite3.SQLITE_CONSTRAINT_UNIQUE, sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY, sqlite3.SQLITE_CONSTRAINT_ROWID:
		return ErrUnique
	case sqlite3.SQLITE_IOERR_CORRUPTFS, sqlite3.SQLITE_IOERR_DATA: // the latter is a page that its sum does not fit
		return ErrCorrupt
	}
	switch code & 0xff { // the low byte is the primary code
	case sqlite3.SQLITE_CONSTRAINT:
		return ErrConstraint
	case sqlite3.SQLITE_FULL:
		return ErrFull
	case sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY: // the last when the file system became so
		return ErrIO
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return ErrCorrupt
	}
	return nil
}

// isReadOnly reports whether SQLite had opened a file so that it cannot write it. Then
// nothing of the batch is in the log.
func isReadOnly(err error) bool {
	e, ok := errors.AsType[*sqlite.Error](err)
	return ok && e.Code()&0xff == sqlite3.SQLITE_READONLY
}

// endsTransaction reports whether SQLite may have rolled the whole transaction
// back on its own, so that a next statement would be committed alone.
func endsTransaction(err error) bool {
	e, ok := errors.AsType[*sqlite.Error](err)
	if !ok {
		return false
	}
	switch e.Code() & 0xff {
	case sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH,
		sqlite3.SQLITE_RANGE, sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_AUTH:
		return false // by the documentation only the statement is undone
	}
	return true
}

// explain adds to ErrCorrupt what the operator is to do.
func explain(err error, path string) error {
	err = classify(err)
	if !errors.Is(err, ErrCorrupt) {
		return err
	}
	if e, ok := errors.AsType[*sqlite.Error](err); ok && e.Code() == sqlite3.SQLITE_IOERR_DATA {
		if page := damagedPage(path); page != nil {
			err = fmt.Errorf("%w: %w", ErrCorrupt, page) // SQLite's word for it is "disk I/O error"
		}
	}
	return fmt.Errorf("%w; stop the program, keep a copy of %s and %s-wal, then put a backup in their place (see fsck and the kernel log for the cause)", err, path, path)
}
