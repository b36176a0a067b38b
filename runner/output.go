package runner

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"

	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/runner/rundir"
)

// A DroppedError says that a part of a stream is not kept: the cap dropped the
// bytes [From, To), or the disk was full. Reading goes on at To.
type DroppedError struct {
	From, To int64 // offsets in the stream, in bytes
}

func (e *DroppedError) Error() string {
	return fmt.Sprintf("%d bytes at offset %d were dropped", e.To-e.From, e.From)
}

// Output reads one stream of a run, whether the command runs, has ended, or has
// not begun. Offsets are those of the stream that the command wrote, whatever
// was dropped of it. One goroutine uses it at a time.
type Output struct {
	dir  rundir.Dir
	name string
	fd   int
	file *os.File // nil until the supervisor has made it, with the first byte
	keep rundir.Keep
	exit *rundir.Exit // nil until it is recorded, and never changed
}

// Output opens the stream fd (rundir.Stdout and so on) of a run, of this
// Runner or of one before a restart. Close must be called.
func (r *Runner) Output(action string, attempt, fd int) (*Output, error) {
	if !rundir.ValidAction(action) || attempt < 1 || fd < rundir.Stdout || fd > rundir.Recording {
		return nil, fmt.Errorf("opening output %d of run %q/%d: no such stream", fd, action, attempt)
	}
	o := &Output{dir: r.dir(action, attempt), name: rundir.StreamFile(fd), fd: fd}
	if _, err := os.Stat(string(o.dir)); err != nil {
		return nil, fmt.Errorf("opening output %d of run %s/%d: %w", fd, action, attempt, err)
	}
	return o, nil
}

// ReadAt reads len(p) bytes of the stream from offset off, as io.ReaderAt. At a
// part that was dropped it returns what is before it and a *DroppedError, at the
// present end io.EOF: more may follow unless the run is over.
func (o *Output) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, fmt.Errorf("reading %s: negative offset", o.name)
	}
	if ok, err := o.open(); err != nil {
		return 0, err
	} else if !ok {
		return 0, o.atEnd(io.EOF, off)
	}
	n := 0
	if head := o.keep.Head - off; head > 0 {
		var err error
		n, err = o.file.ReadAt(p[:min(int64(len(p)), head)], off)
		if err != nil {
			return n, o.atEnd(err, off+int64(n))
		}
	}
	if n == len(p) {
		return n, nil
	}
	off += int64(n)
	m, err := o.file.ReadAt(p[n:], off)
	// The size is taken after the bytes: whatever was dropped under our hands
	// is dropped at this size.
	info, statErr := o.file.Stat()
	if statErr != nil {
		return n, statErr
	}
	if from, to := o.keep.Dropped(info.Size()); off >= from && off < to {
		return n, &DroppedError{off, to}
	}
	return n + m, o.atEnd(err, off+int64(m))
}

// atEnd replaces io.EOF where the disk was full and the stream went on.
func (o *Output) atEnd(err error, off int64) error {
	if err != io.EOF {
		return err
	}
	s, ok, err := o.end()
	switch {
	case err != nil:
		return err
	case ok && s.LostBytes > 0 && off >= s.Bytes-s.LostBytes && off < s.Bytes:
		return &DroppedError{off, s.Bytes}
	}
	return io.EOF
}

// Size returns how many bytes the command has written up to now, dropped ones
// included.
func (o *Output) Size() (int64, error) {
	if s, ok, err := o.end(); ok || err != nil {
		return s.Bytes, err
	}
	if ok, err := o.open(); err != nil || !ok {
		return 0, err
	}
	info, err := o.file.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// Account returns what became of the stream up to now: finally once the run is
// over, and of one whose supervisor died what it has left in the file.
func (o *Output) Account() (rundir.Stream, error) {
	if s, ok, err := o.end(); ok || err != nil {
		return s, err
	}
	size, err := o.Size()
	if err != nil || size == 0 {
		return rundir.Stream{}, err
	}
	s := rundir.Stream{Bytes: size}
	if from, to := o.keep.Dropped(size); from < to {
		s.DroppedAt, s.DroppedBytes = from, to-from
	}
	return s, nil
}

// end returns the final account of the stream, if there is one. Of a recording its file
// says it all.
func (o *Output) end() (s rundir.Stream, ok bool, err error) {
	if o.fd == rundir.Recording {
		return s, false, nil
	}
	if o.exit == nil {
		o.exit, err = o.dir.Exit()
		if errors.Is(err, fs.ErrNotExist) {
			return s, false, nil
		}
		if err != nil {
			return s, false, err
		}
	}
	if o.fd == rundir.Stderr {
		return o.exit.Stderr, true, nil
	}
	return o.exit.Stdout, true, nil
}

// open opens the file and reads the rule by which it is kept, once they exist.
func (o *Output) open() (bool, error) {
	if o.file != nil {
		return true, nil
	}
	// First: most streams are silent, and start.json is there long before.
	f, err := os.OpenFile(o.dir.Path(o.name), os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	start, err := o.dir.Start()
	if err != nil {
		f.Close()
		return false, err
	}
	o.file, o.keep = f, start.Keep
	if o.fd == rundir.Recording {
		o.keep = rundir.Keep{Head: math.MaxInt64} // it ends at its limit, and nothing of it is dropped
	}
	return true, nil
}

// Close releases the file.
func (o *Output) Close() error {
	if o.file == nil {
		return nil
	}
	return o.file.Close()
}
