package tree

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/runner/rundir"
)

// Entry is something in a tree.
type Entry struct {
	// Path leads to it from the root; "." is the root.
	Path string
	Stat unix.Stat_t

	dir  int    // descriptor of its directory
	name string // in that
}

// IsDir reports whether it is a directory.
func (e *Entry) IsDir() bool { return e.Stat.Mode&unix.S_IFMT == unix.S_IFDIR }

// IsRegular reports whether it is a regular file.
func (e *Entry) IsRegular() bool { return e.Stat.Mode&unix.S_IFMT == unix.S_IFREG }

// proc is a path to it that follows no link of the tree.
func (e *Entry) proc() string { return fmt.Sprintf("/proc/self/fd/%d/%s", e.dir, e.name) }

// Open opens a regular file as it was seen; [unix.ENOENT] if it is another one now. What
// has come into its place is looked at, and never opened: it may be a device.
func (e *Entry) Open() (*os.File, error) {
	look, err := unix.Openat(e.dir, e.name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, gone(err)
	}
	defer unix.Close(look)
	f, st, err := rundir.Reopen(look, e.Path, unix.O_RDONLY)
	if errors.Is(err, rundir.ErrNotRegular) {
		return nil, unix.ENOENT
	}
	if err != nil {
		return nil, err
	}
	if st.Ino != e.Stat.Ino || st.Dev != e.Stat.Dev {
		return nil, errors.Join(unix.ENOENT, f.Close())
	}
	e.Stat = st
	return f, nil
}

// Readlink returns where a link leads.
func (e *Entry) Readlink() (string, error) {
	b := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(e.dir, e.name, b)
	if err != nil {
		return "", gone(err)
	}
	return string(b[:n]), nil
}

// How long the names of the attributes of a file are, and each value, in bytes: mostly, and
// at most, which is the limit of the kernel.
const (
	usualAttributes = 256
	maxAttributes   = 64 << 10
)

// enough calls read with a buffer that is large enough. Most files have no attributes, and
// a large buffer for each of them would take longer than the question.
func enough(read func(b []byte) (int, error)) ([]byte, error) {
	b := make([]byte, usualAttributes)
	n, err := read(b)
	if err == unix.ERANGE {
		b = make([]byte, maxAttributes)
		n, err = read(b)
	}
	if err != nil {
		return nil, err
	}
	return b[:n], nil
}

// Attributes returns the extended attributes.
func (e *Entry) Attributes() (map[string][]byte, error) {
	names, err := enough(func(b []byte) (int, error) { return unix.Llistxattr(e.proc(), b) })
	if err == unix.EOPNOTSUPP || len(names) == 0 && err == nil {
		return nil, nil
	}
	if err != nil {
		return nil, gone(err)
	}
	all := make(map[string][]byte)
	for name := range split(names) {
		value, err := enough(func(b []byte) (int, error) { return unix.Lgetxattr(e.proc(), name, b) })
		if err == unix.ENODATA {
			continue
		}
		if err != nil {
			return nil, gone(err)
		}
		all[name] = value
	}
	return all, nil
}

// split yields the names of a list of attributes.
func split(list []byte) func(func(string) bool) {
	return func(yield func(string) bool) {
		for len(list) > 0 {
			end := slices.Index(list, 0)
			if end < 0 {
				return
			}
			if !yield(string(list[:end])) {
				return
			}
			list = list[end+1:]
		}
	}
}

// gone maps the errors of what was replaced meanwhile to [unix.ENOENT].
func gone(err error) error {
	if err == unix.ENOENT || err == unix.ENOTDIR || err == unix.ELOOP || err == unix.EINVAL {
		return unix.ENOENT
	}
	return err
}

// Walk calls visit for the root and all below it, each directory before what is in it,
// in the order of names. An error of visit that is [unix.ENOENT] leaves the entry out;
// any other ends the walk.
func Walk(ctx context.Context, root string, visit func(*Entry) error) error {
	return walk(ctx, root, 1, visit)
}

// walk is Walk by several workers, which visit what is in one directory at the same time,
// in no order.
func walk(ctx context.Context, root string, workers int, visit func(*Entry) error) error {
	fd, err := unix.Open(root, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: root, Err: err}
	}
	defer unix.Close(fd)
	e := &Entry{Path: ".", dir: fd, name: "."}
	if err := unix.Fstat(fd, &e.Stat); err != nil {
		return err
	}
	if err := visit(e); err != nil {
		return err
	}
	for rest := []string{"."}; len(rest) > 0; {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		dir := rest[len(rest)-1]
		below, err := enter(fd, dir, workers, visit)
		if err != nil {
			return err
		}
		rest = append(rest[:len(rest)-1], below...)
	}
	return nil
}

// below opens a directory of a tree; [unix.ENOENT] if it is none any more, or something
// is mounted there.
func below(root int, dir string, flags uint64) (int, error) {
	how := unix.OpenHow{Flags: flags | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV}
	fd, err := unix.Openat2(root, dir, &how)
	if err == unix.EXDEV {
		err = unix.ENOENT
	}
	if err != nil {
		return -1, gone(err)
	}
	return fd, nil
}

// enter visits what is in a directory, and returns the directories among that, the last
// one first.
func enter(root int, dir string, workers int, visit func(*Entry) error) (dirs []string, err error) {
	fd, err := below(root, dir, unix.O_RDONLY)
	if err == unix.ENOENT {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("directory %.200q: %w", dir, err)
	}
	f := os.NewFile(uintptr(fd), dir)
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("directory %.200q: %w", dir, err)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	isDir := make([]bool, len(names))
	err = share(len(names), workers, func(i int) error {
		e := &Entry{Path: path.Join(dir, names[i]), dir: fd, name: names[i]}
		err := unix.Fstatat(fd, e.name, &e.Stat, unix.AT_SYMLINK_NOFOLLOW)
		if err == nil {
			err = visit(e)
		}
		switch {
		case errors.Is(err, unix.ENOENT):
			return nil
		case err != nil:
			return fmt.Errorf("%.200q: %w", e.Path, err)
		}
		isDir[i] = e.IsDir()
		return nil
	})
	for i, name := range slices.Backward(names) {
		if isDir[i] {
			dirs = append(dirs, path.Join(dir, name))
		}
	}
	return dirs, err
}

// share calls do for the numbers below n, by several workers if there are several numbers.
// An error ends all of it.
func share(n, workers int, do func(int) error) error {
	var next atomic.Int64
	var failed atomic.Pointer[error]
	work := func() {
		for failed.Load() == nil {
			i := int(next.Add(1)) - 1
			if i >= n {
				return
			}
			if err := do(i); err != nil {
				failed.CompareAndSwap(nil, &err)
			}
		}
	}
	var others sync.WaitGroup
	for range min(workers, n) - 1 {
		others.Go(work)
	}
	work()
	others.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}
