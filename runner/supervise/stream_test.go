package supervise

import (
	"bytes"
	"errors"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/runner/rundir"
)

// pattern returns the bytes [from, to) of a stream that repeats at no power of two.
func pattern(from, to int64) []byte {
	b := make([]byte, to-from)
	for i := range b {
		b[i] = byte((from + int64(i)) % 251)
	}
	return b
}

func feed(s *stream, total int64, chunk int64) {
	for at := int64(0); at < total; at += chunk {
		s.take(pattern(at, min(at+chunk, total)))
	}
}

func TestStreamKeepsHeadAndTail(t *testing.T) {
	const limit, total = rundir.MinCap, 5*rundir.MinCap + 4321
	path := t.TempDir() + "/stdout"
	s := newStream(path, rundir.NewKeep(limit, true))
	feed(s, total, 7777)
	r := s.result()
	if r.Bytes != total || r.LostBytes != 0 || r.Bytes-r.DroppedBytes > limit || r.DroppedBytes == 0 {
		t.Errorf("%+v", r)
	}
	got, err := os.ReadFile(path)
	if err != nil || int64(len(got)) != total {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	end := r.DroppedAt + r.DroppedBytes
	if !bytes.Equal(got[:r.DroppedAt], pattern(0, r.DroppedAt)) || !bytes.Equal(got[end:], pattern(end, total)) {
		t.Error("what is kept differs from what was written")
	}
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil || st.Blocks*512 > limit+64<<10 {
		t.Errorf("%d bytes on disk, %v", st.Blocks*512, err)
	}
}

// A stream of exactly the cap is whole, one byte more costs its middle.
func TestStreamOfExactlyTheCap(t *testing.T) {
	const limit = rundir.DefaultCap
	path := t.TempDir() + "/stdout"
	s := newStream(path, rundir.NewKeep(limit, true))
	feed(s, limit, 60_000)
	if r := s.result(); r != (rundir.Stream{Bytes: limit}) {
		t.Errorf("%+v", r)
	}
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, pattern(0, limit)) {
		t.Errorf("%d bytes, %v, or they are others", len(got), err)
	}
	s.take([]byte("x"))
	if r := s.result(); r.DroppedBytes == 0 || r.Bytes-r.DroppedBytes > limit {
		t.Errorf("with one byte more: %+v", r)
	}
}

// What was taken before it was dropped is not lost.
func TestStreamCountsWhatNobodyHadTaken(t *testing.T) {
	const limit, taken, total = rundir.MinCap, 3*rundir.MinCap + 17, 5 * rundir.MinCap
	s := newStream(t.TempDir()+"/stdout", rundir.NewKeep(limit, true))
	feed(s, taken, 7777)
	before := s.result()
	s.credit(taken)
	s.credit(1) // an older one that comes late
	feed(s, total-taken, 7777)
	_, to := s.keep.Dropped(total)
	if r := s.result(); r.DroppedAt != s.keep.Head || r.DroppedAt+r.DroppedBytes != to || before.DroppedBytes == 0 {
		t.Errorf("%+v, before the credit %+v", r, before)
	}
	s = newStream(t.TempDir()+"/stdout", rundir.NewKeep(limit, true))
	s.credit(total)
	feed(s, total, 7777)
	if r := s.result(); r != (rundir.Stream{Bytes: total}) {
		t.Errorf("everything was taken: %+v", r)
	}
}

func TestStreamWithoutHoles(t *testing.T) {
	const limit, total = rundir.MinCap, 3*rundir.MinCap + 1
	path := t.TempDir() + "/stdout"
	s := newStream(path, rundir.NewKeep(limit, false))
	feed(s, total, 10_000)
	want := rundir.Stream{Bytes: total, DroppedAt: s.keep.Head, DroppedBytes: total - s.keep.Head}
	if r := s.result(); r != want {
		t.Errorf("got %+v, want %+v", r, want)
	}
	got, err := os.ReadFile(path)
	if err != nil || int64(len(got)) != total || !bytes.Equal(got[:s.keep.Head], pattern(0, s.keep.Head)) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

// A full disk costs bytes of the record, and every one of them is counted.
func TestStreamFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=128k"); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(dir, 0)
	s := newStream(dir+"/stdout", rundir.NewKeep(rundir.MinCap, true))
	defer func() { s.file.Close() }()
	feed(s, 300_000, 10_000)
	r := s.result()
	if r.Bytes != 300_000 || r.LostBytes == 0 || r.DroppedBytes != 0 || !errors.Is(s.err, unix.ENOSPC) {
		t.Errorf("%+v, %v", r, s.err)
	}
	got, err := os.ReadFile(dir + "/stdout")
	if err != nil || !bytes.Equal(got, pattern(0, r.Bytes-r.LostBytes)) {
		t.Errorf("%d bytes in the file, %v, want %d", len(got), err, r.Bytes-r.LostBytes)
	}
}

// What says nothing leaves no file, and what cannot be kept at all is counted.
func TestStreamMakesItsFileLate(t *testing.T) {
	path := t.TempDir() + "/stdout"
	s := newStream(path, rundir.NewKeep(rundir.MinCap, true))
	if _, err := s.pipe(); err != nil {
		t.Fatal(err)
	}
	s.take(nil)
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a silent stream has a file: %v", err)
	}
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	s.take([]byte("lost"))
	s.take([]byte("too"))
	close(s.done)
	if err := s.close(); !errors.Is(err, unix.EISDIR) {
		t.Errorf("close = %v", err)
	}
	if r := s.result(); r != (rundir.Stream{Bytes: 7, LostBytes: 7}) {
		t.Errorf("%+v", r)
	}
}

// stepped is a clock that a test moves.
type stepped struct{ now time.Duration }

func (c *stepped) Now() time.Duration { return c.now }
func (*stepped) After(time.Duration) (<-chan struct{}, func(), error) {
	return nil, nil, errors.New("nothing is waited for")
}

// TestStreamsWaitApart: word of one stream makes the command wait in that alone.
func TestStreamsWaitApart(t *testing.T) {
	const patience = time.Minute
	clock, r := new(stepped), new(run)
	for i := range r.out {
		r.out[i] = newStream("", rundir.NewKeep(rundir.MinCap, true))
		r.out[i].waits(patience, clock)
	}
	clock.now = patience
	r.credit([2]int64{17, rundir.NotTaken})
	for i, want := range []struct {
		taken int64
		told  time.Duration
	}{{17, patience}, {0, 0}} {
		if s := &r.out[i].shared; s.taken != want.taken || s.told != want.told {
			t.Errorf("stream %d: taken up to %d, heard of at %v, want %+v", i, s.taken, s.told, want)
		}
	}
}
