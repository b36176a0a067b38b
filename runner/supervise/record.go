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
	"github.com/hostler-io/hostler/terminal"
)

// A recorder keeps a recording of a terminal. When it cannot go on, it says so, and
// what was recorded until then stays. A nil recorder records nothing.
type recorder struct {
	path  string
	clock Clock
	limit int64         // of the file, in bytes
	lost  chan struct{} // closed when the recording has ended early

	mu    sync.Mutex
	file  *os.File
	cast  terminal.Cast
	begun time.Duration // of the clock
	size  int64
	buf   []byte
	err   error // why it has ended early
}

// errRecordingFull is the end of a recording at its limit.
var errRecordingFull = errors.New("it has come to its limit")

// newRecorder begins a recording, if one is wanted.
func newRecorder(dir rundir.Dir, t *rundir.Terminal, term string, clock Clock) *recorder {
	if t.RecordBytes == 0 {
		return nil
	}
	r := &recorder{path: dir.Path(rundir.StreamFile(rundir.Recording)), clock: clock, limit: t.RecordBytes, lost: make(chan struct{}), begun: clock.Now()}
	f, err := os.OpenFile(r.path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		r.fail(err)
		return r
	}
	r.file = f
	size := terminal.Size{Rows: uint16(t.Rows), Cols: uint16(t.Cols)}
	r.write(r.cast.AppendHeader(nil, size, time.Now().Unix(), term))
	return r
}

// output records what was printed. It returns what is to be told to who sits there:
// that the recording has ended, once.
func (r *recorder) output(p []byte) (notice string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil || len(p) == 0 {
		return ""
	}
	r.write(r.cast.AppendOutput(r.buf[:0], r.clock.Now()-r.begun, p))
	if r.err != nil {
		return "\r\nhostler: the recording of this session has ended: " + r.err.Error() + "\r\n"
	}
	return ""
}

// resized records a new size of the window.
func (r *recorder) resized(s terminal.Size) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.write(r.cast.AppendResize(r.buf[:0], r.clock.Now()-r.begun, s))
	}
}

// write appends whole lines. It is called with mu held.
func (r *recorder) write(lines []byte) {
	r.buf = lines[:0]
	if r.size+int64(len(lines)) > r.limit {
		r.fail(errRecordingFull)
		return
	}
	if at, err := space.OfFile(r.file.Fd()); err == nil && !at.Spare() {
		r.fail(errSpared)
		return
	}
	if _, err := r.file.WriteAt(lines, r.size); err != nil {
		r.fail(errors.Join(err, r.file.Truncate(r.size))) // half a line is none
		return
	}
	r.size += int64(len(lines))
}

func (r *recorder) fail(err error) {
	r.err = err
	close(r.lost)
}

// close makes the recording durable. It returns why it has ended early.
func (r *recorder) close() error {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.write(r.cast.AppendEnd(r.buf[:0], r.clock.Now()-r.begun))
	}
	if r.file == nil {
		return r.err
	}
	failpoint.Before(failpoint.OutputSynced)
	err := unix.Fdatasync(int(r.file.Fd()))
	failpoint.After(failpoint.OutputSynced)
	return errors.Join(r.err, err, r.file.Close())
}

// greeting tells who begins a session whether it is recorded.
func (r *recorder) greeting() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return "hostler: this session is not recorded: " + r.err.Error() + "\r\n"
	}
	return "hostler: this session is recorded: what is printed, and when; not what is typed unseen\r\n"
}
