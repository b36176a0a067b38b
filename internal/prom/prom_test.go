package prom_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

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
		s.CounterBy("refused_total", "Refusals.", "code", map[string]float64{"stale": 0})
		return nil
	})
	if code != http.StatusOK {
		t.Fatalf("status %d: %s", code, body)
	}
	for _, line := range []string{
		"# TYPE hostler_test_hosts gauge", "hostler_test_hosts 3",
		`hostler_test_actions{state="NEW"} 0`, `hostler_test_actions{state="RUNNING"} 2`,
		"# TYPE hostler_test_messages_total counter", "hostler_test_messages_total 7",
		`hostler_test_refused_total{code="stale"} 0`,
		"go_goroutines ", "process_open_fds ",
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
