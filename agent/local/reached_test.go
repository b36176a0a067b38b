package local_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler-io/hostler/agent/local"
)

// TestScrapable: of all that the socket serves, a monitor gets the metrics and nothing else.
func TestScrapable(t *testing.T) {
	asked := 0
	h := local.Scrapable(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked++
		if n, err := r.Body.Read(make([]byte, 1)); n > 0 || err == nil {
			t.Error("a body came through")
		}
	}))
	for _, tc := range []struct {
		method, path string
		want         int
	}{
		{"GET", "/metrics", http.StatusOK}, {"POST", "/metrics", http.StatusMethodNotAllowed}, {"GET", "/metrics/", http.StatusNotFound},
		{"GET", "/", http.StatusNotFound}, {"GET", "/ping", http.StatusNotFound}, {"GET", "/status", http.StatusNotFound},
		{"POST", "/trigger", http.StatusNotFound}, {"POST", "/heartbeat", http.StatusNotFound}, {"GET", "/v1/actions", http.StatusNotFound},
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(tc.method, tc.path, strings.NewReader("a body")))
		if w.Code != tc.want {
			t.Errorf("%s %s: %d, want %d", tc.method, tc.path, w.Code, tc.want)
		}
	}
	if asked != 1 {
		t.Errorf("%d requests came through, want 1", asked)
	}
}

// TestReachable: of all that the socket serves, other machines get three paths, and two
// of them not more often than once in 5 s each.
func TestReachable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		h := local.Reachable(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked++
			if n, err := r.Body.Read(make([]byte, 1)); n > 0 || err == nil {
				t.Error("a body came through")
			}
		}))
		ask := func(method, path string, want int) {
			t.Helper()
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader("a body")))
			if w.Code != want {
				t.Errorf("%s %s: %d, want %d", method, path, w.Code, want)
			}
		}
		for _, path := range []string{"/", "/status", "/metrics", "/v1/actions", "/ping/", "/sleep?for=1h"} {
			ask("POST", path, http.StatusNotFound)
		}
		ask("POST", "/ping", http.StatusMethodNotAllowed)
		if asked != 0 {
			t.Errorf("%d of what is not served came through", asked)
		}
		for range 3 {
			ask("GET", "/ping", http.StatusOK)
		}
		ask("POST", "/trigger", http.StatusOK)
		ask("POST", "/heartbeat", http.StatusOK)
		ask("POST", "/trigger", http.StatusTooManyRequests)
		time.Sleep(5 * time.Second)
		ask("POST", "/trigger", http.StatusOK)
		if asked != 6 {
			t.Errorf("%d requests came through, want 6", asked)
		}
	})
}
