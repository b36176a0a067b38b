package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// ErrOpen tells that another user may change a file, or put another one in its place.
var ErrOpen = errors.New("may be written by others")

// CheckOwner refuses with [ErrOpen] a file that a user other than root and the user of
// this process could have written or replaced: it and its directory must belong to one
// of the two, and no other user may write them. Of a link the file counts to which it leads,
// and both directories.
func CheckOwner(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !ours(info) || info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("%s %w: chown root:root %s && chmod go-w %s", path, ErrOpen, path, path)
	}
	return CheckDirectory(path)
}

// CheckDirectory refuses with [ErrOpen] a file that a user other than root, the file's
// owner and the user of this process could replace.
func CheckDirectory(path string) error {
	at, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	file, err := os.Stat(at)
	if err != nil {
		return err
	}
	of, _ := file.Sys().(*syscall.Stat_t)
	for _, dir := range slices.Compact([]string{filepath.Dir(path), filepath.Dir(at)}) {
		info, err := os.Stat(dir)
		if err != nil {
			return err
		}
		sys, ok := info.Sys().(*syscall.Stat_t)
		if !ok || !ours(info) && (of == nil || sys.Uid != of.Uid) || info.Mode().Perm()&0o022 != 0 {
			return fmt.Errorf("%s: its directory %w: chown root:root %s && chmod go-w %s", path, ErrOpen, dir, dir)
		}
	}
	return nil
}

// ours reports whether a file is root's, or of the user of this process.
func ours(info fs.FileInfo) bool {
	sys, ok := info.Sys().(*syscall.Stat_t)
	return ok && (sys.Uid == 0 || int(sys.Uid) == os.Geteuid())
}
