package influx

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hostler-io/hostler/coordinator/samples/samplestest"
	"github.com/hostler-io/hostler/metrics"
)

// far is a database at the other end of Config.Write, which keeps the text that it took.
type far struct {
	mu    sync.Mutex
	away  bool
	hangs chan struct{} // closed: it answers
	text  bytes.Buffer
}

func (f *far) write(ctx context.Context, lines []byte) error {
	f.mu.Lock()
	hangs := f.hangs
	f.mu.Unlock()
	select {
	case <-hangs:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.away {
		return errors.New("the coordinator does not answer")
	}
	f.text.Write(lines)
	return nil
}

func (f *far) hang(is bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if is {
		f.hangs = make(chan struct{})
	} else {
		close(f.hangs)
	}
}

// TestForward holds the sink to the contract of the coordinator.
func TestForward(t *testing.T) {
	samplestest.Conform(t, func(t *testing.T) samplestest.Subject {
		f := &far{hangs: make(chan struct{})}
		close(f.hangs)
		s := newSink(t, nil, func(c *Config) { c.Write = f.write })
		end := sync.OnceFunc(start(t, s))
		synctest.Wait()
		return samplestest.Subject{
			Sink: s, End: end, Hang: f.hang,
			Away: func(is bool) {
				f.mu.Lock()
				defer f.mu.Unlock()
				f.away = is
			},
			Broken: func(is bool) {
				if is {
					if err := os.Remove(s.cfg.Dir); err != nil {
						t.Error(err)
					}
				} else if err := os.Mkdir(s.cfg.Dir, 0o700); err != nil {
					t.Error(err)
				}
			},
			Held: func() string {
				f.mu.Lock()
				defer f.mu.Unlock()
				return f.text.String()
			},
		}
	})
}

// TestNoSpool: a sink that cannot begin says of everything that it has not kept it.
func TestNoSpool(t *testing.T) {
	s := newSink(t, &database{}, func(c *Config) { c.Dir = "/dev/null/spool" })
	taken := true
	if !s.Forward([]byte("a b=1 1\n"), 1, func(is bool) { taken = is }) {
		t.Fatal("it has no place")
	}
	if err := s.Run(t.Context()); err == nil || taken {
		t.Error(err, taken)
	}
}

// TestBatchesAreCut: a sample that is larger than a batch may be goes in several, at the
// ends of lines.
func TestBatchesAreCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 64 << 10
		var parts []string
		s := newSink(t, nil, func(c *Config) {
			c.MaxBatch = most
			c.Write = func(_ context.Context, lines []byte) error {
				parts = append(parts, string(lines))
				return nil
			}
		})
		end := start(t, s)
		sample := metrics.Sample{At: time.Now()}
		for i := range 3000 {
			of := metrics.Series{Container: fmt.Sprintf("c%d", i), Metric: metrics.CPU}
			sample.Values = append(sample.Values, metrics.Value{Series: of, Mean: float64(i)})
		}
		s.Offer(sample)
		<-time.After(2 * time.Minute)
		end()
		text, n := Lines(nil, sample, nil)
		if diff := cmp.Diff(string(text), strings.Join(parts, "")); diff != "" || len(parts) < 2 {
			t.Errorf("%d parts: %s", len(parts), diff)
		}
		for _, p := range parts {
			if len(p) > most || !strings.HasSuffix(p, "\n") {
				t.Errorf("%d bytes, ends with %q", len(p), p[len(p)-10:])
			}
		}
		if st := s.Stats(); st.Sent != uint64(n) || st.Lost != 0 {
			t.Errorf("%+v", st)
		}
	})
}

// TestRefusedByTheOther: what the other end will never take holds up nothing.
func TestRefusedByTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &database{do: func(context.Context) error { return fmt.Errorf("%w: malformed", ErrRefused) }}
		s := newSink(t, d, nil)
		defer start(t, s)()
		s.Offer(sample(time.Now(), 0))
		<-time.After(2 * time.Minute)
		if st := s.Stats(); st.Refused != 1 || st.Waiting != 0 {
			t.Errorf("%+v", st)
		}
	})
}
