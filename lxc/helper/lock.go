//go:build linux && cgo

package helper

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/container"
)

// locked is the lock of one container, held.
type locked struct {
	file *os.File
}

// lock takes the lock named key, waiting until patience ends: then it is
// container.ErrBusy, and the process must end, for the wait goes on.
func lock(dir, key string, patience time.Duration) (*locked, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("locking %s: %w", key, err)
	}
	path := filepath.Join(dir, key+lockSuffix)
	type result struct {
		lock *locked
		err  error
	}
	// flock cannot be given a deadline, so it waits on a thread of its own.
	done := make(chan result, 1)
	go func() {
		l, err := waitLock(path)
		done <- result{l, err}
	}()
	select {
	case r := <-done:
		if r.err != nil {
			return nil, fmt.Errorf("locking %s: %w", path, r.err)
		}
		return r.lock, nil
	case <-time.After(patience):
		return nil, fmt.Errorf("%w: another operation holds %s", container.ErrBusy, path)
	}
}

// waitLock locks the file that has the path at that moment: the one it waited
// for may have been removed by its last holder.
func waitLock(path string) (*locked, error) {
	for {
		l, err := lockFile(path, unix.LOCK_EX)
		if l != nil || err != nil {
			return l, err
		}
	}
}

// tryLock takes a lock that is free; nil if it is not.
func tryLock(path string) *locked {
	l, _ := lockFile(path, unix.LOCK_EX|unix.LOCK_NB)
	return l
}

// lockFile locks a file; nil if it has lost its name meanwhile.
func lockFile(path string, how int) (*locked, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		if err = unix.Flock(int(f.Fd()), how); err != unix.EINTR {
			break
		}
	}
	var mine, now os.FileInfo
	if err == nil {
		mine, err = f.Stat()
	}
	if err == nil {
		if now, err = os.Stat(path); err == nil && os.SameFile(mine, now) {
			return &locked{f}, nil
		}
		err = nil
	}
	f.Close()
	return nil, err
}

// release gives the lock back.
func (l *locked) release() { l.file.Close() }

// remove gives the lock back for good: its container is gone. An operation that waits for
// the file finds out and locks its successor.
func (l *locked) remove() {
	os.Remove(l.file.Name())
	l.file.Close()
}
