package webapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/protocol"
)

func TestProblem(t *testing.T) {
	for code, status := range map[string]int{
		api.CodeInvalid: 400, api.CodeUnauthentic: 401, api.CodeDenied: 403, api.CodeNotFound: 404, api.CodeMethod: 405,
		api.CodeConflict: 409, api.CodeExists: 409, api.CodeGone: 410, api.CodeChanged: 412, api.CodeTooLarge: 413, api.CodeRange: 416, api.CodeRateLimit: 429,
		api.CodeInternal: 500, api.CodeRecovery: 503, api.CodeUnavailable: 503, api.CodeTimeout: 504,
	} {
		want := api.Problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Code: code, Detail: "why"}
		w := httptest.NewRecorder()
		WriteProblem(w, NewProblem(code, "why"))
		var got api.Problem
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Fatalf("%s: %v", code, err)
		}
		if diff := cmp.Diff(want, got); diff != "" || w.Code != status || w.Header().Get("Content-Type") != api.ContentProblem {
			t.Errorf("%s: status %d, %v:\n%s", code, w.Code, w.Header(), diff)
		}
	}
	if p := NewProblem("no code", "why"); p.Code != api.CodeInternal || p.Status != http.StatusInternalServerError {
		t.Errorf("a code that is none: %+v", p)
	}
}

// TestGuard has every way in which a handler may panic.
func TestGuard(t *testing.T) {
	const secret = "the secret is sesame"
	gone, leave := context.WithCancel(t.Context())
	leave()
	for name, c := range map[string]struct {
		ctx    context.Context
		serve  http.HandlerFunc
		status int // 0: the connection breaks
		logged bool
	}{
		"well":       {t.Context(), func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(201) }, 201, false},
		"early":      {t.Context(), func(http.ResponseWriter, *http.Request) { panic(secret) }, 500, true},
		"an error":   {t.Context(), func(http.ResponseWriter, *http.Request) { panic(errors.New(secret)) }, 500, true},
		"late":       {t.Context(), func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "half"); panic(secret) }, 0, true},
		"after head": {t.Context(), func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(200); panic(secret) }, 0, true},
		"aborted":    {t.Context(), func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 0, false},
		"unwritable": {gone, func(http.ResponseWriter, *http.Request) { panic(errors.New(secret)) }, 0, false},
		"defect": {gone, func(http.ResponseWriter, *http.Request) {
			secrets := map[string][]int{secret: nil}
			_ = secrets[secret][len(secret)] // out of range
		}, 500, true},
	} {
		var log bytes.Buffer
		w := httptest.NewRecorder()
		aborted := func() (v any) {
			defer func() { v = recover() }()
			h := Guard(slog.New(slog.NewTextHandler(&log, nil)), NewProblem(api.CodeInternal, "it failed"), c.serve)
			h.ServeHTTP(w, httptest.NewRequestWithContext(c.ctx, http.MethodGet, "/x", nil))
			return nil
		}()
		if broken := aborted == http.ErrAbortHandler; broken != (c.status == 0) || !broken && (aborted != nil || w.Code != c.status) {
			t.Errorf("%s: status %d, ended by %v; want %d", name, w.Code, aborted, c.status)
		}
		if logged := strings.Contains(log.String(), "handler panicked"); logged != c.logged {
			t.Errorf("%s: logged %q", name, &log)
		}
		if strings.Contains(w.Body.String(), "sesame") {
			t.Errorf("%s: answered %s", name, w.Body)
		}
		if w.Header().Get("X-Content-Type-Options") != "nosniff" || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%s: headers %v", name, w.Header())
		}
	}
}

// TestGuardedController: long answers set deadlines and flush through it.
func TestGuardedController(t *testing.T) {
	w := httptest.NewRecorder()
	Guard(slog.New(slog.DiscardHandler), nil, func(w http.ResponseWriter, _ *http.Request) {
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
	}).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/x", nil))
	if !w.Flushed {
		t.Error("a flush does not reach the connection")
	}
}

func TestMethods(t *testing.T) {
	mux := http.NewServeMux()
	for _, pattern := range []string{"POST /a", "GET /a", "DELETE /b/{id}"} {
		mux.HandleFunc(pattern, func(http.ResponseWriter, *http.Request) {})
	}
	for path, want := range map[string][]string{"/a": {"GET", "POST"}, "/b/7": {"DELETE"}, "/b": nil, "/c": nil} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPut, path, nil)
		if got := Methods(mux, r); !slices.Equal(got, want) {
			t.Errorf("%s takes %v, want %v", path, got, want)
		}
		if r.Method != http.MethodPut {
			t.Errorf("the request has become a %s", r.Method)
		}
	}
}

func TestConvert(t *testing.T) {
	if Maybe(0) != nil || !Maybe(1500).Equal(time.Unix(1, 5e8)) || At(1500).Location() != time.UTC {
		t.Errorf("times: %v, %v, %v", Maybe(0), Maybe(1500), At(1500))
	}
	if Exit(nil) != nil || Output(nil) != nil {
		t.Errorf("of what has not ended: %v, %v", Exit(nil), Output(nil))
	}
	exit := &protocol.Exit{Code: 137, Signal: 9, OOM: true, TimedOut: true, Cancelled: true, HungUp: true, Error: "e", RunMS: 61_500}
	wantExit := &api.Exit{Code: 137, Signal: 9, OOM: true, TimedOut: true, Cancelled: true, HungUp: true, Error: "e", Run: "1m1.5s"}
	if diff := cmp.Diff(wantExit, Exit(exit)); diff != "" {
		t.Error(diff)
	}
	output := []protocol.Output{{FD: protocol.Stderr, Bytes: 9, Dropped: 4, DropAt: 5}}
	if diff := cmp.Diff([]api.Output{{FD: "stderr", Bytes: 9, Dropped: 4, DropAt: 5}}, Output(output)); diff != "" {
		t.Error(diff)
	}
	foreign := api.Container{Host: "edge-01", Name: "web", State: "running", Addresses: []string{}, Labels: []string{}}
	if diff := cmp.Diff(foreign, Container("edge-01", protocol.Container{Name: "web", State: "running"})); diff != "" {
		t.Error(diff)
	}
	managed := Container("edge-01", protocol.Container{
		CTID: protocol.CTID{1}, Name: "web", Runtime: "lxc", State: "stopped", Intended: "running", Class: "cloned", Offline: "keep",
		Broken: "b", Failures: 3, Addresses: []string{"10.0.0.2"}, Labels: []string{"a=b"},
	})
	want := api.Container{
		Host: "edge-01", CTID: protocol.CTID{1}.String(), Name: "web", Runtime: "lxc", State: "stopped", Intended: "running", Class: "cloned",
		Offline: "keep", Broken: "b", Failures: 3, Addresses: []string{"10.0.0.2"}, Labels: []string{"a=b"},
	}
	if diff := cmp.Diff(want, managed); diff != "" {
		t.Error(diff)
	}
}
