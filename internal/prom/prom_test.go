package prom_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hostler-io/hostler/internal/prom"
)

func scrape(t *testing.T, fill func(context.Context, *prom.Scrape) error) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	prom.Handler("hostler_test_", fill).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	return w.Code, w.Body.String()
}

func TestScrape(t *testing.T) {
	code, body := scrape(t, func(_ context.Context, s *prom.Scrape) error {
		s.Gauge("hosts", "Hosts.", 3)
		s.GaugeBy("actions", "Open actions.", "state", map[string]float64{"NEW": 0, "RUNNING": 2})
		s.Counter("messages_total", "Messages.", 7)
		s.Gauges("disk_bytes", "Disks.", []string{"container", "part"}, []prom.Series{{[]string{"", "/"}, 5}, {[]string{"web", `/"x"`}, 6}})
		s.CounterBy("refused_total", "Refusals,\nby code.", "code", map[string]float64{"stale": 0, "a \"b\" \\ c\n": 1e21})
		return nil
	})
	if code != http.StatusOK {
		t.Fatalf("status %d: %s", code, body)
	}
	for _, line := range []string{
		"# TYPE hostler_test_hosts gauge", "hostler_test_hosts 3",
		`hostler_test_actions{state="NEW"} 0`, `hostler_test_actions{state="RUNNING"} 2`,
		"# TYPE hostler_test_disk_bytes gauge", `hostler_test_disk_bytes{container="",part="/"} 5`, `hostler_test_disk_bytes{container="web",part="/\"x\""} 6`,
		"# TYPE hostler_test_messages_total counter", "hostler_test_messages_total 7",
		`# HELP hostler_test_refused_total Refusals,\nby code.`,
		`hostler_test_refused_total{code="stale"} 0`,
		`hostler_test_refused_total{code="a \"b\" \\ c\n"} 1e+21`,
		"go_goroutines ", "go_memstats_heap_alloc_bytes ", `go_info{version="go1.`,
		"process_open_fds ", "process_resident_memory_bytes ", "process_cpu_seconds_total ", "process_start_time_seconds ",
	} {
		if !strings.Contains(body, "\n"+line) {
			t.Errorf("line %q is missing in:\n%s", line, body)
		}
	}
}

func TestFailedSnapshotIsNoAnswer(t *testing.T) {
	for name, fill := range map[string]func(context.Context, *prom.Scrape) error{
		"error": func(_ context.Context, s *prom.Scrape) error {
			s.Gauge("hosts", "Hosts.", 3)
			return errors.New("the store is away")
		},
		"bad name": func(_ context.Context, s *prom.Scrape) error { s.Gauge("h\xffosts", "Hosts.", 3); return nil },
		"few values": func(_ context.Context, s *prom.Scrape) error {
			s.Gauges("h", "H.", []string{"a", "b"}, []prom.Series{{[]string{"1"}, 1}})
			return nil
		},
		"bad label": func(_ context.Context, s *prom.Scrape) error { s.GaugeBy("h", "H.", "1x", nil); return nil },
		"bad label value": func(_ context.Context, s *prom.Scrape) error {
			s.GaugeBy("h", "H.", "x", map[string]float64{"\xff": 1})
			return nil
		},
		"twice": func(_ context.Context, s *prom.Scrape) error {
			s.Gauge("hosts", "Hosts.", 3)
			s.Gauge("hosts", "Hosts.", 4)
			return nil
		},
	} {
		if code, body := scrape(t, fill); code != http.StatusInternalServerError || strings.Contains(body, "hostler_test_hosts 3") {
			t.Errorf("%s: status %d: %s", name, code, body)
		}
	}
}

// TestScrapeDoesNotCountItself: what a snapshot takes is gone with it.
func TestScrapeDoesNotCountItself(t *testing.T) {
	const many = 1000
	over := make(chan struct{})
	var all sync.WaitGroup
	_, body := scrape(t, func(context.Context, *prom.Scrape) error {
		for range many {
			all.Go(func() { <-over })
		}
		return nil
	})
	close(over)
	all.Wait()
	_, rest, _ := strings.Cut(body, "\ngo_goroutines ")
	text, _, _ := strings.Cut(rest, "\n")
	if n, err := strconv.Atoi(text); err != nil || n < 1 || n >= many {
		t.Errorf("%d goroutines were counted, %v", n, err)
	}
}

func TestContextReachesSnapshot(t *testing.T) {
	type key struct{}
	var got any
	h := prom.Handler("x_", func(ctx context.Context, _ *prom.Scrape) error { got = ctx.Value(key{}); return nil })
	r := httptest.NewRequestWithContext(context.WithValue(t.Context(), key{}, 1), http.MethodGet, "/metrics", nil)
	h.ServeHTTP(httptest.NewRecorder(), r)
	if got != 1 {
		t.Errorf("the snapshot saw another context than the request's: %v", got)
	}
}

// TestProcess compares what is told of this process with what the test knows.
func TestProcess(t *testing.T) {
	value := func(name string) float64 {
		t.Helper()
		_, body := scrape(t, func(context.Context, *prom.Scrape) error { return nil })
		for line := range strings.Lines(body) {
			if text, ok := strings.CutPrefix(line, name+" "); ok {
				v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
				if err != nil {
					t.Fatal(err)
				}
				return v
			}
		}
		t.Fatalf("no %s in:\n%s", name, body)
		return 0
	}
	before := value("process_open_fds")
	for range 3 {
		f, err := os.Open("/dev/null")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
	}
	if after := value("process_open_fds"); after != before+3 {
		t.Errorf("%v descriptors after 3 more than %v", after, before)
	}
	if started := time.Since(time.Unix(int64(value("process_start_time_seconds")), 0)); started < 0 || started > time.Hour {
		t.Errorf("started %v ago", started)
	}
	if rss := value("process_resident_memory_bytes"); rss < 1<<20 || rss > 1<<32 {
		t.Errorf("%v bytes are resident", rss)
	}
}
