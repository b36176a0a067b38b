package rundir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// Dir is the path of one run directory.
type Dir string

// Path returns the path of the file name in d.
func (d Dir) Path(name string) string { return string(d) + "/" + name }

// Has reports whether the file name exists in d.
func (d Dir) Has(name string) bool {
	var st unix.Stat_t
	return unix.Lstat(d.Path(name), &st) == nil
}

// Spec reads spec.json.
func (d Dir) Spec() (*Spec, error) { return load(d, SpecFile, MaxSpec, ParseSpec) }

// Start reads start.json. Its absence is fs.ErrNotExist.
func (d Dir) Start() (*Start, error) { return load(d, StartFile, MaxRecord, ParseStart) }

// Exit reads exit.json. Its absence is fs.ErrNotExist.
func (d Dir) Exit() (*Exit, error) { return load(d, ExitFile, MaxRecord, ParseExit) }

// Holder reads the lock file. It is meaningful only while the lock is held;
// between taking the lock and writing the file it gives ErrFormat.
func (d Dir) Holder() (*Holder, error) { return load(d, LockFile, MaxRecord, ParseHolder) }

func load[T any](d Dir, name string, limit int, parse func([]byte) (*T, error)) (*T, error) {
	b, err := ReadCapped(d.Path(name), limit)
	if err != nil {
		return nil, err
	}
	v, err := parse(b)
	if err != nil {
		return nil, &fs.PathError{Op: "read", Path: d.Path(name), Err: err}
	}
	return v, nil
}

// ReadCapped returns the content of a regular file of at most limit bytes;
// a larger one gives ErrTooLarge. It never blocks on a FIFO.
func ReadCapped(path string, limit int) ([]byte, error) {
	// Package os would try to wait for such files by epoll: three calls more for each
	// of the dozen that a supervisor reads.
	var fd int
	err := again(func() (err error) {
		fd, err = unix.Open(path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	b := make([]byte, 0, 512)
	for len(b) <= limit {
		b = slices.Grow(b, 1)
		var n int
		err := again(func() (err error) {
			n, err = unix.Read(fd, b[len(b):min(cap(b), limit+1)])
			return err
		})
		if err != nil {
			return b, &fs.PathError{Op: "read", Path: path, Err: err}
		}
		if n == 0 {
			return b, nil
		}
		b = b[:len(b)+n]
	}
	return b, &fs.PathError{Op: "read", Path: path, Err: ErrTooLarge}
}

// Lock takes the lock of d without waiting. The lock lasts until Unlock or until
// the process has ended. ErrLocked means that another process has it.
func (d Dir) Lock() (*os.File, error) {
	f, err := os.OpenFile(d.Path(LockFile), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = ErrLocked
		}
		return nil, &fs.PathError{Op: "lock", Path: f.Name(), Err: err}
	}
	return f, nil
}

// Unlock gives back a lock. A mere Close would leave it with a process that is
// being forked at this moment and has not come to its exec yet.
func Unlock(lock *os.File) {
	_ = unix.Flock(int(lock.Fd()), unix.LOCK_UN) // cannot fail on an open file
	lock.Close()
}

// WriteHolder writes h to a held lock file.
func WriteHolder(lock *os.File, h *Holder) error {
	if err := lock.Truncate(0); err != nil {
		return err
	}
	_, err := lock.WriteAt(AppendHolder(nil, h), 0)
	return err
}

// CreateStart makes start.json durable, with the names of d and of its action's
// directory. It fails with fs.ErrExist when there is one. The name appears when the
// content is there, so a process that outlives this one finds it complete or not at
// all; a power failure before CreateStart returns may leave it damaged, which
// readers take for a run that may have been.
func (d Dir) CreateStart(s *Start) error {
	tmp := d.Path(StartFile + ".tmp")
	f, err := WriteCapped(tmp, AppendStart(nil, s), 0, MaxRecord)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := os.Link(tmp, d.Path(StartFile)); err != nil {
		return err
	}
	if err := os.Remove(tmp); err != nil {
		return err
	}
	// The file after all names: a journal takes everything in one commit, and
	// the fsyncs of the directories then find nothing to do.
	if err := f.Sync(); err != nil {
		return err
	}
	action := filepath.Dir(string(d))
	for _, dir := range []string{string(d), action, filepath.Dir(action)} {
		if err := SyncDir(dir); err != nil {
			return err
		}
	}
	return nil
}

// CreateSpec writes spec.json. It fails with fs.ErrExist when there is one. It is
// not durable, and need not be: it is read by a supervisor of this boot alone, and
// what a power failure leaves without start.json never began.
func (d Dir) CreateSpec(s *Spec) error {
	f, err := WriteCapped(d.Path(SpecFile), AppendSpec(nil, s), os.O_EXCL, MaxSpec)
	if err != nil {
		return err
	}
	return f.Close()
}

const exitTmp = ExitFile + ".tmp"

// ReserveExit takes the disk space of exit.json in advance, so that a command
// that fills the disk cannot keep its own end from being recorded.
func (d Dir) ReserveExit() error {
	f, err := os.OpenFile(d.Path(exitTmp), os.O_WRONLY|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	err = unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, 2*MaxDetail)
	if errors.Is(err, unix.EOPNOTSUPP) {
		err = nil // then the promise is as good as the file system
	}
	return errors.Join(err, f.Close())
}

// PublishExit makes exit.json durable. The caller holds the lock. The name
// appears before that, so that a caller that waits need not wait for the disk; what is
// concluded from it becomes durable in its own way. A power failure in between may
// leave it damaged, or take it back: then the run has ended with the machine.
func (d Dir) PublishExit(x *Exit) error {
	f, err := WriteCapped(d.Path(exitTmp), AppendExit(nil, x), 0, MaxRecord)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := Rename(d.Path(exitTmp), d.Path(ExitFile)); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	return SyncDir(string(d))
}

// WriteCapped writes b as the whole content of path, for its owner alone, and returns the
// file: what it holds is durable once the caller has synced it. The flags are added to
// those of a file that is made or overwritten. More than limit bytes, the limit that the
// file is read with, give ErrTooLarge and change nothing.
func WriteCapped(path string, b []byte, flag, limit int) (*os.File, error) {
	if len(b) > limit {
		return nil, &fs.PathError{Op: "write", Path: path, Err: ErrTooLarge}
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|unix.O_NOFOLLOW|flag, 0o600)
	if err != nil {
		return nil, err
	}
	_, err = f.WriteAt(b, 0)
	if err == nil {
		// Not O_TRUNC: that would give back what ReserveExit has taken.
		err = f.Truncate(int64(len(b)))
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// SyncDir makes the names in a directory durable.
func SyncDir(path string) error {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// SocketPath returns a path for the socket name in the open directory dir that
// is short enough for its address, however long the path of dir is.
func SocketPath(dir *os.File, name string) string {
	return "/proc/self/fd/" + strconv.Itoa(int(dir.Fd())) + "/" + name
}
