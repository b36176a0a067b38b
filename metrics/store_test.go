package metrics_test

import (
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hostler-io/hostler/metrics"
)

// tape feeds a store with samples whose one value is their number.
type tape struct {
	t   *testing.T
	dir string
	s   *metrics.Store
	at  time.Time
	n   int
}

func newTape(t *testing.T, limit int64) *tape {
	p := &tape{t: t, dir: filepath.Join(t.TempDir(), "metrics"), at: day}
	p.open(limit)
	return p
}

func (p *tape) open(limit int64) {
	p.t.Helper()
	var err error
	if p.s, err = metrics.OpenStore(p.dir, limit); err != nil {
		p.t.Fatal(err)
	}
}

var ram = metrics.Series{Container: "web", Metric: metrics.Memory}

func (p *tape) feed(samples int) { p.t.Helper(); p.every(metrics.Interval, samples) }

func (p *tape) every(span time.Duration, samples int) {
	p.t.Helper()
	for range samples {
		p.n++
		p.at = p.at.Add(span)
		err := p.s.Append(metrics.Sample{At: p.at, Span: span, Values: []metrics.Value{
			{Series: ram, Mean: float64(p.n), Max: float64(p.n)}, {Series: metrics.Series{Metric: metrics.CPU}, Mean: 1, Max: 1},
		}})
		if err != nil {
			p.t.Fatal(err)
		}
	}
}

// read returns the points of the series of the last while.
func (p *tape) read(since time.Duration) []metrics.Point {
	p.t.Helper()
	lines, err := metrics.Read(p.dir, metrics.Query{Since: p.at.Add(-since), Until: p.at, Now: p.at, Container: "web"})
	if err != nil {
		p.t.Fatal(err)
	}
	if len(lines) == 0 {
		return nil
	}
	if len(lines) != 1 || lines[0].Series != ram {
		p.t.Fatalf("the lines are %v", lines)
	}
	return lines[0].Points
}

func TestTiers(t *testing.T) {
	p := newTape(t, 0)
	p.feed(9*24*60*4 + 7) // nine days, and a step that is not over
	hour := p.read(time.Hour)
	if len(hour) != 240 || hour[239].Mean != float64(p.n) || hour[0].Mean != float64(p.n-239) {
		t.Errorf("of the last hour there are %d samples, %+v to %+v", len(hour), hour[0], hour[len(hour)-1])
	}
	full := p.read(24 * time.Hour)
	if len(full) < 1440 || len(full) > 1450 || full[0].Span != time.Minute || full[0].Max-full[0].Mean != 1.5 {
		t.Errorf("of the last day there are %d samples, the first is %+v", len(full), full[0])
	}
	week := p.read(7 * 24 * time.Hour)
	if len(week) < 2016 || len(week) > 2040 || week[0].Span != 5*time.Minute || week[0].Max-week[0].Mean != 9.5 {
		t.Errorf("of the last week there are %d samples, the first is %+v", len(week), week[0])
	}
	// What the coarse tier has not taken yet comes from the finer ones.
	if last := week[len(week)-1]; last.Mean != float64(p.n) {
		t.Errorf("the newest of the week is %+v", last)
	}
	files, err := os.ReadDir(p.dir)
	if err != nil || len(files) > 7+13+15 {
		t.Errorf("there are %d files, %v", len(files), err)
	}
}

// TestHourUnderPressure: samples that come every 3 s, because tasks wait for a disk, drive
// none of the last hour out; nor does a restart meanwhile.
func TestHourUnderPressure(t *testing.T) {
	p := newTape(t, 0)
	p.feed(240)
	p.every(3*time.Second, 700)
	p.open(0)
	p.every(3*time.Second, 700)
	hour := p.read(time.Hour)
	if len(hour) != 1200 || hour[0].Mean != float64(p.n-1199) {
		t.Errorf("of the last hour there are %d samples, the first is %+v, want 1200 up to %d", len(hour), hour[0], p.n)
	}
	files, err := filepath.Glob(filepath.Join(p.dir, "raw-*"))
	if err != nil || len(files) > 7 {
		t.Errorf("there are %d files, %v", len(files), err)
	}
}

// TestRestarts: a process that ends in the middle of anything loses at most one sample.
func TestRestarts(t *testing.T) {
	p := newTape(t, 0)
	for n := range 60 {
		p.feed(7)
		if n%2 == 0 { // the last record is cut, as by a kill
			files, err := filepath.Glob(filepath.Join(p.dir, "raw-*"))
			if err != nil || len(files) == 0 {
				t.Fatal(files, err)
			}
			newest := files[len(files)-1]
			info, err := os.Stat(newest)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Truncate(newest, info.Size()-3); err != nil {
				t.Fatal(err)
			}
		}
		p.open(0)
	}
	if got := len(p.read(time.Hour)); got < 240-20 {
		t.Errorf("%d samples of the last hour are left", got)
	}
	full := p.read(2 * time.Hour)
	if len(full) < 95 {
		t.Errorf("%d minutes of %v are left", len(full), time.Duration(p.n)*metrics.Interval)
	}
}

func TestLimit(t *testing.T) {
	const limit = 20_000
	p := newTape(t, limit)
	for range 300 {
		p.feed(40)
		var size int64
		files, err := os.ReadDir(p.dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			info, err := f.Info()
			if err != nil {
				t.Fatal(err)
			}
			size += info.Size()
		}
		if size > limit {
			t.Fatalf("after %d samples they take %d bytes", p.n, size)
		}
	}
	if got := p.read(5 * time.Minute); len(got) != 20 {
		t.Errorf("of the last five minutes there are %d samples", len(got))
	}
}

// TestClockJumps: no step of the clock removes a sample.
func TestClockJumps(t *testing.T) {
	p := newTape(t, 0)
	p.feed(120)
	begun := p.at
	p.at = p.at.AddDate(10, 0, 0)
	p.feed(20)
	p.at = begun.AddDate(-10, 0, 0)
	p.feed(20)
	p.at = begun
	p.open(0)
	p.feed(20)
	lines, err := metrics.Read(p.dir, metrics.Query{Since: begun.Add(-30 * time.Minute), Until: p.at, Now: p.at, Container: "web"})
	if err != nil || len(lines) != 1 || len(lines[0].Points) != 140 {
		t.Fatalf("%v, %v", lines, err)
	}
	for i, pt := range lines[0].Points[1:] {
		if pt.At.Sub(lines[0].Points[i].At) != metrics.Interval {
			t.Errorf("%v comes after %v", pt, lines[0].Points[i])
		}
	}
}

func TestDamage(t *testing.T) {
	p := newTape(t, 0)
	p.feed(100)
	files, err := filepath.Glob(filepath.Join(p.dir, "raw-*"))
	if err != nil || len(files) != 3 {
		t.Fatal(files, err)
	}
	b, err := os.ReadFile(files[1])
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	if err := os.WriteFile(files[1], b, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := len(p.read(time.Hour)); got < 40+15+20 || got > 40+25+20 {
		t.Errorf("%d samples can be read", got)
	}
	if err := os.WriteFile(files[2], []byte("something else"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.open(0)
	p.feed(1)
	if got := p.read(metrics.Interval); len(got) != 1 {
		t.Errorf("after the damage %v is kept", got)
	}
	if none, err := metrics.Read(filepath.Join(p.dir, "absent"), metrics.Query{Since: day, Until: p.at, Now: p.at}); none != nil || err != nil {
		t.Errorf("without a directory: %v, %v", none, err)
	}
}

// TestManySeries: names and numbers of a sample with a thousand containers come back.
func TestManySeries(t *testing.T) {
	dir := t.TempDir()
	s, err := metrics.OpenStore(dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	sample := metrics.Sample{At: day, Span: metrics.Interval}
	for n := range 12_000 {
		sample.Values = append(sample.Values, metrics.Value{
			Series: metrics.Series{Container: "ct" + string(rune('a'+n%26)), Metric: metrics.NetSent, Part: string(rune(0x4e00 + n))}, Mean: float64(n), Max: math.Inf(1),
		})
	}
	if err := s.Append(sample); err != nil {
		t.Fatal(err)
	}
	lines, err := metrics.Read(dir, metrics.Query{Since: day.Add(-time.Second), Until: day, Now: day, Everything: true, Metrics: []metrics.Metric{metrics.NetSent}})
	if err != nil || len(lines) != 12_000 {
		t.Fatalf("%d lines, %v", len(lines), err)
	}
	for _, l := range lines {
		if want := float64([]rune(l.Part)[0] - 0x4e00); l.Points[0].Mean != want || !math.IsInf(l.Points[0].Max, 1) {
			t.Fatalf("%+v", l)
		}
	}
}
