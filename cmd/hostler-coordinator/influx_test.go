package main

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/coordinator/sqlstore"
	"github.com/hostler-io/hostler/internal/prom"
)

// TestSink: with a database the coordinator takes samples, tells how that does, and keeps what
// the database does not take; without one it takes none and tells nothing.
func TestSink(t *testing.T) {
	for _, url := range []string{"", "https://127.0.0.1:1"} {
		s := newServer(t)
		s.broker = newEmbedded("", nil, nil, nil)
		s.config.Metrics.Influx = defaultInflux()
		s.config.Metrics.Influx.URL = url
		if err := s.openSink(); err != nil {
			t.Fatal(err)
		}
		store, err := sqlstore.Open(t.Context(), sqlstore.Config{Path: s.state.store()})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		if s.coord, err = s.newCoordinator(t.Context(), store); err != nil {
			t.Fatal(err)
		}
		if takes := s.coord.Samples() != nil; takes != (url != "") {
			t.Errorf("%q: it takes samples: %v", url, takes)
		}
		if err := s.measured(); err != nil {
			t.Errorf("%q: %v", url, err)
		}
		if url == "" {
			if err := s.bring(t.Context()); err != nil {
				t.Error(err)
			}
		} else {
			ended, end := context.WithCancel(t.Context())
			taken := false
			if !s.sink.Forward([]byte("hostler_host cpu=1 1\n"), 1, func(is bool) { taken = is }) {
				t.Error("it has no place")
			}
			end()
			if err := s.bring(ended); err != nil || !taken {
				t.Error(err, taken)
			}
		}
		w := httptest.NewRecorder()
		prom.Handler("hostler_coordinator_", func(_ context.Context, p *prom.Scrape) error { s.sinkMetrics(p); return nil }).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		for _, line := range []string{"\nhostler_coordinator_sink_lines_waiting 1\n", `hostler_coordinator_samples_messages_total{what="full"} 0`} {
			if got := strings.Contains(w.Body.String(), line); got != (url != "") {
				t.Errorf("%q: %q is written: %v in\n%s", url, line, got, w.Body)
			}
		}
	}
}
