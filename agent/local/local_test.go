package local_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hostler-io/hostler/agent"
	"github.com/hostler-io/hostler/agent/commands"
	"github.com/hostler-io/hostler/agent/local"
	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/client"
	"github.com/hostler-io/hostler/internal/brief"
	"github.com/hostler-io/hostler/internal/builttest"
	"github.com/hostler-io/hostler/internal/space"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/runner"
)

// world is an agent without a coordinator that serves its socket.
type world struct {
	*client.Client
	socket string
	agent  *agent.Agent
	stop   func()
}

func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldWith(t, func(*agent.Config) {})
}

func newWorldWith(t *testing.T, change func(*agent.Config)) *world {
	t.Helper()
	dir := t.TempDir()
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	q := must[*queue.Queue](t)(queue.Create(t.Context(), queue.Config{Path: filepath.Join(dir, "queue.db"), Log: log}, protocol.StoreID{1}))
	r := must[*runner.Runner](t)(runner.New(runner.Config{Root: filepath.Join(dir, "runs"), Log: log}))
	boot := must[string](t)(runner.Boot())
	supervisors := commands.NewSupervisors(r, boot)
	cfg := agent.Config{
		Host: "edge-01", Fleet: protocol.FleetID{1}, FleetName: "lab", Queue: q, Boot: boot, Log: log,
		Commands: supervisors, RunDirs: supervisors, Supervisor: []string{builttest.Program(t, "hostler-run")},
	}
	change(&cfg)
	a := must[*agent.Agent](t)(agent.New(cfg))
	w := &world{socket: filepath.Join(dir, "agent.sock"), agent: a}
	h := must[http.Handler](t)(local.New(local.Config{Agent: a, Host: "edge-01", Version: "1.2.3", Check: well, Log: log}))
	l := must[net.Listener](t)(local.Listen(t.Context(), w.socket, -1))
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var wg sync.WaitGroup
	wg.Go(func() { _ = a.Run(ctx) })             // returns what ended it
	wg.Go(func() { _ = local.Serve(ctx, l, h) }) // likewise
	w.stop = sync.OnceFunc(func() { cancel(); wg.Wait() })
	t.Cleanup(func() {
		w.stop()
		if err := errors.Join(q.Close(), r.Close()); err != nil {
			t.Error(err)
		}
	})
	w.Client = must[*client.Client](t)(client.New(client.Config{Address: "unix://" + w.socket}))
	return w
}

func runSpec(t testing.TB, argv ...string) []byte {
	t.Helper()
	return must[[]byte](t)(json.Marshal(protocol.Spec{Kind: protocol.KindRun, Args: protocol.Command(argv...)}))
}

// run asks for a command and waits for its end.
func (w *world) run(t testing.TB, argv ...string) api.Action {
	t.Helper()
	var a api.Action
	if err := w.Post(t.Context(), "/v1/actions", url.Values{"wait": {"30s"}}, api.NewAction{Spec: runSpec(t, argv...)}, &a); err != nil {
		t.Fatal(err)
	}
	return a
}

func TestRun(t *testing.T) {
	w := newWorld(t)
	a := w.run(t, "/bin/sh", "-c", "echo out; echo err >&2; exit 7")
	if a.State != "FAILED" || a.Reason != "exit" || a.Exit == nil || a.Exit.Code != 7 || a.Host != "edge-01" || a.Kind != "host.run" {
		t.Errorf("got %+v", a)
	}
	if want := "uid:0"; os.Geteuid() == 0 && a.Requester != want {
		t.Errorf("the requester is %q, want %q", a.Requester, want)
	}
	for fd, want := range map[string]string{"stdout": "out\n", "stderr": "err\n"} {
		var b bytes.Buffer
		next, err := w.Output(t.Context(), client.Reading{Action: a.ID[:13], FD: fd}, &b)
		if err != nil || next != -1 || b.String() != want {
			t.Errorf("%s is %q, then %d: %v", fd, b.String(), next, err)
		}
	}
	var b bytes.Buffer
	if next, err := w.Output(t.Context(), client.Reading{Action: a.ID, FD: "stdout", Offset: 2, Follow: true, Hold: true}, &b); err != nil || next != -1 || b.String() != "t\n" {
		t.Errorf("from the middle: %q, then %d: %v", b.String(), next, err)
	}
}

// TestFollow reads output while the command writes it, then cancels it.
func TestFollow(t *testing.T) {
	w := newWorld(t)
	var a api.Action
	if err := w.Post(t.Context(), "/v1/actions", nil, api.NewAction{Host: "edge-01", Spec: runSpec(t, "/bin/sh", "-c", "echo first; exec sleep 1000")}, &a); err != nil {
		t.Fatal(err)
	}
	if a.State == "DONE" {
		t.Fatalf("it has ended: %+v", a)
	}
	r, p := io.Pipe()
	followed := make(chan error, 1)
	go func() {
		next, err := w.Output(t.Context(), client.Reading{Action: a.ID, FD: "stdout", Offset: 0, Follow: true, Hold: true}, p)
		if err == nil && next != -1 {
			err = errors.New("the end is not told as the end")
		}
		followed <- errors.Join(err, p.Close())
	}()
	line := make([]byte, len("first\n"))
	if _, err := io.ReadFull(r, line); err != nil || string(line) != "first\n" {
		t.Fatalf("followed %q: %v", line, err)
	}
	if err := w.Post(t.Context(), "/v1/actions/"+a.ID+"/cancel", url.Values{"wait": {"30s"}}, nil, &a); err != nil {
		t.Fatal(err)
	}
	if a.State != "CANCELLED" || a.Shown != "cancelled" {
		t.Errorf("after the cancel: %s, shown as %s", a.State, a.Shown)
	}
	if err := <-followed; err != nil {
		t.Error(err)
	}
}

// TestShutdown ends the agent under a follower, which learns where to go on.
func TestShutdown(t *testing.T) {
	w := newWorld(t)
	var a api.Action
	if err := w.Post(t.Context(), "/v1/actions", nil, api.NewAction{Spec: runSpec(t, "/bin/sleep", "1000")}, &a); err != nil {
		t.Fatal(err)
	}
	first, second := make(chan int64, 1), make(chan string, 1)
	r, p := io.Pipe()
	go func() {
		var waited api.Action
		if err := w.Get(t.Context(), "/v1/actions/"+a.ID, url.Values{"wait": {"10m"}}, &waited); err != nil {
			t.Error(err)
		}
		second <- waited.State
	}()
	var b api.Action
	if err := w.Post(t.Context(), "/v1/actions", nil, api.NewAction{Spec: runSpec(t, "/bin/sh", "-c", "echo first; exec sleep 1000")}, &b); err != nil {
		t.Fatal(err)
	}
	go func() {
		next, err := w.Output(t.Context(), client.Reading{Action: b.ID, FD: "stdout", Offset: 0, Follow: true, Hold: true}, p)
		if err != nil {
			t.Error(err)
		}
		first <- next
	}()
	if _, err := io.ReadFull(r, make([]byte, 6)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.endAll(t) })
	w.stop()
	if next := <-first; next != 6 {
		t.Errorf("the follower is told to go on at %d, want 6", next)
	}
	if state := <-second; state != "RUNNING" {
		t.Errorf("who waited is told %s", state)
	}
}

// endAll kills what an agent that was stopped has left running.
func (w *world) endAll(t testing.TB) {
	t.Helper()
	runs := filepath.Join(filepath.Dir(w.socket), "runs")
	r := must[*runner.Runner](t)(runner.New(runner.Config{Root: runs}))
	defer r.Close()
	for _, id := range must[[]runner.ID](t)(r.List()) {
		found := must[runner.Found](t)(r.Recover(context.WithoutCancel(t.Context()), id.Action, id.Attempt, must[string](t)(runner.Boot())))
		if found.Run != nil {
			if err := found.Run.Cancel(context.WithoutCancel(t.Context())); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestList(t *testing.T) {
	w := newWorld(t)
	var ids []string
	for range 3 {
		ids = append(ids, w.run(t, "/bin/true").ID)
	}
	for query, want := range map[string][]string{
		"":                              {ids[2], ids[1], ids[0]},
		"limit=2":                       {ids[2], ids[1]},
		"limit=2&cursor=" + ids[1]:      {ids[0]},
		"state=DONE,FAILED":             {ids[2], ids[1], ids[0]},
		"state=RUNNING":                 {},
		"host=edge-02":                  {},
		"host=edge-01&state=DONE":       {ids[2], ids[1], ids[0]},
		"cursor=" + ids[0] + "&limit=1": {},
	} {
		var all []api.Action
		if err := w.Get(t.Context(), "/v1/actions", must[url.Values](t)(url.ParseQuery(query)), &all); err != nil {
			t.Errorf("%s: %v", query, err)
			continue
		}
		got := []string{}
		for _, a := range all {
			got = append(got, a.ID)
			if a.Spec != nil {
				t.Error("a list carries specs")
			}
		}
		if strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("%s: got %v, want %v", query, got, want)
		}
	}
}

// TestProposeTwice is harmless with the same id and refused with another spec.
func TestProposeTwice(t *testing.T) {
	w := newWorld(t)
	a := w.run(t, "/bin/true")
	again := api.NewAction{ID: a.ID, Spec: runSpec(t, "/bin/true")}
	var b api.Action
	if err := w.Post(t.Context(), "/v1/actions", nil, again, &b); err != nil || b.AcceptSeq != a.AcceptSeq {
		t.Errorf("the same again gives %+v: %v", b, err)
	}
	again.Spec = runSpec(t, "/bin/false")
	err := w.Post(t.Context(), "/v1/actions", nil, again, nil)
	if p, ok := errors.AsType[*api.Problem](err); !ok || p.Code != api.CodeExists {
		t.Errorf("another spec gives %v", err)
	}
}

func TestProblems(t *testing.T) {
	w := newWorld(t)
	a := w.run(t, "/bin/true")
	huge := bytes.Repeat([]byte("x"), 100<<10)
	for _, c := range []struct {
		method, path, body, code string
	}{
		{"GET", "/v1/actions/01890000-0000-7000-8000-000000000000", "", api.CodeNotFound},
		{"GET", "/v1/actions/0189", "", api.CodeNotFound},
		{"GET", "/v1/actions/01", "", api.CodeBadReference},
		{"GET", "/v1/actions/" + a.ID + "?wait=soon", "", api.CodeInvalid},
		{"GET", "/v1/actions/" + a.ID + "?wait=11m", "", api.CodeInvalid},
		{"GET", "/v1/actions?limit=0", "", api.CodeInvalid},
		{"GET", "/v1/actions?state=done", "", api.CodeInvalid},
		{"GET", "/v1/actions/" + a.ID + "/output?stream=stdin", "", api.CodeInvalid},
		{"GET", "/v1/actions/" + a.ID + "/output?offset=-1", "", api.CodeInvalid},
		{"GET", "/v1/actions/" + a.ID + "/output?follow=maybe", "", api.CodeInvalid},
		{"POST", "/v1/actions", `{"host":"edge-02","spec":"e30="}`, api.CodeInvalid},
		{"POST", "/v1/actions", `{"host":"","spec":"e30="}`, api.CodeInvalid},
		{"POST", "/v1/actions", `{"host":"","spec":"e30=","more":1}`, api.CodeInvalid},
		{"POST", "/v1/actions", `{"id":"x","host":"","spec":"e30="}`, api.CodeInvalid},
		{"POST", "/v1/actions", `{`, api.CodeInvalid},
		{"POST", "/v1/actions", string(huge), api.CodeTooLarge},
		{"POST", "/v1/actions/01890000-0000-7000-8000-000000000000/cancel", "", api.CodeNotFound},
		{"POST", "/heartbeat", "", api.CodeUnavailable},
		{"DELETE", "/v1/actions", "", api.CodeMethod},
		{"GET", "/trigger", "", api.CodeMethod},
		{"GET", "/v1/hosts", "", api.CodeNotFound},
	} {
		status, header, body := w.raw(t, c.method, c.path, c.body)
		var p api.Problem
		if err := json.Unmarshal(body, &p); err != nil || p.Code != c.code || p.Status != status || p.Detail == "" {
			t.Errorf("%s %s: %d %s", c.method, c.path, status, body)
		}
		if got := header.Get("Content-Type"); got != api.ContentProblem {
			t.Errorf("%s %s: the problem is %s", c.method, c.path, got)
		}
	}
}

// TestErrorsAreBrief: an answer repeats at most 200 characters of what was sent.
func TestErrorsAreBrief(t *testing.T) {
	w := newWorld(t)
	for _, long := range []string{strings.Repeat("x", 3000), strings.Repeat("many words ", 300)} {
		in := url.QueryEscape(long)
		for _, c := range []struct{ method, path, body string }{
			{"GET", "/v1/actions/" + url.PathEscape(long), ""}, {"GET", "/v1/" + url.PathEscape(long), ""},
			{"GET", "/v1/actions?state=" + in, ""}, {"GET", "/v1/actions?limit=" + in, ""},
			{"POST", "/v1/actions", `{"host":"` + long + `","spec":"e30="}`}, {"POST", "/v1/actions", `{"host":"","` + long + `":1}`},
			{"POST", "/v1/actions", `{"host":"","kind":"` + long + `"}`}, {"POST", "/v1/actions", `{"host":"","kind":"host.run","args":{"argv":["true"],"` + long + `":1}}`},
		} {
			status, _, body := w.raw(t, c.method, c.path, c.body)
			if status < http.StatusBadRequest || len(body) > 1000 || strings.Contains(string(body), long[:brief.Most+1]) {
				t.Errorf("%s %.60s %.60s: %d, %d bytes: %s", c.method, c.path, c.body, status, len(body), body)
			}
		}
	}
}

// TestBodiesMeanOneThing sends bodies of which two readers would each make
// something else.
func TestBodiesMeanOneThing(t *testing.T) {
	w := newWorld(t)
	spec := func(argv string) string { return base64.StdEncoding.EncodeToString(runSpec(t, argv)) }
	shown, run := spec("/bin/true"), spec("/bin/false")
	for _, body := range []string{
		`{"host":"","spec":"` + shown + `","spec":"` + run + `"}`,
		`{"host":"","spec":"` + shown + `","SPEC":"` + run + `"}`,
		`{"host":"","spec":"` + shown + `","\u017fpec":"` + run + `"}`,
		`{"host":"","spec":"` + shown + `"}{"host":"","spec":"` + run + `"}`,
		`{"host":null,"spec":"` + shown + `"}`,
		`{"host":"","spec":"` + shown + `","more":1}`,
		"{\"host\":\"\",\"spec\":\"" + shown + "\",\"requester\":\"\xff\"}",
	} {
		if status, _, answer := w.raw(t, "POST", "/v1/actions", body); status != http.StatusBadRequest {
			t.Errorf("%q: %d %s", body, status, answer)
		}
	}
	if status, _, answer := w.raw(t, "GET", "/v1/actions", ""); status != http.StatusOK || bytes.Contains(answer, []byte(`"id"`)) {
		t.Errorf("something was accepted: %d %s", status, answer)
	}
}

// raw makes a request as curl would.
func (w *world) raw(t testing.TB, method, path, body string) (int, http.Header, []byte) {
	t.Helper()
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", w.socket)
	}}}
	resp := must[*http.Response](t)(c.Do(must[*http.Request](t)(http.NewRequestWithContext(t.Context(), method, "http://agent"+path, strings.NewReader(body)))))
	defer resp.Body.Close()
	return resp.StatusCode, resp.Header, must[[]byte](t)(io.ReadAll(resp.Body))
}

// TestAuditExportNeedsAKey: a host without a fleet has no key that its log could be
// signed with.
func TestAuditExportNeedsAKey(t *testing.T) {
	w := newWorld(t)
	var out bytes.Buffer
	err := w.Lines(t.Context(), "/v1/audit/export", nil, &out)
	p, ok := errors.AsType[*api.Problem](err)
	if !ok || p.Code != api.CodeInvalid || p.Hint == "" || out.Len() > 0 {
		t.Errorf("got %v and %d bytes", err, out.Len())
	}
}

func TestStatusPingTrigger(t *testing.T) {
	w := newWorld(t)
	var s api.AgentStatus
	if err := w.Get(t.Context(), "/status", nil, &s); err != nil {
		t.Fatal(err)
	}
	if s.Host != "edge-01" || s.Version != "1.2.3" || s.Connection != "none" || s.Starts != 1 || s.Fleet != "" {
		t.Errorf("got %+v", s)
	}
	if status, _, b := w.raw(t, "GET", "/ping", ""); status != 200 || string(b) != "pong\n" {
		t.Errorf("ping: %d %s", status, b)
	}
	if status, _, b := w.raw(t, "POST", "/trigger", ""); status != 204 {
		t.Errorf("trigger: %d %s", status, b)
	}
	if status, _, b := w.raw(t, "GET", "/v1/containers", ""); status != 200 || string(b) != "[]\n" {
		t.Errorf("containers: %d %s", status, b)
	}
}

// filling are run directories on a file system that somebody has nearly filled.
type filling struct {
	commands.RunDirs
	left atomic.Int64 // bytes of 64 MiB
}

func (f *filling) Space() (space.Space, error) {
	return space.Space{Total: 64 << 20, Free: f.left.Load()}, nil
}

// TestReady: who looks after the agent is told why it accepts nothing.
func TestReady(t *testing.T) {
	var disk filling
	w := newWorldWith(t, func(c *agent.Config) {
		disk.RunDirs, c.RunDirs = c.RunDirs, &disk
	})
	answers := func(want int, text string) {
		t.Helper()
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for begun := time.Now(); ; <-tick.C { // it looks at its disk in its own time
			status, _, b := w.raw(t, "GET", "/readyz", "")
			if status == want && strings.HasPrefix(string(b), text) {
				return
			}
			if time.Since(begun) > 2*time.Minute {
				t.Fatalf("it answers %d %s; want %d %s", status, b, want, text)
			}
		}
	}
	var a api.Action
	if err := w.Post(t.Context(), "/v1/actions", nil, api.NewAction{Spec: runSpec(t, "/bin/true")}, &a); err == nil {
		t.Errorf("a command begins with nothing free: %+v", a)
	}
	answers(503, "nothing new is accepted: ")
	disk.left.Store(32 << 20)
	answers(200, "ok\n")
}

// TestMetrics wants every code from the first scrape on.
func TestMetrics(t *testing.T) {
	w := newWorld(t)
	w.run(t, "/bin/true")
	_, _, b := w.raw(t, "GET", "/metrics", "")
	for _, c := range protocol.Codes() {
		if want := "hostler_agent_messages_refused_total{code=\"" + string(c) + "\"} 0\n"; !bytes.Contains(b, []byte(want)) {
			t.Errorf("missing: %s", want)
		}
	}
	for _, want := range []string{
		"hostler_agent_actions_accepted_total 1\n", "hostler_agent_actions_ended_total{state=\"DONE\"} 1\n",
		"hostler_agent_containers{state=\"running\"} 0\n", "hostler_agent_connected 0\n", "hostler_agent_lease_seconds 0\n", "hostler_agent_lease_lowest_seconds 0\n",
	} {
		if !bytes.Contains(b, []byte(want)) {
			t.Errorf("missing: %s", want)
		}
	}
}

func TestListen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run", "agent.sock")
	l := must[net.Listener](t)(local.Listen(t.Context(), path, -1))
	if mode := must[fs.FileInfo](t)(os.Stat(path)).Mode().Perm(); mode != 0o660 {
		t.Errorf("the socket has mode %o", mode)
	}
	if _, err := local.Listen(t.Context(), path, -1); err == nil || !strings.Contains(err.Error(), "another process serves it") {
		t.Errorf("a second one gets %v", err)
	}
	// A process that was killed leaves its socket.
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = must[net.Listener](t)(local.Listen(t.Context(), path, os.Getgid()))
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := local.Listen(t.Context(), path, -1); err == nil {
		t.Error("a file was replaced")
	}
	if b := must[[]byte](t)(os.ReadFile(path)); string(b) != "precious" {
		t.Errorf("the file holds %q", b)
	}
}

// TestStopped answers what comes while the agent ends.
func TestStopped(t *testing.T) {
	w := newWorld(t)
	w.stop()
	h := must[http.Handler](t)(local.New(local.Config{Agent: w.agent, Host: "edge-01", Version: "1", Check: well}))
	l := must[net.Listener](t)(local.Listen(t.Context(), w.socket, -1))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	var wg sync.WaitGroup
	wg.Go(func() { _ = local.Serve(ctx, l, h) })
	defer func() { cancel(); wg.Wait() }()
	status, _, b := w.raw(t, "GET", "/status", "")
	if status != http.StatusServiceUnavailable {
		t.Errorf("got %d %s", status, b)
	}
}

// well is the result of checks that find nothing.
func well(context.Context) []api.Finding {
	return []api.Finding{{Check: "clock", Result: api.FindingOK}}
}
