package main

import (
	"archive/tar"
	"bytes"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/coordinator"
	"github.com/hostler-io/hostler/coordinator/coordtest"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/coordinator/members"
	"github.com/hostler-io/hostler/coordinator/web"
	"github.com/hostler-io/hostler/internal/cli/keyring"
	"github.com/hostler-io/hostler/internal/webapi"
	"github.com/hostler-io/hostler/policy"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/audit"
	"github.com/hostler-io/hostler/protocol/enrol"
	"github.com/hostler-io/hostler/protocol/san"
)

// site is a coordinator behind TLS. It has two hosts, edge-01 and edge-02, of
// which the first is online with two containers, web and a foreign db, and one
// host that waits for approval, edge-03. Its rings and its roster are real, and
// so are the keys of the messages in testdata that scripts verify.
type site struct {
	t         *testing.T
	fleet     *coordtest.Fleet
	host      *coordtest.Host
	authority *certs.Authority
	tokens    map[core.TokenRole]string
	listener  net.Listener
	url       string
	handler   http.Handler
	pair      atomic.Pointer[tls.Certificate] // of the server

	rings, roster []byte
	chain         *certs.Chain
	owner         *certs.Identity
	signer        *certs.Identity // the coordinator of the rings
	edge          *certs.Identity // edge-01 of the roster
	id            protocol.FleetID

	mu     sync.Mutex
	orders chan coordtest.Order // those that wait for "site finish"
	down   bool
	conns  []net.Conn
	broken map[string]bool // pulls that were broken off once
	mute   bool            // no output can be read
	takes  int             // approvals, before it fails to; 0: it does not
	read   map[string]bool // actions whose output somebody has asked for
	asked  chan struct{}   // closed when there is another of them
}

func must[T any](t *testing.T) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{
		t: t, fleet: coordtest.New(t), tokens: map[core.TokenRole]string{},
		orders: make(chan coordtest.Order, 100), broken: map[string]bool{},
		read: map[string]bool{}, asked: make(chan struct{}),
	}
	// The command /reserved waits for two persons, and nobody may push to /forbidden.
	s.listener = must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0"))
	s.fleet.Tune(func(cfg *coordinator.Config) {
		cfg.Addresses = []string{s.listener.Addr().String()}
		cfg.Policies.Own = must[*policy.Policy](t)(policy.Parse("site", []byte("version = 1\n[[rule]]\nkinds = ['host.run']\ncommands = ['/reserved']\nenv = ['A']\napprovals = 2\n[[rule]]\nkinds = ['host.push']\npaths = ['/forbidden']\nrefuse = true\n")))
	})
	s.fleet.Restart()
	for _, role := range []core.TokenRole{core.RoleViewer, core.RoleOperator, core.RoleApprover, core.RoleAdmin} {
		s.tokens[role] = s.fleet.Token(role)
	}
	s.host = s.fleet.AddHost("edge-01")
	s.host.Set(func(f *coordtest.Facts) {
		f.Info.Policy = &protocol.PolicyInfo{Source: "document", Number: 3, Digest: protocol.Digest{1}}
	})
	s.fleet.Put(core.Host{
		ID: "edge-01", State: core.HostApproved, Key: coordtest.NewKey("host edge-01").Key(), PublicKey: coordtest.NewKey("host edge-01").Certificate(),
		ApprovedBy: "admin", ApprovedMS: time.Now().UnixMilli(), Labels: []string{"site=lab", "tier=web"},
	})
	s.fleet.AddHost("edge-02")
	s.fleet.Join("edge-03")
	s.host.Set(func(f *coordtest.Facts) {
		f.Containers = []protocol.Container{
			{CTID: protocol.NewCTID(1, [10]byte{1}), Name: "web", Runtime: "lxc", State: "running", Intended: "running", Class: "pinned", Offline: "keep", Addresses: []string{"10.9.0.2/24"}, Labels: []string{"app=web"}},
			{Name: "db", Runtime: "podman", State: "stopped"},
			{CTID: protocol.NewCTID(1, [10]byte{2}), Name: "twin", Runtime: "lxc", State: "stopped", Intended: "stopped", Class: "pinned", Offline: "keep"},
			{Name: "twin", Runtime: "podman", State: "running", Privileged: true},
		}
	})
	s.host.Auto(s.obey)
	s.host.Connect()
	s.makeRings()
	s.serve()
	s.untilOnline()
	return s
}

// makeRings makes rings with keys that are real, which those of the scripted
// fleet are not.
func (s *site) makeRings() {
	t := s.t
	s.authority = must[*certs.Authority](t)(certs.NewAuthority("lab"))
	s.owner = must[*certs.Identity](t)(certs.Generate("owner", time.Now()))
	s.signer = must[*certs.Identity](t)(certs.Generate("coordinator", time.Now()))
	s.edge = must[*certs.Identity](t)(certs.Generate("host edge-01", time.Now()))
	s.id = s.fleet.ID
	r := must[certs.Ring](t)(certs.NewFleet(s.id, "lab", "owner", s.owner.PublicKey()))
	first := must[[]byte](t)(certs.SignRing(r, s.owner))
	body := must[[]byte](t)(r.Body())
	chain := must[*certs.Chain](t)(certs.OpenChain(enrol.PinOf(1, protocol.Sum(body)), first))
	next := chain.Next()
	if err := next.AddCoordinator(enrol.CoordinatorRequest{Fleet: s.id, Key: s.signer.Public(), TLSCA: s.authority.Certificate()}); err != nil {
		t.Fatal(err)
	}
	chain = must[*certs.Chain](t)(chain.Advance(must[[]byte](t)(certs.SignRing(next, s.owner))))
	s.chain, s.rings = chain, chain.From(1)
	digest, _ := chain.Digest(2)
	s.fleet.Trust.SetPin(2, digest)
	keys := certs.NewKeys(chain)
	if err := keys.SetHost("edge-01", s.edge.PublicKey()); err != nil {
		t.Fatal(err)
	}
	s.roster = must[[]byte](t)(keys.Roster(1)[0].Seal(s.signer))
}

// serve answers over TLS until the test ends.
func (s *site) serve() {
	t := s.t
	h := must[http.Handler](t)(web.New(web.Config{Coordinator: s.fleet.Coordinator(), Version: "0.1.0"}))
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/rings", func(w http.ResponseWriter, _ *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		_, _ = w.Write(s.rings)
	})
	mux.HandleFunc("GET /v1/roster", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(s.roster) })
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		down := s.down
		s.mu.Unlock()
		if down {
			panic(http.ErrAbortHandler) // as a coordinator that is killed
		}
		if id, ok := strings.CutSuffix(r.URL.Path, "/output"); ok {
			s.reads(path.Base(id))
			if s.isMute() {
				webapi.WriteProblem(w, webapi.NewProblem(api.CodeInternal, "the coordinator failed to answer this request"))
				return
			}
		}
		if r.URL.Path == "/v1/approvals" && s.failsToApprove() {
			webapi.WriteProblem(w, webapi.NewProblem(api.CodeInternal, "the coordinator failed to answer this request"))
			return
		}
		h.ServeHTTP(w, r)
	})
	s.certify()
	server := web.NewServer(mux, &tls.Config{
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return s.pair.Load(), nil },
		MinVersion:     tls.VersionTLS13, NextProtos: []string{"h2", "http/1.1"},
	}, web.NewNoise(slog.New(slog.DiscardHandler)))
	server.ConnState = func(c net.Conn, state http.ConnState) {
		if state == http.StateNew {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.conns = append(s.conns, c)
		}
	}
	s.handler = mux
	s.url = "https://" + s.listener.Addr().String()
	serving(t, server, func() error { return server.ServeTLS(s.listener, "", "") })
}

// certify makes the certificate of the server by the authority of now.
func (s *site) certify() {
	t := s.t
	key := must[*certs.TLSKey](t)(certs.NewTLSKey())
	leaf := must[[]byte](t)(s.authority.Issue(must[[]byte](t)(key.Request()), certs.Leaf{
		Name: san.Name{Kind: san.Coordinator}, Server: true, Addresses: []string{"127.0.0.1"}, Now: time.Now(),
	}))
	s.pair.Store(must[*tls.Certificate](t)(key.Certificate(leaf)))
}

// recovered gives the site another key and another authority, as a recovery from a
// backup without keys does. The owner's ring names them, or that of somebody else.
func (s *site) recovered(ts *testscript.TestScript, honest bool) {
	authority, err := certs.NewAuthority("lab")
	ts.Check(err)
	signer, err := certs.Generate("coordinator", time.Now())
	ts.Check(err)
	owner := s.owner
	if !honest {
		owner = s.edge
	}
	next := s.chain.Next()
	ts.Check(next.RemoveCoordinator(s.signer.Key()))
	ts.Check(next.AddCoordinator(enrol.CoordinatorRequest{Fleet: s.id, Key: signer.Public(), TLSCA: authority.Certificate()}))
	raw, err := certs.SignRing(next, owner)
	ts.Check(err)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.authority = authority
	s.certify()
	if !honest {
		s.rings = append(append(bytes.Clone(s.rings), '\n'), raw...)
		return
	}
	s.chain, err = s.chain.Advance(raw)
	ts.Check(err)
	s.signer, s.rings = signer, s.chain.From(1)
	s.fleet.Trust.SetRing(next.Number)
}

// serving has a server serve until the test ends, and waits for all that it has
// begun: of a websocket the server itself knows nothing any more.
func serving(t *testing.T, server *http.Server, serve func() error) {
	var busy sync.RWMutex
	over := false
	h := server.Handler
	server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		busy.RLock()
		defer busy.RUnlock()
		if over {
			panic(http.ErrAbortHandler)
		}
		h.ServeHTTP(w, r)
	})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := serve(); !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("the server ended: %v", err)
		}
	}()
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		<-ended
		busy.Lock()
		defer busy.Unlock()
		over = true
	})
}

// serveUnix answers on a unix socket until the test ends.
func serveUnix(t *testing.T, path string, h http.Handler) {
	l := must[net.Listener](t)(net.Listen("unix", path))
	server := &http.Server{Handler: h}
	serving(t, server, func() error { return server.Serve(l) })
}

// asAgent answers on a unix socket as the agent of edge-01 does: without
// tokens, and without naming the host.
func (s *site) asAgent(path string) {
	serveUnix(s.t, path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Set("Authorization", "Bearer "+s.tokens[core.RoleAdmin])
		switch {
		case r.URL.Path == "/status":
			must[int](s.t)(w.Write(must[[]byte](s.t)(json.Marshal(api.AgentStatus{Host: "edge-01", Connection: "online", Policy: api.Policy{Source: "builtin"}}))))
			return
		case r.URL.Path == "/v1/containers":
			r.URL.Path = "/v1/hosts/edge-01/containers"
		case r.Method == http.MethodPost && r.URL.Path == "/v1/actions":
			var ask api.NewAction
			if err := json.NewDecoder(r.Body).Decode(&ask); err != nil || ask.Host != "" {
				s.t.Errorf("asked for %+v: %v", ask, err)
			}
			ask.Host = "edge-01"
			b := must[[]byte](s.t)(json.Marshal(ask))
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(b)), int64(len(b))
		}
		s.handler.ServeHTTP(w, r)
	}))
}

// untilOnline waits until the coordinator knows that edge-01 is there and what
// it has.
func (s *site) untilOnline() {
	s.t.Helper()
	changed, done := s.fleet.Coordinator().Journal().EventsChanged()
	defer func() { done() }()
	for {
		h := must[members.HostView](s.t)(s.fleet.Coordinator().Members().Host(s.t.Context(), "edge-01"))
		if h.Connectivity == core.Online && len(h.Inventory.Containers) > 0 {
			return
		}
		select {
		case <-changed:
		case <-s.t.Context().Done():
			s.t.Fatal("edge-01 does not come online")
		}
		done()
		changed, done = s.fleet.Coordinator().Journal().EventsChanged()
	}
}

// untilState waits until the coordinator knows an action in a state that is wanted.
func (s *site) untilState(id protocol.ActionID, wanted func(protocol.State) bool) {
	s.t.Helper()
	for {
		changed, done := s.fleet.Coordinator().Journal().EventsChanged()
		state := must[core.Action](s.t)(s.fleet.Coordinator().Actions().Get(s.t.Context(), id)).State
		if wanted(state) {
			done()
			return
		}
		select {
		case <-changed:
		case <-s.t.Context().Done():
			s.t.Fatalf("action %s stays %s", id, state)
		}
		done()
	}
}

// blob is output that is no text: every byte, and more than fits into one
// message.
func blob() []byte {
	b := make([]byte, 100_000)
	for i := range b {
		b[i] = byte(i * 7)
	}
	return b
}

// obey plays the host: what a command is called is what becomes of it.
func (s *site) obey(h *coordtest.Host, o coordtest.Order) {
	spec, err := protocol.DecodeSpec(o.Item.Spec)
	if err != nil {
		s.t.Error(err)
		return
	}
	word := string(spec.Kind)
	if argv := spec.Process().Argv; len(argv) > 0 {
		word = argv[0]
	}
	if word == "idle" || spec.Kind == protocol.KindAttach { // whoever asked for it plays its host
		s.orders <- o
		return
	}
	h.Report(o.Started(h))
	switch word {
	case "hello":
		s.write(h, o, protocol.Stdout, []byte("out\n"))
		s.write(h, o, protocol.Stderr, []byte("err\n"))
		h.Report(o.Done(protocol.Output{FD: protocol.Stdout, Bytes: 4}, protocol.Output{FD: protocol.Stderr, Bytes: 4}))
	case "late":
		s.write(h, o, protocol.Stdout, []byte("out\n"))
		h.Report(o.Done(protocol.Output{FD: protocol.Stdout, Bytes: 10}))
	case "blob":
		s.write(h, o, protocol.Stdout, blob())
		h.Report(o.Done(protocol.Output{FD: protocol.Stdout, Bytes: int64(len(blob()))}))
	case "exit7":
		h.Report(failed(o, protocol.EventExit, protocol.ReasonExit, &protocol.Exit{Code: 7, RunMS: 5}))
	case "term":
		h.Report(failed(o, protocol.EventSignal, protocol.ReasonSignal, &protocol.Exit{Code: 143, Signal: 15, RunMS: 5}))
	case "timeout":
		h.Report(failed(o, protocol.EventTimeout, protocol.ReasonTimeout, &protocol.Exit{Code: 143, Signal: 15, TimedOut: true, RunMS: 60_000}))
	case "missing":
		h.Report(failed(o, protocol.EventNoStart, protocol.ReasonNoStart, &protocol.Exit{Code: 127, Error: "exec missing: no such file"}))
	case "interrupted":
		h.Report(failed(o, protocol.EventInterrupt, protocol.ReasonInterrupted, nil))
	case "torn":
		theirs := coordtest.RunSpec("theirs")
		r := o.Done()
		r.Digest, r.Spec = protocol.Sum(theirs), theirs
		h.Report(r)
	case "slow":
		s.write(h, o, protocol.Stdout, []byte("begun\n"))
		s.orders <- o
	case string(protocol.KindHostPush):
		switch spec.Files().Paths[0] {
		case "/nodir/x":
		case "/loud/x": // what controls a terminal is none of its words
			words := []byte("a \x1b]0;b\x07\x1b[2J\nc")
			s.write(h, o, protocol.Stdout, words)
			h.Report(o.Done(protocol.Output{FD: protocol.Stdout, Bytes: int64(len(words))}))
			return
		default:
			h.Report(o.Done())
			return
		}
		words := []byte("hostler-agent: \"f\" was left out\nhostler-agent: open /nodir: no such file or directory\n")
		s.write(h, o, protocol.Stderr, words)
		r := failed(o, protocol.EventExit, protocol.ReasonExit, &protocol.Exit{Code: 1, RunMS: 5})
		r.Output = []protocol.Output{{FD: protocol.Stderr, Bytes: int64(len(words))}}
		h.Report(r)
	case string(protocol.KindHostPull), string(protocol.KindContainerPull):
		s.pulled(h, o, spec.Files())
	case string(protocol.KindHostCheck):
		said := []byte(`[{"check":"clock","result":"ok"},{"check":"podman","result":"warning","cause":"its socket is away","mend":"start it"}]`)
		s.write(h, o, protocol.Stdout, said)
		h.Report(o.Done(protocol.Output{FD: protocol.Stdout, Bytes: int64(len(said))}))
	case string(protocol.KindReset):
		r := failed(o, protocol.EventFail, protocol.ReasonError, nil)
		r.Detail = "the container does not start"
		h.Report(r)
	default:
		h.Report(o.Done())
	}
}

// pulled answers a pull. Of /half and /changes the first one breaks off in the
// middle, and /changes is another one after that; /lies is not what its report says.
func (s *site) pulled(h *coordtest.Host, o coordtest.Order, f *protocol.FileArgs) {
	at := f.Paths[0]
	s.mu.Lock()
	broken := (at == "/half" || at == "/changes") && !s.broken[at]
	s.broken[at] = true
	s.mu.Unlock()
	if at == "/absent" || at == "/denied" {
		exit := &protocol.Exit{Code: 1, RunMS: 5}
		words := []byte("hostler-agent: \"f\" was left out\nhostler-agent: open /denied: permission denied\n")
		if at == "/absent" {
			exit.Code, words = protocol.ExitAbsent, []byte("hostler-agent: no such file: /absent\n")
		}
		s.write(h, o, protocol.Stderr, words)
		r := failed(o, protocol.EventExit, protocol.ReasonExit, exit)
		r.Output = []protocol.Output{{FD: protocol.Stderr, Bytes: int64(len(words))}}
		h.Report(r)
		return
	}
	b := archiveOf(at)
	if at == "/changes" && broken {
		b = archiveOf("/half")
	}
	sum := protocol.Sum(b)
	switch {
	case broken:
		s.write(h, o, protocol.Stdout, b[:1100])
		r := failed(o, protocol.EventInterrupt, protocol.ReasonInterrupted, nil)
		r.Output = []protocol.Output{{FD: protocol.Stdout, Bytes: 1100}}
		h.Report(r)
		return
	case f.Have > 0 && protocol.Sum(b[:f.Have]) != f.HaveSHA256:
		h.Report(failed(o, protocol.EventExit, protocol.ReasonExit, &protocol.Exit{Code: protocol.ExitChanged, RunMS: 5}))
		return
	case at == "/lies":
		sum[0] ^= 1
	case at == "/stalls" && f.Have == 0:
		s.write(h, o, protocol.Stdout, b[:1100])
		h.Report(o.Done(protocol.Output{FD: protocol.Stdout, Bytes: int64(len(b)), Archive: &protocol.Archive{SHA256: sum, Files: 2, Bytes: 10}}))
		h.Goodbye()
		return
	}
	b = b[f.Have:]
	if len(b) > 0 {
		s.write(h, o, protocol.Stdout, b)
	}
	out := protocol.Output{FD: protocol.Stdout, Bytes: int64(len(b))}
	if at != "/mute" {
		out.Archive = &protocol.Archive{SHA256: sum, Files: 1, Bytes: 5, Sums: []protocol.FileSum{{Name: "a", Bytes: 5, SHA256: protocol.Sum([]byte("alpha"))}}}
	}
	h.Report(o.Done(out))
}

func (s *site) write(h *coordtest.Host, o coordtest.Order, fd protocol.FD, b []byte) {
	h.Write(o.Item.Action, 1, fd, b)
}

// archiveOf is what the host answers to a pull of a path: it is hostile.
func archiveOf(at string) []byte {
	file := func(name string) tar.Header {
		return tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o4644, Size: 5}
	}
	all := map[string][]tar.Header{
		"/good":    {{Typeflag: tar.TypeDir, Name: "good", Mode: 0o755}, file("good/a"), {Typeflag: tar.TypeSymlink, Name: "good/l", Linkname: "a"}},
		"/up":      {file("first"), file("../escaped")},
		"/abs":     {file("/tmp/hostler-escaped")},
		"/link":    {{Typeflag: tar.TypeSymlink, Name: "l", Linkname: ".."}, file("l/escaped")},
		"/device":  {{Typeflag: tar.TypeBlock, Name: "d"}},
		"/torn":    {file("torn")},
		"/one":     {file("one")},
		"/lies":    {file("lies")},
		"/mute":    {file("mute")},
		"/stalls":  {{Typeflag: tar.TypeDir, Name: "stalls", Mode: 0o755}, file("stalls/a"), file("stalls/b")},
		"/half":    {{Typeflag: tar.TypeDir, Name: "half", Mode: 0o755}, file("half/a"), file("half/b")},
		"/changes": {{Typeflag: tar.TypeDir, Name: "changes", Mode: 0o755}, file("changes/c"), file("changes/d")},
	}[at]
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range all {
		_ = w.WriteHeader(&h) // into memory
		if h.Size > 0 {
			_, _ = io.WriteString(w, "alpha") // likewise
		}
	}
	_ = w.Close() // likewise
	if at == "/torn" {
		return b.Bytes()[:514]
	}
	return b.Bytes()
}

func failed(o coordtest.Order, e protocol.Event, why protocol.Reason, x *protocol.Exit) protocol.Report {
	r := o.Done()
	r.Event, r.State, r.Reason, r.Exit = e, protocol.StateFailed, why, x
	return r
}

// command lets a script play the site:
//
//	site running   the command slow was ordered
//	site join HOST a host waits for approval
//	site followed  and whoever asked for it has been answered, and follows it
//	site finish    the command slow ends
//	site cancelled the host cancels the command slow
//	site down, up  connections are cut and requests break, until they are answered again
//	site approvals N  behind N of them one cannot be taken
//	site mute, heard  no output can be read, until it can be again
//	site lacks F   nothing of a file was sent
//	site agent     there is an agent on $HOSTLER_SOCKET
//	site sign DIR  writes messages to verify
//	site approver PERSON FILE: an owner lets a person in
func (s *site) command(ts *testscript.TestScript, _ bool, args []string) {
	switch args[0] {
	case "running", "followed":
		o := <-s.orders
		s.orders <- o
		if args[0] == "followed" {
			s.untilFollowed(o.Item.Action)
		}
	case "join":
		s.fleet.Join(protocol.HostID(args[1]))
	case "finish":
		o := <-s.orders
		s.host.Report(o.Done(protocol.Output{FD: protocol.Stdout, Bytes: 6}))
	case "cancelled":
		o := <-s.orders
		<-s.host.Controls()
		s.host.Report(o.Cancelled())
	case "down", "up":
		s.setDown(args[0] == "down")
	case "approvals":
		n, err := strconv.Atoi(args[1])
		ts.Check(err)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.takes = n + 1
	case "mute", "heard":
		s.setMute(args[0] == "mute")
	case "lacks":
		b, err := os.ReadFile(ts.MkAbs(args[1]))
		ts.Check(err)
		if p, err := s.fleet.Coordinator().Relay().Payloads.Get(core.Actor{Name: "test", Role: core.RoleAdmin}, protocol.Sum(b)); !errors.Is(err, core.ErrNotFound) {
			ts.Fatalf("the coordinator has %d bytes of it: %v", p.Have, err)
		}
	case "recovered", "impostor":
		s.recovered(ts, args[0] == "recovered")
	case "agent":
		s.asAgent(ts.Getenv("HOSTLER_SOCKET"))
	case "approver":
		s.letIn(ts, args[1], ts.MkAbs(args[2]))
	case "sign":
		s.sign(ts, ts.MkAbs(args[1]))
	default:
		ts.Fatalf("the site knows no %q", args[0])
	}
}

// letIn puts a ring into force that has the certificate in a file as that of an
// approver.
func (s *site) letIn(ts *testscript.TestScript, person, file string) {
	k, err := keyring.ReadCertificate(file)
	ts.Check(err)
	next := s.chain.Next()
	ts.Check(next.AddPersonKey(person, k))
	raw, err := certs.SignRing(next, s.owner)
	ts.Check(err)
	chain, err := s.chain.Advance(raw)
	ts.Check(err)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.chain, s.rings = chain, chain.From(1)
	s.fleet.Trust.SetRing(next.Number)
	s.fleet.Trust.AddKey(person, k.Key(), k)
}

// sign writes a presence of edge-01: good, with a changed byte, by a stranger,
// in the name of another host, and with its topic in front.
func (s *site) sign(ts *testscript.TestScript, dir string) {
	ts.Check(os.MkdirAll(dir, 0o700))
	body := `{"hostler":"presence/1","fleet":"` + s.id.String() + `","from":"host:edge-01","to":"coordinator","ring":2,"seq":{"inc":1,"conn":1,"k":2},"chal":"0102030405060708","kind":"online"}`
	put := func(name string, b []byte) { ts.Check(os.WriteFile(filepath.Join(dir, name), b, 0o600)) }
	seal := func(i *certs.Identity, body string) []byte {
		b, err := protocol.Seal(i, []byte(body), nil)
		ts.Check(err)
		return b
	}
	good := seal(s.edge, body)
	stranger, err := certs.Generate("stranger", time.Now())
	ts.Check(err)
	put("good", good)
	put("captured", append(append([]byte("hostler/v1/lab/host/edge-01/presence "), good...), '\n'))
	put("elsewhere", append([]byte("hostler/v1/lab/host/edge-02/presence "), good...))
	changed := append([]byte(nil), good...)
	changed[len(changed)-10] ^= 1
	put("changed", changed)
	put("stranger", seal(stranger, body))
	put("rings", s.rings)
	put("retained", append([]byte("hostler/v1/lab/fleet/ring "), s.rings...))
	put("mislaid", append([]byte("hostler/v1/lab/fleet/revoked "), s.rings...))
	put("garbage", []byte("hello"))
	s.capture(ts, put, good)
	s.signAudit(ts, put)
}

// capture writes what mosquitto_sub -v prints: documents of several lines, output with
// lines of its own that look like topics, and a retained message that was removed.
func (s *site) capture(ts *testscript.TestScript, put func(name string, b []byte), presence []byte) {
	output := []byte("a\nhostler/v1/lab/host/edge-01/presence {}\n\x00\xff\n")
	action := protocol.NewActionID(1, [10]byte{7})
	body, err := json.Marshal(protocol.Header{
		Type: protocol.TypeOut, Fleet: s.id, From: protocol.HostParty("edge-01"), To: protocol.Coordinator, Ring: 2,
		Action: action, Attempt: 1, FD: protocol.Stdout, Size: int64(len(output)), SHA256: protocol.Sum(output),
	})
	ts.Check(err)
	chunk, err := protocol.Seal(s.edge, body, output)
	ts.Check(err)
	line := func(topic string, payload []byte) []byte {
		return slices.Concat([]byte("hostler/v1/lab/"+topic+" "), payload, []byte("\n"))
	}
	whole := slices.Concat(
		line("fleet/ring", s.rings), line("host/edge-01/presence", presence), line("host/edge-01/out/"+action.String(), chunk),
		line("host/edge-01/presence", []byte("(null)")), line("host/edge-01/presence", presence))
	put("v", whole)
	put("v-strange", slices.Concat(whole, []byte("Client (null) received\n$SYS/x 1\n"), line("host/edge-01/presence", presence)))
	put("v-changed", bytes.Replace(whole, []byte("\x00\xff"), []byte("\x00\xfe"), 1))
}

// signAudit writes an audit log of five records under two checkpoints, how it
// was after the first, one whose end a stranger has signed, and a receipt that
// carries its newest checkpoint.
func (s *site) signAudit(ts *testscript.TestScript, put func(name string, b []byte)) {
	stranger, err := certs.Generate("stranger", time.Now())
	ts.Check(err)
	var lines, newest []byte
	var h protocol.Digest
	n := uint64(0)
	write := func(by *certs.Identity, records int) {
		var leaves []byte
		after := n
		for range records {
			stored, err := audit.Record{AtMS: 5, Actor: "token:alice", Verb: "host.approve"}.Encode()
			ts.Check(err)
			n++
			line := audit.Line(n, stored)
			leaf := audit.Leaf(line)
			h, leaves, lines = audit.Fold(h, leaf), append(leaves, leaf[:]...), append(append(lines, line...), '\n')
		}
		body, err := json.Marshal(protocol.Checkpoint{
			Type: protocol.TypeCheckpoint, Fleet: s.id, Log: protocol.Coordinator, Store: protocol.StoreID{5}, After: after, N: n, H: h,
			Ring: 2, Term: protocol.Term{Ring: 2, Counter: 1}, AtMS: 5,
		})
		ts.Check(err)
		newest, err = protocol.Seal(by, body, nil)
		ts.Check(err)
		newest = append(newest, '\n')
		lines = slices.Concat(lines, audit.LeavesLine(n, leaves), []byte("\n"), newest)
	}
	write(s.signer, 3)
	begun, hBegun := lines, h
	put("shorter", slices.Concat(newest, lines))
	write(s.signer, 2)
	put("audit", slices.Concat(newest, lines))
	receipt, err := protocol.Seal(s.signer, fmt.Appendf(nil, `{"hostler":"receipt/1","checkpoint":"%s"}`, base64.StdEncoding.EncodeToString(bytes.TrimSpace(newest))), nil)
	ts.Check(err)
	put("receipt", receipt)
	lines, h, n = slices.Clone(begun), hBegun, 3
	write(stranger, 2)
	put("forged", slices.Concat(newest, lines))
}

// reads notes that somebody reads the output of an action.
func (s *site) reads(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.read[id] = true
	close(s.asked)
	s.asked = make(chan struct{})
}

// untilFollowed waits until somebody has asked for the output of an action.
func (s *site) untilFollowed(id protocol.ActionID) {
	for {
		s.mu.Lock()
		followed, more := s.read[id.String()], s.asked
		s.mu.Unlock()
		if followed {
			return
		}
		<-more
	}
}

// setDown breaks every connection, and says whether there are new ones.
func (s *site) setDown(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
	for _, c := range s.conns {
		_ = c.Close() // some are closed already
	}
	s.conns = nil
}

// setMute has all output fail to be read, or not any more.
func (s *site) setMute(mute bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mute = mute
}

func (s *site) isMute() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mute
}

// failsToApprove reports, for each approval that comes, whether it is the one that
// cannot be taken.
func (s *site) failsToApprove() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.takes == 0 {
		return false
	}
	s.takes--
	return s.takes == 0
}
