package client_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/client"
	"github.com/hostler-io/hostler/protocol/san"
)

// serve answers over TLS with a certificate for an address, and returns where
// and the authority.
func serve(t *testing.T, address string, h http.HandlerFunc) (string, []byte) {
	t.Helper()
	return serveAt(t, time.Now(), address, h)
}

// serveAt is serve by a coordinator that has another date.
func serveAt(t *testing.T, now time.Time, address string, h http.HandlerFunc) (string, []byte) {
	t.Helper()
	authority, err := certs.NewAuthority("lab")
	if err != nil {
		t.Fatal(err)
	}
	key, err := certs.NewTLSKey()
	if err != nil {
		t.Fatal(err)
	}
	request, err := key.Request()
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := authority.Issue(request, certs.Leaf{Name: san.Name{Kind: san.Coordinator}, Server: true, Addresses: []string{address}, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	pair, err := key.Certificate(leaf)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.EnableHTTP2 = true
	s.TLS = &tls.Config{Certificates: []tls.Certificate{*pair}, MinVersion: tls.VersionTLS13}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.URL, authority.Certificate()
}

func dial(t *testing.T, cfg client.Config) *client.Client {
	t.Helper()
	c, err := client.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func to(t *testing.T, h http.HandlerFunc) *client.Client {
	t.Helper()
	address, ca := serve(t, "127.0.0.1", h)
	return dial(t, client.Config{Address: address, Token: "hst_X", CA: ca})
}

func TestGetAndPost(t *testing.T) {
	c := to(t, func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Authorization"); got != "Bearer hst_X" {
			t.Errorf("authorization %q", got)
		}
		if r.Method == http.MethodDelete {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		var in map[string]any
		if r.Method == http.MethodPost {
			if got := r.Header.Get("Content-Type"); got != "application/json" {
				t.Errorf("content type %q", got)
			}
			if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
				t.Error(err)
			}
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"path": r.URL.String(), "in": in})
	})
	var out struct {
		Path string
		In   map[string]string
	}
	if err := c.Get(t.Context(), "/v1/hosts", url.Values{"a": {"b c"}}, &out); err != nil || out.Path != "/v1/hosts?a=b+c" {
		t.Errorf("%v, %+v", err, out)
	}
	if err := c.Post(t.Context(), "/v1/tokens", nil, map[string]string{"k": "v"}, &out); err != nil || out.In["k"] != "v" {
		t.Errorf("%v, %+v", err, out)
	}
	if err := c.Delete(t.Context(), "/v1/tokens/1", &out); err != nil {
		t.Error(err)
	}
	var raw []byte
	if err := c.Get(t.Context(), "/v1/rings", nil, &raw); err != nil || !bytes.HasPrefix(raw, []byte(`{"in":null`)) {
		t.Errorf("%v, %s", err, raw)
	}
}

// TestNoDatesAreJudged asks coordinators of which one, or ourselves, has a wrong
// clock.
func TestNoDatesAreJudged(t *testing.T) {
	for _, years := range []int{-56, -10, 10} {
		address, ca := serveAt(t, time.Now().AddDate(years, 0, 0), "127.0.0.1", func(http.ResponseWriter, *http.Request) {})
		if err := dial(t, client.Config{Address: address, CA: ca, Token: "hst_X"}).Get(t.Context(), "/v1/status", nil, nil); err != nil {
			t.Errorf("its date is %d years from ours: %v", years, err)
		}
	}
}

// TestOnlyTheFleetsAuthority proves that nothing is said to a server whose
// certificate is of somebody else, or for another address.
func TestOnlyTheFleetsAuthority(t *testing.T) {
	address, ca := serve(t, "192.0.2.1", func(http.ResponseWriter, *http.Request) { t.Error("a request came through") })
	_, other := serve(t, "127.0.0.1", nil)
	for name, trusted := range map[string][]byte{"another authority": other, "another address": ca} {
		err := dial(t, client.Config{Address: address, CA: trusted, Token: "hst_X"}).Get(t.Context(), "/v1/status", nil, nil)
		if _, ok := errors.AsType[*tls.CertificateVerificationError](err); !ok || !errors.Is(err, client.ErrUnreachable) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	for _, cfg := range []client.Config{
		{Address: "http://127.0.0.1:1"}, {Address: ""}, {Address: "::"}, {Address: "https://127.0.0.1:1"}, {Address: "https://127.0.0.1:1", CA: []byte("x")},
	} {
		if _, err := client.New(cfg); err == nil {
			t.Errorf("%+v is accepted", cfg)
		}
	}
}

func TestProblems(t *testing.T) {
	c := to(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/problem":
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"code":"not_found","detail":"no such host","hint":"hostler host ls","status":404}`)
		case "/page":
			w.WriteHeader(http.StatusBadGateway)
			_, _ = io.WriteString(w, "<html>")
		case "/endless":
			w.WriteHeader(http.StatusInternalServerError)
			for range 1 << 10 {
				if _, err := w.Write(make([]byte, 1<<10)); err != nil {
					return
				}
			}
		case "/redirect":
			http.Redirect(w, r, "/problem", http.StatusFound)
		}
	})
	for path, want := range map[string]string{"/problem": api.CodeNotFound, "/page": api.CodeInternal, "/endless": api.CodeInternal, "/redirect": api.CodeInternal} {
		err := c.Get(t.Context(), path, nil, nil)
		if p, ok := errors.AsType[*api.Problem](err); !ok || p.Code != want || p.Error() == "" {
			t.Errorf("%s: %v, want the code %s", path, err, want)
		}
	}
}

func TestBrokenAnswers(t *testing.T) {
	c := to(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/nonsense":
			_, _ = io.WriteString(w, "hello")
		case "/cut":
			_, _ = io.WriteString(w, `{"a":`)
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		case "/none":
			panic(http.ErrAbortHandler)
		}
	})
	var v map[string]any
	if err := c.Get(t.Context(), "/nonsense", nil, &v); err == nil || errors.Is(err, client.ErrUnreachable) {
		t.Errorf("nonsense: %v", err)
	}
	for _, path := range []string{"/cut", "/none"} {
		if err := c.Get(t.Context(), path, nil, &v); !errors.Is(err, client.ErrUnreachable) {
			t.Errorf("%s: %v", path, err)
		}
	}
	gone := dial(t, client.Config{Address: "unix://" + filepath.Join(t.TempDir(), "none.sock")})
	if err := gone.Get(t.Context(), "/v1/actions", nil, &v); !errors.Is(err, client.ErrUnreachable) {
		t.Errorf("no socket: %v", err)
	}
}

// TestTimeouts proves that a silent server is given up, and that a request that
// waits by itself gets the time that it asked for.
func TestTimeouts(t *testing.T) {
	address, ca := serve(t, "127.0.0.1", func(w http.ResponseWriter, r *http.Request) {
		wait := r.URL.Query().Get("wait")
		if wait == "" {
			<-r.Context().Done()
			return
		}
		_, _ = io.WriteString(w, `"waited"`)
	})
	c := dial(t, client.Config{Address: address, CA: ca, Timeout: 50 * time.Millisecond})
	if err := c.Get(t.Context(), "/", nil, nil); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, client.ErrUnreachable) {
		t.Errorf("a silent server: %v", err)
	}
	var v string
	if err := c.Get(t.Context(), "/", url.Values{"wait": {"30s"}}, &v); err != nil || v != "waited" {
		t.Errorf("a request that waits: %v", err)
	}
}

func TestOutput(t *testing.T) {
	c := to(t, func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		w.Header().Set("Trailer", api.HeaderNext)
		_, _ = io.WriteString(w, "abc")
		switch {
		case strings.Contains(r.URL.Path, "cut"):
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		case strings.Contains(r.URL.Path, "mute"):
			return
		case q.Get("offset") == "0":
			w.Header().Set(api.HeaderNext, "7") // four bytes are left out
		default:
			w.Header().Set(api.HeaderNext, "-1")
		}
		if q.Get("stream") != "stderr" || q.Get("follow") != "true" {
			t.Errorf("query %v", q)
		}
	})
	var b bytes.Buffer
	if next, err := c.Output(t.Context(), client.Reading{Action: "1", FD: "stderr", Offset: 0, Follow: true}, &b); err != nil || next != 7 || b.String() != "abc" {
		t.Errorf("%d, %v, %q", next, err, b.String())
	}
	if next, err := c.Output(t.Context(), client.Reading{Action: "1", FD: "stderr", Offset: 7, Follow: true}, &b); err != nil || next != -1 || b.String() != "abcabc" {
		t.Errorf("%d, %v, %q", next, err, b.String())
	}
	// What came counts, so that reading on starts behind it.
	for _, action := range []string{"cut", "mute"} {
		if next, err := c.Output(t.Context(), client.Reading{Action: action, FD: "stderr", Offset: 10, Follow: true}, io.Discard); !errors.Is(err, client.ErrUnreachable) || next != 13 {
			t.Errorf("%s: %d, %v", action, next, err)
		}
	}
}

func TestOutputEndsWithItsContext(t *testing.T) {
	begun := make(chan struct{})
	c := to(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "a")
		_ = http.NewResponseController(w).Flush()
		close(begun)
		<-r.Context().Done()
	})
	enough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	w := writer(func([]byte) { <-begun; cancel(enough) })
	if next, err := c.Output(ctx, client.Reading{Action: "1", FD: "stdout", Offset: 0, Follow: true}, w); !errors.Is(err, enough) || next != 1 {
		t.Errorf("%d, %v", next, err)
	}
}

type writer func([]byte)

func (w writer) Write(b []byte) (int, error) { w(b); return len(b), nil }

func TestEvents(t *testing.T) {
	c := to(t, func(w http.ResponseWriter, r *http.Request) {
		after, ok := r.URL.Query()["after"]
		switch {
		case !ok:
			_, _ = io.WriteString(w, ": from now on\n\n")
		case after[0] == "3":
			_, _ = io.WriteString(w, "data: {nonsense\n\n")
		case after[0] == "4":
			_, _ = fmt.Fprintf(w, "data: %s\n\n", strings.Repeat("x", 2<<20))
		case after[0] == "5":
			_, _ = io.WriteString(w, "id: 6\n")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		default:
			_, _ = io.WriteString(w, ": hello\n\nid: 1\nevent: host.online\ndata: {\"id\":1,\"type\":\"host.online\"}\n\nid: 2\ndata: {\"id\":2}\n\n")
		}
	})
	var got []uint64
	take := func(e api.Event) error { got = append(got, e.ID); return nil }
	if err := c.Events(t.Context(), 0, take); err != nil || !slices.Equal(got, []uint64{1, 2}) {
		t.Errorf("%v, %v", err, got)
	}
	if err := c.Events(t.Context(), client.FromNow, take); err != nil || len(got) != 2 {
		t.Errorf("from now: %v, %v", err, got)
	}
	enough := errors.New("enough")
	if err := c.Events(t.Context(), 0, func(api.Event) error { return enough }); !errors.Is(err, enough) {
		t.Errorf("a handler that has enough: %v", err)
	}
	for _, after := range []uint64{3, 4, 5} {
		if err := c.Events(t.Context(), after, take); err == nil || len(got) != 2 {
			t.Errorf("after %d: %v, %v", after, err, got)
		}
	}
}

func TestUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			t.Error("a token came over the socket")
		}
		_, _ = fmt.Fprintf(w, "%q", r.URL.Path)
	}))
	if err := s.Listener.Close(); err != nil {
		t.Fatal(err)
	}
	s.Listener = l
	s.Start()
	t.Cleanup(s.Close)
	var got string
	if err := dial(t, client.Config{Address: "unix://" + path}).Get(t.Context(), "/v1/actions", nil, &got); err != nil || got != "/v1/actions" {
		t.Errorf("%v, %q", err, got)
	}
}

// full has no room.
type full struct{}

var errFull = errors.New("no room")

func (full) Write([]byte) (int, error) { return 0, errFull }

// TestLinesToAFullDisk proves that nobody takes trouble of its own for the line's.
func TestLinesToAFullDisk(t *testing.T) {
	c := to(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{}\n") })
	if err := c.Lines(t.Context(), "/v1/audit/export", nil, full{}); !errors.Is(err, errFull) || errors.Is(err, client.ErrUnreachable) {
		t.Errorf("%v", err)
	}
}

// TestAnswerOfAnotherVersion: an answer that this version cannot read is told in words
// of the API, not of this program.
func TestAnswerOfAnotherVersion(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"fleet":"lab","ring":"two"}`)
	}))
	defer server.Close()
	c, err := client.New(client.Config{Address: server.URL, CA: server.Certificate().Raw})
	if err != nil {
		t.Fatal(err)
	}
	var s api.Status
	err = c.Get(t.Context(), "/v1/status", nil, &s)
	if want := "this program cannot read the answer of /v1/status: ring has another type; look whether it is older than the coordinator: hostler version"; err == nil || err.Error() != want {
		t.Errorf("it says %v", err)
	}
}

// TestLongTarget: a name that no server would read is refused here, before a server cuts the
// connection and seems to be away.
func TestLongTarget(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	c, err := client.New(client.Config{Address: server.URL, CA: server.Certificate().Raw})
	if err != nil {
		t.Fatal(err)
	}
	err = c.Get(t.Context(), "/v1/actions/"+strings.Repeat("x", 100_000), nil, nil)
	if p, ok := errors.AsType[*api.Problem](err); !ok || p.Code != api.CodeTooLarge || errors.Is(err, client.ErrUnreachable) {
		t.Errorf("a name of 100,000 bytes: %v", err)
	}
}
