package web

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestWhatIsNotTagged: what is large or comes in parts is handed on as it comes.
func TestWhatIsNotTagged(t *testing.T) {
	large := strings.Repeat("x", maxTagged)
	for name, answer := range map[string]http.HandlerFunc{
		"other": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = w.Write([]byte("abc")) // to memory
		},
		"large": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(large)) // likewise
			_, _ = w.Write([]byte("abc")) // likewise
		},
		"parts": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte("a")) // likewise
			if err := http.NewResponseController(w).Flush(); err != nil {
				t.Error(err)
			}
			_, _ = w.Write([]byte("bc")) // likewise
		},
		"failed": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusTeapot)
			_, _ = w.Write([]byte("abc")) // likewise
		},
		"nothing": func(http.ResponseWriter, *http.Request) {},
	} {
		rec := httptest.NewRecorder()
		req := httptest.NewRequest(http.MethodGet, "/v1/x", nil)
		req.Header.Set("If-None-Match", "*")
		serveTagged(rec, req, answer)
		if tag, got := rec.Header().Get("ETag"), rec.Body.String(); tag != "" || name != "nothing" && !strings.HasSuffix(got, "abc") || rec.Flushed != (name == "parts") || (rec.Code == http.StatusTeapot) != (name == "failed") {
			t.Errorf("%s: ETag %q, status %d, flushed %v, %d bytes", name, tag, rec.Code, rec.Flushed, len(got))
		}
	}
}
