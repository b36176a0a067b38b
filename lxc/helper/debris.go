//go:build linux && cgo

package helper

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/hostler-io/hostler/container"
)

const (
	stagingPrefix = ".hostler-"
	lockSuffix    = ".lock"
)

// sweepDebris removes the remains of killed operations that are never repeated, because
// their containers have no name any more: staging directories, and locks of containers
// that are not there. Directories in use are locked, and left alone.
func (h *host) sweepDebris() error {
	entries, err := os.ReadDir(h.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	there := make(map[string]bool) // keys of locks that may be asked for
	for _, e := range entries {
		id, staged := strings.CutPrefix(e.Name(), stagingPrefix)
		switch {
		case staged && container.CheckCTID(id) == nil:
			if err := h.sweepStaging(container.CTID(id)); err != nil {
				return err
			}
		case container.CheckReference(e.Name()) == nil:
			there[e.Name()] = true
			if r, err := readRecord(h.dir(e.Name())); err == nil {
				there[string(r.CTID)] = true
			}
		}
	}
	if err := (sharing{h}).sweepTrees(); err != nil {
		return err
	}
	locks, err := os.ReadDir(h.locks)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range locks {
		if key, ok := strings.CutSuffix(e.Name(), lockSuffix); ok && !there[key] {
			h.sweepLock(key)
		}
	}
	return nil
}

// sweepStaging removes a staging directory that no process works on.
func (h *host) sweepStaging(id container.CTID) error {
	if err := os.MkdirAll(h.locks, 0o700); err != nil {
		return err
	}
	l := tryLock(filepath.Join(h.locks, string(id)+lockSuffix))
	if l == nil {
		return nil
	}
	defer l.release()
	if err := removeTree(h.staging(id)); !errors.Is(err, errMounted) {
		return err
	}
	return nil // fsck tells people of it
}

// sweepLock removes the lock of a container that is not there. One that was made
// since we looked keeps it.
func (h *host) sweepLock(key string) {
	l := tryLock(filepath.Join(h.locks, key+lockSuffix))
	if l == nil {
		return
	}
	name, err := h.ours(container.CTID(key))
	_, foreign := os.Lstat(h.dir(key))
	if err == nil && name == "" && errors.Is(foreign, fs.ErrNotExist) {
		l.remove()
		return
	}
	l.release()
}
