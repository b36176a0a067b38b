package rundir

import (
	"errors"
	"io"
	"io/fs"
	"os"
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
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, int64(limit)+1))
	if err == nil && len(b) > limit {
		err = &fs.PathError{Op: "read", Path: path, Err: ErrTooLarge}
	}
	return b, err
}

// Lock takes the lock of d without waiting. The lock lasts until the file is
// closed or the process has ended. ErrLocked means that somebody else has it.
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

// WriteHolder writes h to a held lock file.
func WriteHolder(lock *os.File, h *Holder) error {
	if err := lock.Truncate(0); err != nil {
		return err
	}
	_, err := lock.WriteAt(AppendHolder(nil, h), 0)
	return err
}

// CreateStart makes start.json durable. It fails with fs.ErrExist when there is
// one. The name appears when the content is there, so whoever outlives this
// process finds it complete or not at all; a power failure before CreateStart
// returns may leave it damaged, which readers take for a run that may have been.
func (d Dir) CreateStart(s *Start) error {
	tmp := d.Path(StartFile + ".tmp")
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Write(AppendStart(nil, s)); err != nil {
		return err
	}
	if err := os.Link(tmp, d.Path(StartFile)); err != nil {
		return err
	}
	if err := os.Remove(tmp); err != nil {
		return err
	}
	// The file after the name: a journal takes both in one commit, and the
	// directory's own fsync then finds nothing to do.
	if err := f.Sync(); err != nil {
		return err
	}
	return SyncDir(string(d))
}

// CreateSpec makes spec.json durable in a directory that may be new itself; the
// parents named are made durable with it. It fails with fs.ErrExist when there
// is one.
func (d Dir) CreateSpec(s *Spec, parents ...string) error {
	if err := writeSynced(d.Path(SpecFile), AppendSpec(nil, s), os.O_EXCL); err != nil {
		return err
	}
	for _, dir := range append(parents, string(d)) {
		if err := SyncDir(dir); err != nil {
			return err
		}
	}
	return nil
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

// PublishExit makes exit.json durable. The caller holds the lock.
func (d Dir) PublishExit(x *Exit) error {
	if err := writeSynced(d.Path(exitTmp), AppendExit(nil, x), 0); err != nil {
		return err
	}
	if err := os.Rename(d.Path(exitTmp), d.Path(ExitFile)); err != nil {
		return err
	}
	return SyncDir(string(d))
}

// writeSynced writes b as the whole content of path and fsyncs the file.
func writeSynced(path string, b []byte, flag int) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|unix.O_NOFOLLOW|flag, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(b, 0)
	if err == nil {
		// Not O_TRUNC: that would give back what ReserveExit has taken.
		err = f.Truncate(int64(len(b)))
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
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
