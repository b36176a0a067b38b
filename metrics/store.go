package metrics

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// tier is one of the resolutions in which samples are kept. A file takes the samples
// of a share of the time. Files go by their number and not by their date, so no step of
// the clock removes any.
type tier struct {
	name  string
	step  time.Duration // between two samples; 0 keeps each as it was taken
	file  time.Duration // that the samples of a file stand for
	files int           // files that are kept, with the one that is written
}

var tiers = []tier{
	{"raw", 0, 10 * time.Minute, 7},               // × 6 = 1 h, and the one that is written
	{"minute", time.Minute, 2 * time.Hour, 13},    // × 12 = 1 day
	{"five", 5 * time.Minute, 12 * time.Hour, 15}, // × 14 = 7 days
}

// DefaultLimit is how many bytes samples may take on the disk. A host with 20
// containers needs some 13 MB of it.
const DefaultLimit = 64 << 20

// Store keeps samples in a directory. One goroutine writes; readers need none.
type Store struct {
	dir   string
	limit int64
	tiers []*series
	used  int64 // bytes that samples took when that was last looked at, and since
	full  bool  // a file was begun since
}

// series is one tier as it is written.
type series struct {
	tier
	dir    string
	number int           // of the file that is written
	taken  int           // samples in it
	span   time.Duration // that these stand for; samples come sooner while a host is short of something
	enc    encoder
	fold   fold
}

// fold gathers the samples of one step.
type fold struct {
	at     time.Time // end of the last one
	span   time.Duration
	values map[Series]*mean
}

// mean is the average of a series, each value weighed by the time it stands for.
type mean struct {
	sum, time, max float64
}

// OpenStore takes up the samples of a directory, which it makes. What a killed process
// had gathered for a step is gathered again from the samples of the last hour.
func OpenStore(dir string, limit int64) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	s := &Store{dir: dir, limit: cmp.Or(limit, DefaultLimit)}
	for _, t := range tiers {
		files, err := list(dir, t.name)
		if err != nil {
			return nil, err
		}
		w := &series{tier: t, dir: dir, number: 1}
		s.tiers = append(s.tiers, w)
		if len(files) == 0 {
			continue
		}
		newest := files[len(files)-1]
		w.number = newest.number
		if err := w.resume(newest.path); err != nil {
			w.number++
		}
	}
	return s, s.regather()
}

// resume goes on with a file behind its last whole record.
func (t *series) resume(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	d := decoder{r: bufio.NewReader(f)}
	n, span := 0, time.Duration(0)
	for ; ; n++ {
		s, err := d.next()
		if err != nil {
			break
		}
		span += t.share(s)
	}
	if n == 0 || span >= t.file {
		return errRecord
	}
	if err := f.Truncate(d.whole); err != nil {
		return err
	}
	t.taken, t.span, t.enc.numbers = n, span, make(map[Series]uint64)
	for i, s := range d.series {
		t.enc.numbers[s] = uint64(i)
	}
	return nil
}

// regather folds the samples that a coarser tier has not taken yet.
func (s *Store) regather() error {
	for _, t := range s.tiers[1:] {
		newest := time.UnixMilli(0)
		files, err := list(s.dir, t.name)
		if err != nil {
			return err
		}
		if err := scan(files[max(0, len(files)-2):], func(sample Sample) { newest = sample.At }); err != nil {
			return err
		}
		if files, err = list(s.dir, s.tiers[0].name); err != nil {
			return err
		}
		err = scan(files, func(sample Sample) {
			if sample.At.After(newest) {
				t.fold.add(sample)
			}
		})
		if err != nil {
			return err
		}
		if t.fold.span > t.step {
			t.fold = fold{} // a clock that went back, or samples whose step is over
		}
	}
	return nil
}

// Append keeps a sample. An error costs this sample in the tiers that it names, and
// nothing else.
func (s *Store) Append(sample Sample) error {
	var errs []error
	for _, t := range s.tiers {
		due := sample
		if t.step > 0 {
			t.fold.add(sample)
			if t.fold.span < t.step {
				continue
			}
			due = t.fold.take()
		}
		n, err := t.append(due)
		if err != nil {
			errs = append(errs, fmt.Errorf("keeping a sample (%s): %w", t.name, err))
		}
		s.used += int64(n)
		s.full = s.full || t.taken <= 1
	}
	if s.full || s.used > s.limit {
		errs = append(errs, s.shrink())
	}
	return errors.Join(errs...)
}

// append writes a sample, and returns how many bytes that took. No file stays open: a
// sample comes every 15 s.
func (t *series) append(s Sample) (n int, err error) {
	how := os.O_WRONLY | os.O_APPEND
	var b []byte
	if t.taken == 0 {
		how |= os.O_CREATE | os.O_EXCL
		b = []byte(header)
	}
	if b, err = t.enc.append(b, s); err != nil {
		t.next()
		return 0, err
	}
	path := filepath.Join(t.dir, name(t.name, t.number))
	f, err := os.OpenFile(path, how, 0o600)
	if err != nil {
		t.next()
		return 0, err
	}
	_, err = f.Write(b)
	err = errors.Join(err, f.Close())
	if err != nil && t.taken == 0 {
		err = errors.Join(err, os.Remove(path)) // files without samples would drive others out
	}
	t.taken++
	t.span += t.share(s)
	// A record that is not whole ends what can be read of a file.
	if err != nil || t.span >= t.file {
		t.next()
	}
	return len(b), err
}

// share is how much of the time of a file a sample takes: one that comes late, as after the
// host has slept, no more than any other.
func (t *series) share(s Sample) time.Duration {
	return min(max(s.Span, time.Second), max(t.step, Interval))
}

// next goes on with another file.
func (t *series) next() {
	t.taken, t.span, t.enc = 0, 0, encoder{}
	t.number++
}

// shrink removes the oldest files of each tier beyond their number, and beyond the
// limit of all: then of the tier that takes the most.
func (s *Store) shrink() error {
	var errs []error
	left := make([][]file, len(s.tiers))
	sizes := make([]int64, len(s.tiers))
	var total int64
	for i, t := range s.tiers {
		files, err := list(s.dir, t.name)
		if err != nil {
			return err
		}
		for n, f := range files {
			if len(files)-n > t.files {
				errs = append(errs, os.Remove(f.path))
				continue
			}
			left[i] = append(left[i], f)
			sizes[i] += f.size
			total += f.size
		}
	}
	s.full = false
	defer func() { s.used = total }()
	for total > s.limit {
		most := -1
		for i := range left {
			if len(left[i]) > 1 && (most < 0 || sizes[i] > sizes[most]) {
				most = i
			}
		}
		if most < 0 {
			break // what is written now stays
		}
		oldest := left[most][0]
		errs = append(errs, os.Remove(oldest.path))
		left[most] = left[most][1:]
		sizes[most] -= oldest.size
		total -= oldest.size
	}
	return errors.Join(errs...)
}

func (f *fold) add(s Sample) {
	if f.values == nil {
		f.values = make(map[Series]*mean)
	}
	f.at = s.At
	f.span += s.Span
	weight := max(s.Span.Seconds(), 0.001)
	for _, v := range s.Values {
		m := f.values[v.Series]
		if m == nil {
			m = &mean{max: v.Max}
			f.values[v.Series] = m
		}
		m.sum += v.Mean * weight
		m.time += weight
		m.max = max(m.max, v.Max)
	}
}

// take returns the averages and begins anew.
func (f *fold) take() Sample {
	s := Sample{At: f.at, Span: f.span, Values: make([]Value, 0, len(f.values))}
	for k, m := range f.values {
		s.Values = append(s.Values, Value{k, m.sum / m.time, m.max})
	}
	slices.SortFunc(s.Values, func(a, b Value) int { return order(a.Series, b.Series) })
	*f = fold{}
	return s
}

// file is one on the disk.
type file struct {
	path   string
	number int
	size   int64
}

func name(tier string, number int) string { return fmt.Sprintf("%s-%08d.samples", tier, number) }

// list returns the files of a tier, oldest first.
func list(dir, tier string) ([]file, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var files []file
	for _, e := range entries {
		digits, ok := strings.CutPrefix(strings.TrimSuffix(e.Name(), ".samples"), tier+"-")
		n, err := strconv.Atoi(digits)
		if !ok || err != nil || e.Name() != name(tier, n) {
			continue
		}
		info, err := e.Info()
		if err != nil {
			continue // it was removed meanwhile
		}
		files = append(files, file{filepath.Join(dir, e.Name()), n, info.Size()})
	}
	slices.SortFunc(files, func(a, b file) int { return cmp.Compare(a.number, b.number) })
	return files, nil
}

// scan calls do with each sample of some files, in the order in which they were taken.
// Of a damaged file it reads what comes before the damage.
func scan(files []file, do func(Sample)) error {
	for _, f := range files {
		in, err := os.Open(f.path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it was removed meanwhile
		}
		if err != nil {
			return err
		}
		d := decoder{r: bufio.NewReader(in)}
		for {
			s, err := d.next()
			if err != nil {
				break
			}
			do(s)
		}
		in.Close()
	}
	return nil
}
