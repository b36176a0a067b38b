// Package blob keeps large files, each under the SHA-256 of its bytes, so that a
// name says what is in it. A file that is being filled has another name until
// all of it is there and its digest was found right: what can be opened is whole,
// and is still there after a crash. Filling goes on where a process before has
// come to.
//
// The directory belongs to one process.
package blob

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hostler-io/hostler/internal/durable"
	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/internal/space"
	"github.com/hostler-io/hostler/protocol"
)

var (
	// ErrDigest says that the bytes are not those that the digest names. Nothing
	// of them is kept.
	ErrDigest = errors.New("the bytes do not have the digest that was promised")
	// ErrSize says that there are more bytes than were promised, or than fit.
	ErrSize = errors.New("too many bytes")
	// ErrSpace says that the disk has no room for what was promised.
	ErrSpace = errors.New("not enough room on the disk")
	// ErrBusy says that another caller is filling the same file.
	ErrBusy = errors.New("the same bytes are being written already")
)

// partial ends the name of a file that is being filled, unnamed begins that of
// a file whose digest is not known yet.
const (
	partial = ".part"
	unnamed = "new."
)

// Store is a directory of such files. Its methods may be called from any
// goroutine.
type Store struct {
	dir     string
	step    failpoint.Step
	reserve int64
	disk    func(dir string) (space.Space, error) // how large it is, and what is free
	mu      sync.Mutex
	filling map[protocol.Digest]*turn
}

// Open makes the directory if it is not there and removes files that cannot
// be continued. step is the moment at which a file is put in place, and reserve how
// many bytes of the disk no file may take: never more than a quarter of it.
func Open(dir string, step failpoint.Step, reserve int64) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	left, err := filepath.Glob(filepath.Join(dir, unnamed+"*"))
	if err != nil {
		return nil, err
	}
	for _, path := range left {
		err = errors.Join(err, os.Remove(path))
	}
	return &Store{dir: dir, step: step, reserve: reserve, disk: space.Of, filling: make(map[protocol.Digest]*turn)}, err
}

// Path is where the file of a digest is once it is whole.
func (s *Store) Path(d protocol.Digest) string { return filepath.Join(s.dir, d.String()) }

// Size returns the size of a file, and when it was used last. It fails with
// [fs.ErrNotExist] as long as the file is not whole.
func (s *Store) Size(d protocol.Digest) (int64, time.Time, error) {
	i, err := os.Stat(s.Path(d))
	if err != nil {
		return 0, time.Time{}, err
	}
	return i.Size(), i.ModTime(), nil
}

// Use notes that a file is in use now.
func (s *Store) Use(d protocol.Digest, now time.Time) error { return os.Chtimes(s.Path(d), now, now) }

// Partial returns how much of a file is there that is not whole, 0 if nothing.
func (s *Store) Partial(d protocol.Digest) int64 {
	i, err := os.Stat(s.Path(d) + partial)
	if err != nil {
		return 0
	}
	return i.Size()
}

// Open opens a whole file for reading.
func (s *Store) Open(d protocol.Digest) (*os.File, error) { return os.Open(s.Path(d)) }

// Remove removes a file, whole or not. None is no error. A file that is being
// filled or read goes at the end of that.
func (s *Store) Remove(d protocol.Digest) error {
	return errors.Join(durable.Remove(s.Path(d)), durable.Remove(s.Path(d)+partial))
}

// Sweep removes files, whole or not, that were used before a time, and that keep
// does not want. It returns how many.
func (s *Store) Sweep(before time.Time, keep func(protocol.Digest) bool) (n int, err error) {
	all, err := os.ReadDir(s.dir)
	if err != nil {
		return 0, err
	}
	for _, e := range all {
		var d protocol.Digest
		if d.UnmarshalText([]byte(strings.TrimSuffix(e.Name(), partial))) != nil || keep(d) || s.isFilling(d) {
			continue
		}
		i, e2 := e.Info()
		switch {
		case errors.Is(e2, fs.ErrNotExist) || e2 == nil && !i.ModTime().Before(before):
			continue
		case e2 == nil:
			e2 = durable.Remove(filepath.Join(s.dir, e.Name()))
		}
		if err = errors.Join(err, e2); e2 == nil {
			n++
		}
	}
	return n, err
}

func (s *Store) isFilling(d protocol.Digest) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.filling[d] != nil
}

// stalled is after how long without a byte another may take a turn over.
const stalled = 10 * time.Second

// turn is the right to fill a file: one caller has it at a time.
type turn struct {
	over chan struct{} // closed at its end

	mu    sync.Mutex // held while the file is touched
	moved time.Time  // when bytes came; zero while what was there is read
	taken bool       // another has it
}

// take takes a turn over that has stalled. It reports whether it did.
func (t *turn) take() bool {
	if !t.mu.TryLock() {
		return false // it moves
	}
	defer t.mu.Unlock()
	if t.moved.IsZero() || time.Since(t.moved) < stalled {
		return false
	}
	t.taken = true
	return true
}

// Await waits until no caller fills the file of a digest. A caller that has stalled learns
// it from its next Write.
func (s *Store) Await(ctx context.Context, d protocol.Digest) error {
	look := time.NewTicker(stalled / 10)
	defer look.Stop()
	for {
		s.mu.Lock()
		t := s.filling[d]
		s.mu.Unlock()
		if t == nil {
			return nil
		}
		select {
		case <-t.over:
		case <-look.C:
			if t.take() {
				s.free(d, t)
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// File is a file that is being filled. It belongs to one goroutine.
type File struct {
	store  *Store
	f      *os.File
	want   protocol.Digest // zero if it is not known yet
	size   int64           // −1 if it is not known yet
	offset int64
	sum    hash.Hash
	over   bool
	turn   *turn // nil without a digest
}

// Fill begins to fill the file of a digest, or goes on where it was left.
// [ErrSpace] if the disk has no room for all of it, and [ErrBusy] while another
// fills it: see [Store.Await]. Finish or Close must follow.
func (s *Store) Fill(d protocol.Digest, size int64) (*File, error) {
	t := &turn{over: make(chan struct{})}
	s.mu.Lock()
	busy := s.filling[d] != nil
	if !busy {
		s.filling[d] = t
	}
	s.mu.Unlock()
	if busy {
		return nil, ErrBusy
	}
	w := &File{store: s, want: d, size: size, sum: sha256.New(), turn: t}
	if err := w.open(s.Path(d) + partial); err != nil {
		s.free(d, t)
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.moved = time.Now()
	return w, nil
}

// FillNew begins to fill a file whose digest and size are not known yet. It may
// grow to limit bytes.
func (s *Store) FillNew(limit int64) (*File, error) {
	f, err := os.CreateTemp(s.dir, unnamed)
	if err != nil {
		return nil, err
	}
	return &File{store: s, f: f, size: -1 - limit, sum: sha256.New()}, nil
}

func (s *Store) free(d protocol.Digest, t *turn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.filling[d] == t {
		delete(s.filling, d)
		close(t.over)
	}
}

// hold keeps others from taking the turn over, until release. [ErrBusy] if another
// has.
func (w *File) hold() (release func(), err error) {
	if w.turn == nil {
		return func() {}, nil
	}
	w.turn.mu.Lock()
	if w.turn.taken {
		w.turn.mu.Unlock()
		return nil, fmt.Errorf("%w, by another that went on after this one had stalled", ErrBusy)
	}
	w.turn.moved = time.Now()
	return w.turn.mu.Unlock, nil
}

// open opens what is there of the file and reads it, for its digest.
func (w *File) open(path string) (err error) {
	if w.f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return err
	}
	if w.offset, err = io.Copy(w.sum, w.f); err == nil && w.offset > w.size {
		err = w.Restart() // of another promise
	}
	if err == nil {
		err = w.store.Room(w.size - w.offset)
	}
	if err != nil {
		_ = w.f.Close() // nothing was written to it
	}
	return err
}

// Room reports [ErrSpace] unless the disk takes n more bytes and keeps its reserve.
func (s *Store) Room(n int64) error {
	at, err := s.disk(s.dir)
	if err != nil {
		return err
	}
	reserve := s.reserve
	if at.Total > 0 {
		reserve = min(reserve, at.Total/4)
	}
	if at.Free-reserve < n {
		return fmt.Errorf("%w: %d bytes are needed; %d are free, and %d of these are reserved", ErrSpace, n, at.Free, reserve)
	}
	return nil
}

// Offset is how many bytes are there.
func (w *File) Offset() int64 { return w.offset }

// Size is how many there will be, −1 if it is not known.
func (w *File) Size() int64 { return max(w.size, -1) }

// Restart forgets what is there.
func (w *File) Restart() error {
	if err := w.f.Truncate(0); err != nil {
		return err
	}
	if _, err := w.f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	w.offset = 0
	w.sum.Reset()
	return nil
}

// Write adds bytes. It takes none of those that are too many.
func (w *File) Write(p []byte) (int, error) {
	release, err := w.hold()
	if err != nil {
		return 0, err
	}
	defer release()
	limit := w.size
	if limit < 0 {
		limit = -1 - w.size
	}
	if int64(len(p)) > limit-w.offset {
		return 0, fmt.Errorf("%w: more than %d", ErrSize, limit)
	}
	// What had room when it began may have been taken by others who began then.
	if err := w.store.Room(int64(len(p))); err != nil {
		return 0, err
	}
	n, err := w.f.Write(p)
	w.sum.Write(p[:n])
	w.offset += int64(n)
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		err = fmt.Errorf("%w: %w", ErrSpace, err)
	}
	return n, err
}

// Finish puts the file in place, durably, once it is whole, and returns its
// digest. [ErrDigest] if it is not what was promised: then nothing of it is left.
// It is closed in any case.
func (w *File) Finish() (protocol.Digest, error) {
	defer w.Close()
	release, err := w.hold()
	if err != nil {
		return protocol.Digest{}, err
	}
	defer release()
	got := protocol.Digest(w.sum.Sum(nil))
	switch {
	case w.size >= 0 && w.offset < w.size:
		return got, fmt.Errorf("%d of %d bytes are there: %w", w.offset, w.size, io.ErrUnexpectedEOF)
	case !w.want.IsZero() && got != w.want:
		return got, errors.Join(fmt.Errorf("%w: they have %s", ErrDigest, got), os.Remove(w.f.Name()))
	}
	if err := w.f.Sync(); err != nil {
		return got, err
	}
	failpoint.Before(w.store.step)
	if err := os.Rename(w.f.Name(), w.store.Path(got)); err != nil {
		return got, err
	}
	w.over = true
	if err := durable.Sync(w.store.dir); err != nil {
		return got, err
	}
	failpoint.After(w.store.step)
	return got, nil
}

// Close leaves the file as it is, for who goes on with it; one without a digest
// is removed. It may be called again.
func (w *File) Close() error {
	if w.f == nil {
		return nil
	}
	err := w.f.Close()
	if w.want.IsZero() && !w.over {
		err = errors.Join(err, durable.Remove(w.f.Name()))
	}
	w.f = nil
	if !w.want.IsZero() {
		w.store.free(w.want, w.turn)
	}
	return err
}
