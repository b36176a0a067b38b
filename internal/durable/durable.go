// Package durable keeps small files: keys, enrolments, rings, records. A file
// that it wrote is there whole after a crash, with the new content or with what
// stood there before, and what it said to have written is on the disk.
//
// A file has one limit for writing and reading: what was written can be read.
//
// It makes no directories and takes no locks: what one process writes, another
// may replace.
package durable

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/hostler-io/hostler/internal/failpoint"
)

// ErrTooLarge tells that a file is larger than its reader takes. A write that
// fails with it has changed nothing.
var ErrTooLarge = errors.New("the file is too large")

func tooLarge(path string, most int64) error {
	return fmt.Errorf("%s: %w: more than %d bytes", path, ErrTooLarge, most)
}

// WriteFile puts b at path with that mode, whatever the umask, and replaces a
// file that is there. More than most bytes, the limit that the file is read
// with, are [ErrTooLarge].
func WriteFile(path string, b []byte, mode fs.FileMode, most int64) error {
	return put(path, b, mode, most, os.Rename)
}

// CreateFile puts b at path with that mode, whatever the umask. A file that is
// there is never touched: the error is [fs.ErrExist]. More than most bytes, the
// limit that the file is read with, are [ErrTooLarge].
func CreateFile(path string, b []byte, mode fs.FileMode, most int64) error {
	return put(path, b, mode, most, os.Link)
}

// put writes b beside path and then puts it in place by one system call: rename
// replaces a file that exists, link fails on it. Until then nobody but the
// owner may read it.
func put(path string, b []byte, mode fs.FileMode, most int64, place func(from, to string) error) error {
	if int64(len(b)) > most {
		return tooLarge(path, most)
	}
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+".")
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err == nil {
		failpoint.Before(failpoint.FilePlaced)
		err = place(f.Name(), path)
	}
	// After a rename there is nothing left to remove.
	if err = errors.Join(err, Remove(f.Name())); err != nil {
		return err
	}
	if err := Sync(dir); err != nil {
		return err
	}
	failpoint.After(failpoint.FilePlaced)
	return nil
}

// Sync makes the content of a file, or the names in a directory, durable.
func Sync(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// Remove removes a file. No file is no error.
func Remove(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// ReadFile reads a file of at most that many bytes; a larger one is
// [ErrTooLarge], and no more of it is read than shows that.
func ReadFile(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return nil, err
	}
	if int64(len(b)) > most {
		return nil, tooLarge(path, most)
	}
	return b, nil
}

// ErrLocked tells that another process, or another part of this one, holds a lock.
var ErrLocked = errors.New("it is in use by another process")

// Lock is a lock that a process holds. It ends with the process at the latest.
type Lock struct{ file *os.File }

// TryLock takes the lock of a file, which it makes if it is not there. The file stays.
func TryLock(path string) (*Lock, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = ErrLocked
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &Lock{f}, nil
}

// Close gives the lock back. A mere close of the file would leave it with a process
// that is being forked at this moment and has not come to its exec yet.
func (l *Lock) Close() error {
	return errors.Join(syscall.Flock(int(l.file.Fd()), syscall.LOCK_UN), l.file.Close())
}

// LoadOr loads what is at path, or creates it where nothing is. Another process
// may do the same at the same time: if create finds that, the other's is
// loaded.
func LoadOr[T any](load func(path string) (T, error), path string, create func() (T, error)) (T, error) {
	v, err := load(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return v, err
	}
	if v, err = create(); errors.Is(err, fs.ErrExist) {
		return load(path)
	}
	return v, err
}
