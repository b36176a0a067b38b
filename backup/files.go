package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/runner/rundir"
)

// files is where backups lie: a directory, or a bucket. Several processes and hosts may use
// one at the same time. What is away for now is container.ErrUnavailable.
type files interface {
	// names are those of the backups, in no order.
	names(ctx context.Context) ([]string, error)
	// open opens a backup; one that is not there is container.ErrNotFound. ctx ends reading,
	// too.
	open(ctx context.Context, name string) (file, error)
	// put has write make a backup. It appears under its name when all of it is there for good,
	// and replaces none: container.ErrExists. One that is being made by this host is
	// container.ErrBusy.
	put(ctx context.Context, name string, write func(to io.Writer) error) (size int64, err error)
	// remove removes a backup; one that is not there is container.ErrNotFound.
	remove(ctx context.Context, name string) error
	// debris is what a process has left that is gone. Where the files of other hosts lie, too,
	// it was written last before a time; of zero, at any time.
	debris(ctx context.Context, repair bool, before time.Time) ([]container.Debris, error)
	// note is the file of this host beside it that tells when a backup was verified.
	note(name string) string
}

// file is a backup that is read.
type file interface {
	io.ReaderAt
	io.Closer
	stat() stat
}

// stat tells whether a file is still the one that was looked at.
type stat struct {
	size    int64
	changed int64  // when, in Unix nanoseconds
	etag    string // of an object
}

func noBackup(name string) error {
	return fmt.Errorf("%w: this host has no backup %s; see which there are: hostler backup ls", container.ErrNotFound, name)
}

func exists(name string) error {
	return fmt.Errorf("%w: a backup %s is there already; choose another name", container.ErrExists, name)
}

// directory is files of a directory: the host's own, which is made when it is needed, or that
// of a target, which is never made.
type directory struct {
	path string
	own  bool
}

func (d directory) file(name string) string { return filepath.Join(d.path, name+suffix) }

func (d directory) note(name string) string { return filepath.Join(d.path, ".verified-"+name) }

func (d directory) names(context.Context) (all []string, err error) {
	entries, err := os.ReadDir(d.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), suffix); ok {
			all = append(all, name)
		}
	}
	return all, err
}

// local is a file of this machine, or of one that it has mounted.
type local struct {
	*os.File
	info fs.FileInfo
}

func (l local) stat() stat { return stat{size: l.info.Size(), changed: l.info.ModTime().UnixNano()} }

// open opens nothing that is no regular file.
func (d directory) open(_ context.Context, name string) (file, error) {
	path := d.file(name)
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, noBackup(name)
	}
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	f := os.NewFile(uintptr(fd), path)
	i, err := f.Stat()
	if err != nil || !i.Mode().IsRegular() {
		return nil, errors.Join(fmt.Errorf("%w: %s is no regular file", ErrArchive, path), err, f.Close())
	}
	return local{f, i}, nil
}

// A backup leaves so many bytes of the disk free, for the agent and the host. It looks
// again each time it has written so many, and has the kernel write them to the disk: the sync
// at the end finds little that is left.
const (
	reserve   = 256 << 20
	lookEvery = 16 << 20
)

// sparing writes to a file as long as the disk has room for others.
type sparing struct {
	to   *os.File
	left int // until the next look
}

func (s *sparing) Write(b []byte) (int, error) {
	if s.left -= len(b); s.left <= 0 {
		s.left = lookEvery
		var disk unix.Statfs_t
		if err := unix.Fstatfs(int(s.to.Fd()), &disk); err != nil {
			return 0, &os.PathError{Op: "statfs", Path: s.to.Name(), Err: err}
		}
		if int64(disk.Bavail)*disk.Bsize < reserve+lookEvery {
			return 0, fmt.Errorf("%w: a backup leaves %d MiB of the disk free", unix.ENOSPC, reserve>>20)
		}
		_ = unix.SyncFileRange(int(s.to.Fd()), 0, 0, unix.SYNC_FILE_RANGE_WRITE) // the sync at the end is what counts
	}
	return s.to.Write(b)
}

// stage has write make a file that is no backup yet, whose lock says that it is being made.
func (d directory) stage(ctx context.Context, name string, write func(to io.Writer) error) (f *os.File, err error) {
	if d.own {
		if err := os.MkdirAll(d.path, 0o700); err != nil {
			return nil, err
		}
	}
	if _, err := d.debris(ctx, true, time.Time{}); err != nil {
		return nil, err
	}
	staging := filepath.Join(d.path, unfinished+name)
	f, err = os.OpenFile(staging, os.O_CREATE|os.O_EXCL|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("%w: a backup of that name is being made", container.ErrBusy)
	}
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil { // it says that it is being made
		return nil, errors.Join(&os.PathError{Op: "flock", Path: staging, Err: err}, f.Close())
	}
	if err := write(&sparing{to: f}); err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(staging))
	}
	return f, nil
}

func (d directory) put(ctx context.Context, name string, write func(to io.Writer) error) (int64, error) {
	path := d.file(name)
	if _, err := os.Lstat(path); err == nil {
		return 0, exists(name)
	}
	f, err := d.stage(ctx, name, write)
	if err != nil {
		return 0, err
	}
	if err := f.Sync(); err != nil {
		return 0, errors.Join(fmt.Errorf("backup %s: %w", name, err), f.Close(), os.Remove(f.Name()))
	}
	failpoint.Before(failpoint.BackupKept)
	if err := place(f.Name(), path, renameNew); err != nil {
		return 0, errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	i, err := f.Stat()
	if err := errors.Join(err, f.Close()); err != nil { // until here its lock keeps it from being taken for debris
		return 0, err
	}
	if err := rundir.SyncDir(d.path); err != nil {
		return 0, err
	}
	failpoint.After(failpoint.BackupKept)
	return i.Size(), nil
}

// place gives a file another name, and replaces none that bears it. NFS knows no
// rename that replaces nothing, and calls it EINVAL: there the file has both names for a
// moment. Of one that a crash leaves with both, the first is debris.
func place(from, to string, rename func(from, to string) error) error {
	err := rename(from, to)
	if errors.Is(err, unix.EINVAL) {
		if err = os.Link(from, to); err == nil {
			err = os.Remove(from)
		}
	}
	return err
}

// renameNew renames a file, and replaces none.
func renameNew(from, to string) error {
	if err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE); err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	return nil
}

func (d directory) remove(_ context.Context, name string) error {
	if err := os.Remove(d.file(name)); errors.Is(err, fs.ErrNotExist) {
		return noBackup(name)
	} else if err != nil {
		return err
	}
	return rundir.SyncDir(d.path)
}

// openDebris opens an unfinished backup for writing: NFS gives an exclusive lock on no other
// file.
func openDebris(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW, 0)
}

// left reports whether an unfinished backup is there that no process writes.
func left(path string) (bool, error) {
	f, err := openDebris(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	gone := err == nil
	if errors.Is(err, unix.EWOULDBLOCK) { // it is being written
		err = nil
	} else if err != nil {
		err = &os.PathError{Op: "flock", Path: path, Err: err}
	}
	return gone, errors.Join(err, f.Close())
}

func (d directory) debris(_ context.Context, repair bool, before time.Time) (all []container.Debris, err error) {
	entries, err := os.ReadDir(d.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		path := filepath.Join(d.path, e.Name())
		name, is := strings.CutPrefix(e.Name(), unfinished)
		if _, of, staged := strings.Cut(name, ":"); staged { // on its way to a bucket, see objects.here
			name = of
		}
		if !is || container.CheckSnapshot(name) != nil || !e.Type().IsRegular() {
			continue
		}
		if i, bad := e.Info(); bad != nil || !before.IsZero() && i.ModTime().After(before) {
			continue // it is gone, or may be written
		}
		gone, bad := left(path)
		if err = errors.Join(err, bad); gone {
			all = append(all, halfBackup(path, repair, func() error { return os.Remove(path) }))
		}
	}
	return all, err
}

func halfBackup(object string, repair bool, remove func() error) container.Debris {
	d := container.Debris{Kind: "half backup", Object: object, Cause: "the backup was cut short, and no process writes it", Repair: "remove it"}
	if repair {
		d.Mend(remove)
	}
	return d
}
