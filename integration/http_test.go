//go:build integration

package integration

import (
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/api"
)

// web is an HTTPS client of the coordinator.
func (w *world) web(t testing.TB) *http.Client {
	t.Helper()
	return &http.Client{Timeout: patience, Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: w.roots(t), MinVersion: tls.VersionTLS13},
	}}
}

// ask makes a request with the admin's token and returns status and body.
func (w *world) ask(t testing.TB, method, path, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, w.url()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+w.token)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := w.web(t).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, 4<<20))
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// metrics are those of the coordinator.
func (w *world) metrics(t testing.TB) string {
	t.Helper()
	status, body := w.ask(t, http.MethodGet, "/metrics", "")
	if status != http.StatusOK {
		t.Fatalf("/metrics: %d %s", status, body)
	}
	return body
}

// problem checks that an answer is a problem with a code.
func problem(t testing.TB, what string, status int, body string, wantStatus int, wantCode string) {
	t.Helper()
	var p api.Problem
	if err := json.Unmarshal([]byte(body), &p); err != nil || status != wantStatus || p.Code != wantCode || p.Detail == "" {
		t.Errorf("%s: got %d %.500s, want %d with the code %q and a sentence (%v)", what, status, body, wantStatus, wantCode, err)
	}
}
