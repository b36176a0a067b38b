package supervise

import (
	"errors"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/internal/space"
	"github.com/hostler-io/hostler/runner/rundir"
)

// pipeSize is how much the command may be ahead of its supervisor, in bytes,
// and the most that one read takes.
const pipeSize = 256 << 10

// alwaysKept is how much of each stream is written however full the disk is, in
// bytes. The rest stops before it takes the room for the ends of commands.
const alwaysKept = 64 << 10

// errSpared is why the rest of an output was not kept.
var errSpared = wrap("the disk of the host is nearly full", unix.ENOSPC)

// A stream moves what the command writes from its pipe into the file. A full disk
// or a reached cap costs bytes of the record, and never a command that hangs in
// write, unless it is to wait until they are safe elsewhere: then nothing is
// read that would drop untaken bytes, as long as there is a follower. Every
// byte is written at its true offset; what Keep drops is punched out behind it.
// After drain was started, only its goroutine touches what is not said to be
// shared, until close has returned.
type stream struct {
	path string
	file *os.File // nil before the first byte: most commands leave one stream silent
	keep rundir.Keep
	read *os.File // our end of the pipe
	done chan struct{}
	tap  func(p []byte) (notice string) // sees what is read, and may add to it; nil is none

	seen    int64 // bytes the command wrote
	size    int64 // bytes the file accounts for: seen, until a write failed
	punched int64 // end of what was punched out
	lostAt  int64 // of bytes that were dropped before they were taken
	lostTo  int64
	err     error // why writing has ended early

	patience time.Duration // 0: the command never waits
	clock    Clock
	ending   chan struct{} // closed when the command has ended
	shared   struct {
		sync.Mutex
		taken  int64         // all before it is safe elsewhere
		told   time.Duration // when a follower last said so, or the command began
		waiter chan struct{} // closed at the next credit; nil without a waiter
	}
}

func newStream(path string, keep rundir.Keep) *stream {
	return &stream{path: path, keep: keep, done: make(chan struct{}), ending: make(chan struct{}), clock: bootClock{}}
}

// waits makes the command wait for those who follow it. It counts from now on.
func (s *stream) waits(patience time.Duration, clock Clock) {
	s.patience, s.clock = patience, clock
	s.shared.told = clock.Now()
}

// credit notes that all before taken is safe elsewhere, and that there is
// a follower. It may be called at any time by any goroutine.
func (s *stream) credit(taken int64) {
	s.shared.Lock()
	defer s.shared.Unlock()
	s.shared.taken = max(s.shared.taken, taken)
	s.shared.told = s.clock.Now()
	if s.shared.waiter != nil {
		close(s.shared.waiter)
		s.shared.waiter = nil
	}
}

func (s *stream) taken() int64 {
	s.shared.Lock()
	defer s.shared.Unlock()
	return s.shared.taken
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
	// /dev/stderr, as scripts do. No other process can reach the pipe.
	_ = unix.Fchmod(fds[1], 0o622)
	// Our end alone: the flag belongs to the open file, and a command does not
	// expect a non-blocking stdout.
	err := unix.SetNonblock(fds[0], true)
	s.read = os.NewFile(uintptr(fds[0]), "pipe")
	return os.NewFile(uintptr(fds[1]), "pipe"), err
}

// drain reads the pipe to its end, or until endBy's deadline. A terminal's end is
// an error of its own, when no process holds the other side any more.
func (s *stream) drain() {
	defer close(s.done)
	if s.read == nil {
		return // there is no such stream
	}
	buf := make([]byte, pipeSize)
	for {
		n, err := s.read.Read(buf[:s.room()])
		s.take(buf[:n])
		if s.tap != nil {
			s.take([]byte(s.tap(buf[:n])))
		}
		if err != nil {
			return // EOF or the deadline
		}
	}
}

// room waits until something may be read, and returns how much. As much as the
// pipe holds is left free: it is read when the command has ended, without waiting
// for followers.
func (s *stream) room() int64 {
	for s.patience > 0 && s.keep.Tail > 0 && s.err == nil {
		s.shared.Lock()
		room := s.keep.Room(s.shared.taken) - s.size
		left := s.patience - (s.clock.Now() - s.shared.told)
		if room <= pipeSize && left > 0 && s.shared.waiter == nil {
			s.shared.waiter = make(chan struct{})
		}
		waiter := s.shared.waiter
		s.shared.Unlock()
		select {
		case <-s.ending:
			if room <= 0 {
				return pipeSize
			}
			return min(room, pipeSize)
		default:
		}
		if room > pipeSize {
			return min(room-pipeSize, pipeSize)
		}
		if left <= 0 || !s.await(waiter, left) {
			return pipeSize // without a follower it is kept
		}
	}
	return pipeSize
}

// await waits for the next credit, or the end. False means that the time cannot
// be told.
func (s *stream) await(credit <-chan struct{}, left time.Duration) bool {
	over, stop, err := s.clock.After(left)
	if err != nil {
		return false
	}
	defer stop()
	select {
	case <-credit:
	case <-s.ending:
	case <-over:
	}
	return true
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
	if s.size >= alwaysKept {
		if at, err := space.OfFile(s.file.Fd()); err == nil && !at.Spare() {
			s.err = errSpared
			return
		}
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
		s.lose(from, to)
	}
	return err
}

// lose accounts for bytes that are dropped: those that are safe elsewhere are not
// lost.
func (s *stream) lose(from, to int64) {
	if from = max(from, s.taken()); from >= to {
		return
	}
	if s.lostTo == 0 {
		s.lostAt = from
	}
	s.lostTo = to
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
	s.lose(s.keep.Head, s.seen) // it was never there to be taken
	s.size = s.seen
	return nil
}

// endBy makes drain end at the deadline at the latest, without waiting for followers.
func (s *stream) endBy(deadline time.Time) {
	close(s.ending)
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
	return rundir.Stream{Bytes: s.seen, LostBytes: s.seen - s.size, DroppedAt: s.lostAt, DroppedBytes: s.lostTo - s.lostAt}
}
