package web_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/coordinator/actions"
	"github.com/hostler-io/hostler/coordinator/coordtest"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/coordinator/web"
	"github.com/hostler-io/hostler/protocol/enrol"
)

// site is a fleet behind a real HTTP server on connections in memory, so that
// a synctest bubble owns its clock.
type site struct {
	t      *testing.T
	f      *coordtest.Fleet
	host   *coordtest.Host
	server *http.Server
	client *http.Client
	line   *line
	tokens map[core.TokenRole]string
}

// line is a listener on connections in memory.
type line struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *line) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *line) Close() error   { l.once.Do(func() { close(l.closed) }); return nil }
func (l *line) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 8443} }

func (l *line) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.conns <- remote{server}:
		return client, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// remote has an address, as connections of strangers do.
type remote struct{ net.Conn }

func (remote) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(198, 51, 100, 7), Port: 40000} }

// onSite runs a test against a site with one connected host, on virtual time.
func onSite(t *testing.T, test func(*testing.T, *site)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := coordtest.New(t)
		h := f.AddHost("edge-07")
		h.Connect()
		synctest.Wait()
		test(t, siteOn(t, f, h, web.Config{Version: "0.1.0"}))
	})
}

// siteOn serves a fleet.
func siteOn(t *testing.T, f *coordtest.Fleet, host *coordtest.Host, cfg web.Config) *site {
	t.Helper()
	s := &site{
		t: t, f: f, host: host, tokens: make(map[core.TokenRole]string),
		line: &line{conns: make(chan net.Conn), closed: make(chan struct{})},
	}
	cfg.Coordinator = f.Coordinator()
	h, err := web.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s.server = web.NewServer(h, nil, web.NewNoise(slog.New(slog.DiscardHandler)))
	s.server.Protocols = new(http.Protocols)
	s.server.Protocols.SetHTTP1(true)
	s.server.Protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{DialContext: s.line.dial, DisableCompression: true}
	s.client = &http.Client{Transport: transport}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := s.server.Serve(s.line); !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("the server ended: %v", err)
		}
	}()
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		if err := s.server.Close(); err != nil {
			t.Error(err)
		}
		<-ended
		synctest.Wait()
	})
	for _, role := range []core.TokenRole{core.RoleViewer, core.RoleOperator, core.RoleApprover, core.RoleAdmin} {
		s.tokens[role] = f.Token(role)
	}
	return s
}

// request makes a request of somebody with a role; none is a stranger.
func (s *site) request(role core.TokenRole, method, path string, body any) *http.Request {
	s.t.Helper()
	var r io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		r = strings.NewReader(b)
	default:
		raw, err := json.Marshal(b)
		if err != nil {
			s.t.Fatal(err)
		}
		r = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(s.t.Context(), method, "http://coordinator"+path, r)
	if err != nil {
		s.t.Fatal(err)
	}
	if role != "" {
		req.Header.Set("Authorization", "Bearer "+s.tokens[role])
	}
	return req
}

// reply is an answer that was read to its end.
type reply struct {
	*http.Response
	body []byte
}

func (s *site) do(req *http.Request) reply {
	s.t.Helper()
	resp, err := s.client.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return reply{resp, b}
}

func (s *site) call(role core.TokenRole, method, path string, body any) reply {
	s.t.Helper()
	return s.do(s.request(role, method, path, body))
}

// as decodes an answer of a status.
func as[T any](t *testing.T, r reply, status int) (v T) {
	t.Helper()
	if r.StatusCode != status {
		t.Fatalf("status %d, want %d: %s", r.StatusCode, status, r.body)
	}
	if err := json.Unmarshal(r.body, &v); err != nil {
		t.Fatalf("%v in %s", err, r.body)
	}
	return v
}

// wantProblem checks that an answer is a problem with a code.
func wantProblem(t *testing.T, r reply, code string) api.Problem {
	t.Helper()
	var p api.Problem
	if err := json.Unmarshal(r.body, &p); err != nil || r.Header.Get("Content-Type") != api.ContentProblem {
		t.Fatalf("status %d is no problem but %q: %s", r.StatusCode, r.Header.Get("Content-Type"), r.body)
	}
	if p.Code != code || p.Status != r.StatusCode || p.Title == "" || p.Detail == "" || p.Type != "about:blank" {
		t.Errorf("status %d, problem %+v, want the code %s", r.StatusCode, p, code)
	}
	return p
}

// run asks for a command on the host.
func run(argv ...string) api.NewAction {
	return api.NewAction{Host: "edge-07", Spec: coordtest.RunSpec(argv...)}
}

// ended returns the id of a command that has ended with that output.
func (s *site) ended(stdout string) string {
	s.t.Helper()
	s.host.Auto(coordtest.Succeed(stdout))
	a, err := s.f.Coordinator().Actions().Propose(s.t.Context(), s.f.Admin(), actions.Request{Host: "edge-07", Spec: coordtest.RunSpec("echo")})
	if err != nil {
		s.t.Fatal(err)
	}
	synctest.Wait()
	return a.ID.String()
}

// wait lets virtual time pass.
func wait(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// joinOverHTTP makes host edge-20 ask for enrolment as an agent does. It
// returns the words on the host's screen and how to ask for the state.
func joinOverHTTP(t *testing.T, s *site, code string) (words string, ask func() enrol.StateResponse) {
	t.Helper()
	a := s.f.Attempt("edge-20", code)
	begin, err := a.Begin()
	if err != nil {
		t.Fatal(err)
	}
	answer := as[enrol.BeginResponse](t, s.call("", http.MethodPost, "/enrol/v1/begin", begin), http.StatusOK)
	_, ring := s.f.Trust.RingInForce()
	_, own := s.f.Trust.Own()
	offer, transcript, err := a.Reveal(answer, ring, own)
	if err != nil {
		t.Fatal(err)
	}
	as[enrol.StateResponse](t, s.call("", http.MethodPost, "/enrol/v1/offer", offer), http.StatusOK)
	four := enrol.Words(transcript)
	return strings.Join(four[:], " "), func() enrol.StateResponse {
		q, err := a.Poll(offer.Exchange)
		if err != nil {
			t.Fatal(err)
		}
		return as[enrol.StateResponse](t, s.call("", http.MethodPost, "/enrol/v1/state", q), http.StatusOK)
	}
}
