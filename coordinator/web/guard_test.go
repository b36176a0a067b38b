package web

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/internal/lobby"
)

func TestPanicIsAProblem(t *testing.T) {
	var log bytes.Buffer
	h := &handlers{log: slog.New(slog.NewTextHandler(&log, nil))}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /early", func(http.ResponseWriter, *http.Request) { panic("the secret is sesame") })
	mux.HandleFunc("GET /late", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "half of")
		panic("the secret is sesame")
	})
	ask := func(path string) (w *httptest.ResponseRecorder, aborted any) {
		defer func() { aborted = recover() }()
		w = httptest.NewRecorder()
		h.guard(mux, false).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		return w, nil
	}
	w, aborted := ask("/early")
	var p api.Problem
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || aborted != nil || p.Code != api.CodeInternal || w.Code != http.StatusInternalServerError {
		t.Errorf("status %d, aborted by %v: %s", w.Code, aborted, w.Body)
	}
	if strings.Contains(w.Body.String(), "sesame") || !strings.Contains(log.String(), "sesame") {
		t.Errorf("answered %s, logged %s", w.Body, &log)
	}
	if _, aborted := ask("/late"); aborted != http.ErrAbortHandler {
		t.Errorf("half an answer was ended by %v, want the connection to break", aborted)
	}
}

func TestErrorsBecomeProblems(t *testing.T) {
	var log bytes.Buffer
	h := &handlers{log: slog.New(slog.NewTextHandler(&log, nil))}
	for err, code := range map[error]string{
		core.ErrInvalid: api.CodeInvalid, core.ErrNotFound: api.CodeNotFound, core.ErrExists: api.CodeExists,
		core.ErrConflict: api.CodeConflict, core.ErrDenied: api.CodeDenied, core.ErrGone: api.CodeGone,
		core.ErrRecovery: api.CodeRecovery, core.ErrUnavailable: api.CodeUnavailable,
		core.ErrRole: api.CodeRole, core.ErrUnknownHost: api.CodeUnknownHost,
		core.ErrBadReference: api.CodeBadReference, core.ErrChanged: api.CodeChanged, core.ErrAmbiguous: api.CodeAmbiguous,
	} {
		p := h.asProblemOf(t.Context(), fmt.Errorf("host edge-07: %w", err))
		if p.Code != code || !strings.HasPrefix(p.Detail, "host edge-07") || p.Status < 400 {
			t.Errorf("%v: %+v, want the code %s", err, p.Problem, code)
		}
	}
	if log.Len() > 0 {
		t.Errorf("what clients did wrong was logged: %s", &log)
	}
	p := h.asProblemOf(t.Context(), errors.New("open /var/lib/hostler: disk on fire"))
	if p.Code != api.CodeInternal || strings.Contains(p.Detail, "fire") || !strings.Contains(log.String(), "fire") {
		t.Errorf("a failure inside: %+v, logged %s", p.Problem, &log)
	}
}

func TestMetricsMayBeOpenOnLoopback(t *testing.T) {
	for from, want := range map[string]bool{
		"127.0.0.1:9": true, "[::1]:9": true, "[::ffff:127.0.0.1]:9": true, "198.51.100.7:9": false, "pipe": false, "": false,
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil)
		r.RemoteAddr = from
		if got := isOpen(r, true); got != want {
			t.Errorf("from %q it is open: %t, want %t", from, got, want)
		}
		if isOpen(r, false) {
			t.Errorf("from %q it is open although nobody opened it", from)
		}
	}
}

func TestLimitsAreBounded(t *testing.T) {
	l := limits[netip.Prefix]{rate: enrolRate, burst: enrolBurst}
	now := time.Unix(1e9, 0)
	for i := range 2 * maxOrigins {
		l.allow(lobby.Origin(fmt.Sprintf("10.%d.%d.%d:9", i>>16, i>>8&255, i&255)), now)
	}
	if len(l.by) > maxOrigins {
		t.Errorf("%d addresses are remembered, at most %d may be", len(l.by), maxOrigins)
	}
	wait := l.allow(lobby.Origin("192.0.2.1:9"), now)
	if wait <= 0 {
		t.Error("strangers beyond the bound share no limit")
	}
	if l.allow(lobby.Origin("192.0.2.1:9"), now.Add(wait-time.Millisecond)) <= 0 || l.allow(lobby.Origin("192.0.2.1:9"), now.Add(wait+time.Millisecond)) > 0 {
		t.Errorf("after %s, and not before, one more is taken", wait)
	}
	now = now.Add(2 * forgetAfter)
	if l.allow(lobby.Origin("192.0.2.1:9"), now) > 0 || len(l.by) != 1 {
		t.Errorf("%d addresses are remembered after all were silent", len(l.by))
	}
	if lobby.Origin("[2001:db8::1]:9") != lobby.Origin("[2001:db8::2:3]:9") || lobby.Origin("192.0.2.1:9") == lobby.Origin("192.0.2.2:9") {
		t.Error("an IPv6 network is one stranger, an IPv4 address another")
	}
}

func TestDurations(t *testing.T) {
	for s, want := range map[string]time.Duration{"90s": 90 * time.Second, "5m": 5 * time.Minute, "8h": 8 * time.Hour, "7d": 7 * 24 * time.Hour} {
		if got, err := parseDuration("ttl", s); err != nil || got != want {
			t.Errorf("%s is %s, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "5", "d", "-1d", "-5m", "99999999d", "1w", "soon"} {
		if got, err := parseDuration("ttl", s); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("%q is %s, %v, want ErrInvalid", s, got, err)
		}
	}
}
