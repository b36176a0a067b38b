package influx

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hostler-io/hostler/metrics"
)

func sample(at time.Time, v float64) metrics.Sample {
	s := metrics.Series{Metric: metrics.CPU}
	return metrics.Sample{At: at, Span: metrics.Interval, Values: []metrics.Value{{Series: s, Mean: v, Max: v}}}
}

// database is one that does as it is told, and keeps what it took.
type database struct {
	mu    sync.Mutex
	do    func(ctx context.Context) error // nil: it takes everything
	lines []string
	tries []time.Time
}

func (d *database) write(ctx context.Context, lines []byte) error {
	d.mu.Lock()
	do := d.do
	d.tries = append(d.tries, time.Now())
	d.mu.Unlock()
	if do != nil {
		if err := do(ctx); err != nil {
			return err
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for line := range strings.Lines(string(lines)) {
		f := strings.Fields(line)
		d.lines = append(d.lines, f[1])
	}
	return nil
}

func (d *database) becomes(do func(context.Context) error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.do = do
}

func (d *database) tried() []time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]time.Time(nil), d.tries...)
}

func (d *database) took() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]string(nil), d.lines...)
}

func newSink(t *testing.T, d *database, change func(*Config)) *Sink {
	t.Helper()
	c := Config{URL: "https://db.example", API: APIModern, Bucket: "b", Dir: t.TempDir(), Limit: 1 << 20, Log: slog.New(slog.DiscardHandler)}
	if change != nil {
		change(&c)
	}
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	if d != nil {
		s.to = d
	}
	return s
}

// start runs a sink within a bubble, and ends it.
func start(t *testing.T, s *Sink) (end func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func want(n, m int) (all []string) {
	for i := n; i < m; i++ {
		all = append(all, fmt.Sprintf("cpu=%d", i))
	}
	return all
}

// TestFaults lets a database refuse, hang, ask for patience and fill its disk for an
// hour. Handing over takes no time, nothing is lost, and the order is kept.
func TestFaults(t *testing.T) {
	for name, fault := range map[string]func(context.Context) error{
		"refuses": func(context.Context) error { return errors.New("connection refused") },
		"hangs": func(ctx context.Context) error {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(patience):
				return errors.New("timeout")
			}
		},
		"429":  func(context.Context) error { return &Error{429, "slow down", 2 * time.Minute} },
		"full": func(context.Context) error { return &Error{500, "no space left on device", 0} },
		"401":  func(context.Context) error { return &Error{401, "unauthorized", 0} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &database{do: fault}
				s := newSink(t, d, nil)
				defer start(t, s)()
				const hour = 240
				for i := range hour {
					before := time.Now()
					s.Offer(sample(before, float64(i)))
					if time.Since(before) > 0 {
						t.Fatal("handing over took time")
					}
					<-time.After(metrics.Interval)
				}
				st := s.Stats()
				if st.Sent > 0 || st.Lost > 0 || st.Waiting < hour-8 || st.Since.IsZero() || st.Cause == "" {
					t.Errorf("%+v", st)
				}
				if n := len(d.tried()); n < 10 || n > 60 {
					t.Errorf("it was tried %d times in an hour", n)
				}
				d.becomes(nil)
				<-time.After(2 * lastPause)
				if diff := cmp.Diff(want(0, hour), d.took()); diff != "" {
					t.Error(diff)
				}
				if st := s.Stats(); st.Sent != hour || st.Waiting != 0 || !st.Since.IsZero() || st.Losing {
					t.Errorf("%+v", st)
				}
			})
		})
	}
}

// TestPatience: a database that asks for patience is not asked before.
func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &database{do: func(context.Context) error { return &Error{503, "", 20 * time.Minute} }}
		s := newSink(t, d, nil)
		defer start(t, s)()
		s.Offer(sample(time.Now(), 1))
		<-time.After(time.Hour)
		if at := d.tried(); len(at) < 3 || len(at) > 4 || at[1].Sub(at[0]) < 20*time.Minute {
			t.Errorf("it was tried at %v", at)
		}
	})
}

// TestRefusedForGood: a batch that the database never takes does not hold up others.
func TestRefusedForGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &database{do: func(context.Context) error { return &Error{400, "partial write", 0} }}
		s := newSink(t, d, nil)
		defer start(t, s)()
		s.Offer(sample(time.Now(), 0))
		<-time.After(2 * time.Minute)
		d.becomes(nil)
		s.Offer(sample(time.Now(), 1))
		<-time.After(2 * time.Minute)
		if st := s.Stats(); st.Refused != 1 || st.Sent != 1 || st.Waiting != 0 || len(d.took()) != 1 {
			t.Errorf("%+v", st)
		}
	})
}

// TestBounded: the oldest go first when the spool is full, and are counted; another
// process takes up the others.
func TestBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		d := &database{do: func(context.Context) error { return errors.New("away") }}
		spool := func(c *Config) { c.Dir, c.Limit, c.Every = dir, 10*blockSize, time.Second }
		s := newSink(t, d, spool)
		end := start(t, s)
		for i := range 25 {
			s.Offer(sample(time.Now(), float64(i)))
			<-time.After(metrics.Interval)
		}
		if st := s.Stats(); st.Lost != 15 || st.Waiting != 10 || st.Bytes != 10*blockSize || !st.Losing {
			t.Errorf("%+v", st)
		}
		s.Offer(sample(time.Now(), 25)) // is not lost, though it is not in the spool yet
		end()
		if err := os.WriteFile(filepath.Join(dir, "of-others"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		d = &database{}
		s = newSink(t, d, spool)
		defer start(t, s)()
		<-time.After(time.Minute)
		if diff := cmp.Diff(want(16, 26), d.took()); diff != "" {
			t.Error(diff)
		}
		if left, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(left) != 1 {
			t.Errorf("%v %v", left, err)
		}
	})
}

// TestDamaged: a file of the spool that cannot be read is counted and passed over.
func TestDamaged(t *testing.T) {
	s, err := openSpool(t.TempDir(), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if lost, err := s.add(batch{[]byte(fmt.Sprintf("a cpu=%d 1\n", i)), 1}); lost != 0 || err != nil {
			t.Fatal(lost, err)
		}
	}
	if err := os.WriteFile(filepath.Join(s.dir, s.files[1].name()), []byte("\x1f\x8bnothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		d := &database{}
		sink := newSink(t, d, func(c *Config) { c.Dir = s.dir })
		defer start(t, sink)()
		<-time.After(time.Minute)
		if st := sink.Stats(); st.Lost != 1 || st.Sent != 2 || st.Waiting != 0 {
			t.Errorf("%+v", st)
		}
	})
}

// TestAnswers: what a server answers becomes an error that says enough and no more, and
// no redirect is followed: it would take the secret along.
func TestAnswers(t *testing.T) {
	var followed bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/elsewhere") {
			followed = true
		}
		if r.Header.Get("Content-Encoding") != "gzip" || r.Header.Get("Authorization") != "Token s3cret" {
			t.Errorf("%v", r.Header)
		}
		_, _ = io.Copy(io.Discard, r.Body)
		switch strings.Split(r.URL.Path, "/")[1] {
		case "moved":
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		case "endless":
			w.WriteHeader(http.StatusInternalServerError)
			for range 1 << 14 {
				if _, err := io.WriteString(w, strings.Repeat("no space ", 100)); err != nil {
					return
				}
			}
		default:
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}))
	defer server.Close()
	for _, way := range []API{APIModern, APIClassic} {
		for path, is := range map[string]Error{"moved": {Status: 307}, "endless": {Status: 500}, "slow": {Status: 429, After: 7 * time.Second}} {
			w := newWriter(Config{URL: server.URL + "/" + path, API: way, Bucket: "b/p", Secret: func() (string, error) { return "s3cret", nil }})
			err := w.write(t.Context(), []byte("a b=1 1\n"))
			var got *Error
			if !errors.As(err, &got) || got.Status != is.Status || got.After != is.After || len(err.Error()) > 2*maxText || got.refused() {
				t.Errorf("%s %s: %v %+v", way, path, err, got)
			}
		}
	}
	if followed {
		t.Error("a redirect was followed")
	}
}

func TestCheck(t *testing.T) {
	secret := func() (string, error) { return "x", nil }
	good := Config{URL: "https://db.example:8086/influx", API: APIModern, Bucket: "b"}
	for name, tc := range map[string]struct {
		change func(*Config)
		says   string
	}{
		"good":             {func(*Config) {}, ""},
		"secret on itself": {func(c *Config) { c.URL, c.Secret = "http://127.0.0.1:8086", secret }, ""},
		"no secret":        {func(c *Config) { c.URL = "http://db.example" }, ""},
		"secret in clear":  {func(c *Config) { c.URL, c.Secret = "http://db.example", secret }, "use https"},
		"scheme":           {func(c *Config) { c.URL = "ftp://db.example" }, "not the address"},
		"password in it":   {func(c *Config) { c.URL = "https://a:b@db.example" }, "not the address"},
		"query":            {func(c *Config) { c.URL = "https://db.example?db=x" }, "not the address"},
		"way":              {func(c *Config) { c.API = "v3" }, "want v2 or v1"},
		"bucket":           {func(c *Config) { c.Bucket = "" }, "bucket"},
		"user":             {func(c *Config) { c.User = "u" }, "password"},
	} {
		c := good
		tc.change(&c)
		if err := c.Check(); (err == nil) != (tc.says == "") || err != nil && !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzLines writes names that strangers choose: whatever they are, each line has three
// parts and the tags that it should have.
func FuzzLines(f *testing.F) {
	f.Add("web", "/srv", 1.5)
	f.Add("a b,c=d\\", "\n\x00\xff", math.Inf(1))
	f.Add("", "", math.NaN())
	f.Fuzz(func(t *testing.T, container, mount string, v float64) {
		s := metrics.Sample{At: time.UnixMilli(7), Values: []metrics.Value{
			{Series: metrics.Series{Container: container, Metric: metrics.Disk, Part: mount}, Mean: v},
			{Series: metrics.Series{Container: container, Metric: metrics.Tasks}, Mean: 1},
			{Series: metrics.Series{Metric: "unknown"}, Mean: 1},
		}}
		b, n := Lines(nil, s, map[string]string{"host": "edge 07"})
		lines := strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
		if len(lines) != n || n < 1 {
			t.Fatalf("%d lines, said %d: %q", len(lines), n, b)
		}
		for _, line := range lines {
			plain := strings.NewReplacer(`\ `, "", `\,`, "", `\=`, "").Replace(line)
			parts := strings.Split(plain, " ")
			if len(parts) != 3 || parts[2] != "7" || strings.Contains(plain, `\`) || !strings.Contains(line, `,host=edge\ 07`) {
				t.Errorf("%q", line)
			}
			for _, tag := range strings.Split(parts[0], ",")[1:] {
				if strings.Count(tag, "=") != 1 || strings.HasSuffix(tag, "=") {
					t.Errorf("the tag %q of %q", tag, line)
				}
			}
		}
	})
}

// FuzzExpand reads damaged files of the spool.
func FuzzExpand(f *testing.F) {
	whole, err := compress([]byte("a b=1 1\n"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add(whole[:len(whole)-3])
	f.Add([]byte(nil))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if b, err := expand(raw); err == nil && (len(b) == 0 || len(b) > maxBatch) {
			t.Errorf("%d bytes of %d", len(b), len(raw))
		}
	})
}
