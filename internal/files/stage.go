package files

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"
)

// ErrBusy says that another program is at the same stage.
var ErrBusy = errors.New("another program copies the same thing to the same place")

// stagePrefix begins the names of stages, in the directory in which what they hold
// will be unpacked: there is as much room as the operator has chosen.
const stagePrefix = ".hostler-pull-"

// Stage keeps what has come of an archive until all of it is there. What a program
// that was killed has left is gone on with: the digest of it says whether it is
// still the beginning of what is sent, so it needs no care to be durable. It belongs
// to one goroutine, and to one program at a time.
type Stage struct {
	root *os.Root
	name string
	f    *os.File
	size int64
	sum  hash.Hash
}

// OpenStage opens the stage of a key in a directory, and reads what is there.
// [ErrBusy] if another program has it open. Close must follow.
func OpenStage(root *os.Root, key string) (*Stage, error) {
	sum := sha256.Sum256([]byte(key))
	s := &Stage{root: root, name: stagePrefix + hex.EncodeToString(sum[:8]), sum: sha256.New()}
	for {
		var err error
		if s.f, err = s.root.OpenFile(s.name, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600); err != nil {
			return nil, err
		}
		ours, err := s.lock()
		if err == nil && ours {
			s.size, err = io.Copy(s.sum, s.f)
		}
		if err != nil {
			return nil, errors.Join(err, s.f.Close())
		}
		if ours {
			return s, nil
		}
		_ = s.f.Close() // its owner has removed it meanwhile
	}
}

// lock takes the file for this program. It reports false if its name is that of
// another one, or of none.
func (s *Stage) lock() (ours bool, err error) {
	if err := syscall.Flock(int(s.f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = ErrBusy
		}
		return false, err
	}
	open, err := s.f.Stat()
	if err != nil {
		return false, err
	}
	named, err := s.root.Lstat(s.name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err == nil && !named.Mode().IsRegular(): // a link, too, is not ours
		err = &fs.PathError{Op: "open", Path: s.name, Err: ErrSpecial}
	}
	return err == nil && os.SameFile(open, named), err
}

// Key is a name for what belongs to the stage: the same for every program that goes
// on with it.
func (s *Stage) Key() string { return strings.TrimPrefix(s.name, stagePrefix) }

// Size is how many bytes are there.
func (s *Stage) Size() int64 { return s.size }

// Sum is their digest.
func (s *Stage) Sum() [32]byte { return [32]byte(s.sum.Sum(nil)) }

// Content reads them.
func (s *Stage) Content() *io.SectionReader { return io.NewSectionReader(s.f, 0, s.size) }

// Write adds what has come. Zeros become a hole.
func (s *Stage) Write(p []byte) (n int, err error) {
	n = len(p)
	if !isZero(p) {
		n, err = s.f.WriteAt(p, s.size)
	}
	s.sum.Write(p[:n])
	s.size += int64(n)
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		err = p.Err // the file's name says nothing to a reader
	}
	return n, err
}

// Complete makes the file as long as what was written. What it ends with may be a
// hole.
func (s *Stage) Complete() error { return s.f.Truncate(s.size) }

// Restart forgets what is there.
func (s *Stage) Restart() error {
	s.size = 0
	s.sum.Reset()
	return s.f.Truncate(0)
}

// Close leaves what is there for the next attempt. Nothing is not kept.
func (s *Stage) Close() error {
	if s.f == nil {
		return nil
	}
	if s.size == 0 {
		return s.Remove()
	}
	return s.release()
}

// Remove removes the stage, which is closed then.
func (s *Stage) Remove() error {
	err := s.root.Remove(s.name) // first: the name is ours while the lock is
	return errors.Join(err, s.release())
}

// release gives the lock back and closes the file. A mere Close would leave the lock
// with a process that is being forked at this moment and has not come to its exec.
func (s *Stage) release() error {
	err := errors.Join(syscall.Flock(int(s.f.Fd()), syscall.LOCK_UN), s.f.Close())
	s.f = nil
	return err
}

// SweepStages removes the stages of a directory to which nothing was added since a
// time, and which no process has open.
func SweepStages(root *os.Root, before time.Time) error {
	all, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return err
	}
	for _, e := range all {
		if !strings.HasPrefix(e.Name(), stagePrefix) || !e.Type().IsRegular() {
			continue
		}
		i, e2 := e.Info()
		if errors.Is(e2, fs.ErrNotExist) || e2 == nil && !i.ModTime().Before(before) {
			continue
		}
		if e2 == nil {
			e2 = sweepStage(root, e.Name())
		}
		err = errors.Join(err, e2)
	}
	return err
}

func sweepStage(root *os.Root, name string) error {
	s := &Stage{root: root, name: name}
	var err error
	if s.f, err = root.OpenFile(name, os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0); err != nil {
		return err
	}
	ours, err := s.lock()
	if err == nil && ours {
		return s.Remove()
	}
	if errors.Is(err, ErrBusy) {
		err = nil
	}
	return errors.Join(err, s.f.Close())
}

// Rest passes on what is behind the beginning of a stream that its reader has
// already, if that is still its beginning.
type Rest struct {
	w    io.Writer
	have int64
	want [32]byte
	n    int64
	sum  hash.Hash
}

// NewRest returns a writer of the rest behind have bytes with a digest.
func NewRest(w io.Writer, have int64, digest [32]byte) *Rest {
	return &Rest{w: w, have: have, want: digest, sum: sha256.New()}
}

// Write takes the stream from its beginning on. It fails with [ErrChanged], before
// anything is passed on, if that is another than what the reader has.
func (r *Rest) Write(p []byte) (int, error) {
	k := int(min(int64(len(p)), max(0, r.have-r.n)))
	r.sum.Write(p[:k])
	r.n += int64(k)
	if k > 0 && r.n == r.have && [32]byte(r.sum.Sum(nil)) != r.want {
		return k, fmt.Errorf("%w: its beginning differs from the part that was copied before", ErrChanged)
	}
	if k == len(p) {
		return k, nil
	}
	n, err := r.w.Write(p[k:])
	r.sum.Write(p[k : k+n])
	r.n += int64(n)
	return k + n, err
}

// Begun reports whether anything was passed on.
func (r *Rest) Begun() bool { return r.n > r.have }

// End tells the digest of the whole stream. It fails with [ErrChanged] if the reader
// has more than there is.
func (r *Rest) End() (digest [32]byte, err error) {
	if r.n < r.have {
		return digest, fmt.Errorf("%w: it is shorter than the part that was copied before", ErrChanged)
	}
	return [32]byte(r.sum.Sum(nil)), nil
}

// isZero reports whether there are zeros alone.
func isZero(p []byte) bool {
	var zeros [4096]byte
	for len(p) > 0 {
		k := min(len(p), len(zeros))
		if !bytes.Equal(p[:k], zeros[:k]) {
			return false
		}
		p = p[k:]
	}
	return true
}
