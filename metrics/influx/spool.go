package influx

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/hostler-io/hostler/internal/durable"
)

// batch is a number of lines that are sent together.
type batch struct {
	lines []byte
	count int
}

// maxBatch bounds the text of a batch, in bytes. The sample of a host with 1,000
// containers has some 700 kB.
const maxBatch = 4 << 20

// blockSize is the least that a file takes on the disk.
const blockSize = 4096

// spool keeps batches on the disk while the database is away, one to a file, the oldest
// first. It belongs to one goroutine.
type spool struct {
	dir   string
	limit int64
	files []spooled // oldest first
	used  int64
	next  uint64
}

type spooled struct {
	number uint64
	count  int
	size   int64 // on the disk
}

func (f spooled) name() string { return fmt.Sprintf("%016x-%d.gz", f.number, f.count) }

// openSpool takes up what another process has left. Files that no spool wrote stay, and
// are not looked at.
func openSpool(dir string, limit int64) (*spool, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	s := &spool{dir: dir, limit: limit}
	for _, e := range entries {
		var f spooled
		if _, err := fmt.Sscanf(e.Name(), "%x-%d.gz", &f.number, &f.count); err != nil || f.name() != e.Name() || f.count < 0 {
			continue
		}
		info, err := e.Info()
		if err != nil {
			continue // it is gone
		}
		f.size = onDisk(info.Size())
		s.files = append(s.files, f)
		s.used += f.size
		s.next = max(s.next, f.number+1)
	}
	slices.SortFunc(s.files, func(a, b spooled) int {
		if a.number < b.number {
			return -1
		}
		return 1
	})
	return s, nil
}

func onDisk(size int64) int64 { return (size + blockSize - 1) / blockSize * blockSize }

// add keeps a batch. It returns how many lines have gone: of the oldest batches beyond
// the limit, or of this one, if the disk does not take it.
func (s *spool) add(b batch) (lost int, err error) {
	text, err := compress(b.lines)
	if err != nil {
		return b.count, err
	}
	f := spooled{s.next, b.count, onDisk(int64(len(text)))}
	for len(s.files) > 0 && s.used+f.size > s.limit {
		lost += s.files[0].count
		if err := s.drop(); err != nil {
			return lost + b.count, err
		}
	}
	if f.size > s.limit {
		return lost + b.count, fmt.Errorf("a batch of %d bytes is larger than the spool: raise metrics.influx.spool_mib", len(text))
	}
	s.next++
	if err := durable.WriteFile(filepath.Join(s.dir, f.name()), text, 0o600, maxBatch); err != nil {
		return lost + b.count, err
	}
	s.files = append(s.files, f)
	s.used += f.size
	return lost, nil
}

// oldest returns the first batch. A file that cannot be read is an error, and drop takes
// it away.
func (s *spool) oldest() (batch, error) {
	f := s.files[0]
	text, err := durable.ReadFile(filepath.Join(s.dir, f.name()), maxBatch)
	if err != nil {
		return batch{}, err
	}
	lines, err := expand(text)
	return batch{lines, f.count}, err
}

// drop removes the first batch.
func (s *spool) drop() error {
	err := os.Remove(filepath.Join(s.dir, s.files[0].name()))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	s.used -= s.files[0].size
	s.files = s.files[1:]
	return nil
}

func (s *spool) lines() (n int) {
	for _, f := range s.files {
		n += f.count
	}
	return n
}

func compress(text []byte) ([]byte, error) {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write(text)
	err = errors.Join(err, w.Close())
	return b.Bytes(), err
}

// errBatch tells that a file of the spool is damaged.
var errBatch = errors.New("damaged batch")

func expand(text []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(text))
	if err != nil {
		return nil, errBatch
	}
	b, err := io.ReadAll(io.LimitReader(r, maxBatch+1))
	if err != nil || len(b) > maxBatch || len(b) == 0 {
		return nil, errBatch
	}
	return b, nil
}
