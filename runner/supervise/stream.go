package supervise

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/runner/rundir"
)

// pipeSize is how much the command may be ahead of its supervisor, in bytes,
// and the most that one read takes.
const pipeSize = 256 << 10

// A stream moves what the command writes from its pipe into the file, always:
// a full disk or a reached cap costs bytes of the record, never a command that
// hangs in write. Every byte is written at its true offset; what Keep drops is
// punched out behind it. After drain was started, only its goroutine touches
// the stream until close has returned.
type stream struct {
	path string
	file *os.File // nil before the first byte: most commands leave one stream silent
	keep rundir.Keep
	read *os.File // our end of the pipe
	done chan struct{}

	seen    int64 // bytes the command wrote
	size    int64 // bytes the file accounts for: seen, until a write failed
	punched int64 // end of what was punched out
	err     error // why writing has ended early
}

func newStream(path string, keep rundir.Keep) *stream {
	return &stream{path: path, keep: keep, done: make(chan struct{})}
}

// open makes the file, if there is none yet.
func (s *stream) open() (err error) {
	if s.file == nil {
		s.file, err = os.OpenFile(s.path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o600)
	}
	return err
}

// canPunch reports whether the file system of f, a file of less than a page, knows
// holes. One beyond its end changes nothing.
func canPunch(f *os.File) bool { return punch(f, 4096, 8192) == nil }

func punch(f *os.File, from, to int64) error {
	return unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, from, to-from)
}

// pipe makes the pipe and returns the command's end.
func (s *stream) pipe() (*os.File, error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, err
	}
	// Best effort: unprivileged users have a limit on the sum of their pipes.
	_, _ = unix.FcntlInt(uintptr(fds[0]), unix.F_SETPIPE_SZ, pipeSize)
	// A command of another user may open its output once more, by the name
	// /dev/stderr, as scripts do. Nobody else can reach the pipe.
	_ = unix.Fchmod(fds[1], 0o622)
	// Our end alone: the flag belongs to the open file, and a command does not
	// expect a non-blocking stdout.
	err := unix.SetNonblock(fds[0], true)
	s.read = os.NewFile(uintptr(fds[0]), "pipe")
	return os.NewFile(uintptr(fds[1]), "pipe"), err
}

// drain reads the pipe to its end, or until endBy's deadline. A terminal's end is
// an error of its own, when nobody holds the other side any more.
func (s *stream) drain() {
	defer close(s.done)
	if s.read == nil {
		return // there is no such stream
	}
	buf := make([]byte, pipeSize)
	for {
		n, err := s.read.Read(buf)
		s.take(buf[:n])
		if err != nil {
			return // EOF or the deadline
		}
	}
}

// take accounts for p and writes what is to be kept of it.
func (s *stream) take(p []byte) {
	s.seen += int64(len(p))
	if len(p) == 0 || s.err != nil {
		return
	}
	if s.err = s.open(); s.err != nil {
		return
	}
	if s.keep.Tail == 0 {
		s.err = s.writeHead(p)
	} else {
		s.err = s.writeAll(p)
	}
	if s.err != nil {
		// A write that fails may leave more than it admits.
		s.err = errors.Join(s.err, s.file.Truncate(s.size))
	}
}

func (s *stream) writeAll(p []byte) error {
	n, err := s.file.WriteAt(p, s.size)
	s.size += int64(n)
	if err != nil {
		return err
	}
	from, to := s.keep.Dropped(s.size)
	if from = max(from, s.punched); from < to {
		err = punch(s.file, from, to)
		s.punched = to
	}
	return err
}

// writeHead is for file systems that cannot punch holes: what lies behind the
// head becomes a hole by never being written.
func (s *stream) writeHead(p []byte) error {
	if room := s.keep.Head - s.size; room > 0 {
		n, err := s.file.WriteAt(p[:min(room, int64(len(p)))], s.size)
		s.size += int64(n)
		if err != nil {
			return err
		}
	}
	if s.size == s.seen {
		return nil
	}
	if err := s.file.Truncate(s.seen); err != nil {
		return err
	}
	s.size = s.seen
	return nil
}

// endBy makes drain end at the deadline at the latest.
func (s *stream) endBy(deadline time.Time) {
	if s.read != nil {
		_ = s.read.SetReadDeadline(deadline)
	}
}

// close waits for drain and makes the content of the file durable; its name becomes
// so with that of exit.json. It returns why bytes were lost.
func (s *stream) close() error {
	<-s.done
	err := s.err
	if s.size > 0 {
		failpoint.Before(failpoint.OutputSynced)
		err = errors.Join(err, unix.Fdatasync(int(s.file.Fd())))
		failpoint.After(failpoint.OutputSynced)
	}
	if s.file != nil {
		err = errors.Join(err, s.file.Close())
	}
	if s.read != nil {
		err = errors.Join(err, s.read.Close())
	}
	return err
}

// result may be called after close.
func (s *stream) result() rundir.Stream {
	r := rundir.Stream{Bytes: s.seen, LostBytes: s.seen - s.size}
	if from, to := s.keep.Dropped(s.size); from < to {
		r.DroppedAt, r.DroppedBytes = from, to-from
	}
	return r
}
