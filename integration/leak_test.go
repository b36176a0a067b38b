//go:build integration && heavy

package integration

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/protocol"
)

// What is done between the first and the second look at the daemons. The first
// is after some of it, when caches, pools and pages of the programs are there.
const (
	leakWarmUp     = 2000
	leakActions    = 10_000
	leakReconnects = 1000
	leakParallel   = 10
	// How much more memory each may then have. The agent's is that of the pages
	// of its program that came to use meanwhile; the coordinator's heap may be
	// found anywhere between two collections.
	leakAgentMB, leakCoordinatorMB = 2, 12
	// leakPatience is how long the daemons may take to come to rest: old actions
	// are forgotten a minute later, and by and by.
	leakPatience = 3 * time.Minute
)

// TestNothingLeaks compares both daemons before and after thousands of actions of
// all kinds, well ended and not, and of connections.
func TestNothingLeaks(t *testing.T) {
	w := newWorld(t)
	h := w.addHost(t, "edge-01", true)
	w.must(t, "ct", "create", "edge-01/web", "--template", "busybox", "--start")
	l := newLeaks(t, w, h)
	l.orders(t, leakWarmUp)
	l.reconnects(t, 100)
	l.lists(t)
	before := l.rest(t, nil)
	l.orders(t, leakActions)
	l.reconnects(t, leakReconnects)
	after := l.rest(t, &before)
	t.Logf("before %+v", before)
	t.Logf("after  %+v", after)
	for name, pair := range map[string][2]float64{
		"descriptors of the agent":       {before.agent.fds, after.agent.fds},
		"goroutines of the agent":        {before.agent.goroutines, after.agent.goroutines},
		"descriptors of the coordinator": {before.coordinator.fds, after.coordinator.fds},
		"goroutines of the coordinator":  {before.coordinator.goroutines, after.coordinator.goroutines},
		"control groups":                 {float64(before.groups), float64(after.groups)},
		"files beside what was pushed":   {float64(before.pushed), float64(after.pushed)},
		"inputs on the host":             {float64(before.inputs), float64(after.inputs)},
		"payloads of the coordinator":    {float64(before.payloads), float64(after.payloads)},
		"entries of the agent's state":   {float64(before.state), float64(after.state)},
	} {
		if pair[1] > pair[0] {
			t.Errorf("%s: %v, %v before", name, pair[1], pair[0])
		}
	}
	if after.runs > keptRuns {
		t.Errorf("%d run directories, at most %d are kept", after.runs, keptRuns)
	}
	if grown := after.agent.rssMB - before.agent.rssMB; grown > leakAgentMB {
		t.Errorf("the agent has %.1f MB more than before, at most %d are allowed", grown, leakAgentMB)
	}
	if grown := after.coordinator.rssMB - before.coordinator.rssMB; grown > leakCoordinatorMB {
		t.Errorf("the coordinator has %.1f MB more than before, at most %d are allowed", grown, leakCoordinatorMB)
	}
	w.quiet(t)
}

// keptRuns is how many finished actions a host keeps.
const keptRuns = 100

// leaks looks at both daemons of a world.
type leaks struct {
	w      *world
	h      *host
	client *http.Client // keeps its connections, as scripts do
	agent  *http.Client
	dial   *tls.Config // of another host
	drop   string      // where files are pushed to
	mix    []leakKind  // one after the other
}

// leakKind is an action, and how it has to end.
type leakKind struct {
	spec   []byte
	cancel bool // once it runs
	ends   protocol.State
}

// leakPayload is what is read and pushed.
const leakPayload = "what a command reads, and what a file holds\n"

// prepare says what is done: mostly commands that end well, and among ten of
// them one that fails, one that is cancelled, one in a container, one that reads a
// payload, and a file brought and fetched, of the host and of a container.
func (l *leaks) prepare(t *testing.T) {
	t.Helper()
	l.drop = l.w.path("drop")
	mkdir(t, l.drop)
	ct, err := protocol.ParseCTID(show[api.Container](t, l.w, "ct", "show", l.h.name+"/web").CTID)
	if err != nil {
		t.Fatal(err)
	}
	sum := protocol.Sum([]byte(leakPayload))
	if _, err := l.get(l.client, http.MethodPut, fmt.Sprintf("%s/v1/payloads/%s?bytes=%d", l.w.url(), sum, len(leakPayload)), leakPayload); err != nil {
		t.Fatal(err)
	}
	add := func(s protocol.Spec, ends protocol.State) {
		b, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		l.mix = append(l.mix, leakKind{b, ends == protocol.StateCancelled, ends})
	}
	with := func(s protocol.Spec) protocol.Spec {
		s.StdinSHA256, s.StdinBytes = sum, int64(len(leakPayload))
		return s
	}
	run := func(argv ...string) protocol.Spec { return protocol.Spec{Kind: protocol.KindRun, Argv: argv} }
	file := func(mode string, paths ...string) *protocol.FileArgs {
		return &protocol.FileArgs{Paths: paths, Mode: mode}
	}
	for range 9 {
		add(run("/bin/true"), protocol.StateDone)
	}
	add(run("/bin/false"), protocol.StateFailed)
	add(run("/nosuch"), protocol.StateFailed)
	add(run("/bin/sleep", "1000"), protocol.StateCancelled)
	add(protocol.Spec{Kind: protocol.KindExec, Target: ct, Argv: []string{"true"}}, protocol.StateDone)
	add(protocol.Spec{Kind: protocol.KindExec, Target: ct, Argv: []string{"false"}}, protocol.StateFailed)
	add(with(run("/bin/cat")), protocol.StateDone)
	add(with(protocol.Spec{Kind: protocol.KindExec, Target: ct, Argv: []string{"cat"}}), protocol.StateDone)
	add(with(protocol.Spec{Kind: protocol.KindHostPush, Files: file("0644", l.drop+"/pushed")}), protocol.StateDone)
	add(with(protocol.Spec{Kind: protocol.KindHostPush, Files: file("0644", l.drop+"/nosuch/pushed")}), protocol.StateFailed)
	add(with(protocol.Spec{Kind: protocol.KindContainerPush, Target: ct, Files: file("0644", "/etc/pushed")}), protocol.StateDone)
	add(protocol.Spec{Kind: protocol.KindHostPull, Files: file("", "/etc/hostname")}, protocol.StateDone)
	add(protocol.Spec{Kind: protocol.KindContainerPull, Target: ct, Files: file("", "/etc/passwd")}, protocol.StateDone)
}

func newLeaks(t *testing.T, w *world, h *host) *leaks {
	cert, err := tls.LoadX509KeyPair(w.issued(t, protocol.SAN{Kind: protocol.SANHost, ID: "edge-77"}))
	if err != nil {
		t.Fatal(err)
	}
	l := &leaks{
		w: w, h: h,
		client: &http.Client{Timeout: patience, Transport: &http.Transport{MaxIdleConnsPerHost: leakParallel, TLSClientConfig: &tls.Config{RootCAs: w.roots(t)}}},
		agent: &http.Client{Timeout: patience, Transport: &http.Transport{
			DisableKeepAlives: true,
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				var d net.Dialer
				return d.DialContext(ctx, "unix", h.socket())
			},
		}},
		dial: &tls.Config{RootCAs: w.roots(t), Certificates: []tls.Certificate{cert}, ServerName: "127.0.0.1", MinVersion: tls.VersionTLS13},
	}
	l.prepare(t)
	return l
}

// orders has n actions done.
func (l *leaks) orders(t *testing.T, n int) {
	t.Helper()
	var begun, ended atomic.Int64
	var all sync.WaitGroup
	for range leakParallel {
		all.Go(func() {
			for i := begun.Add(1); i <= int64(n); i = begun.Add(1) {
				if err := l.order(l.mix[i%int64(len(l.mix))]); err != nil {
					t.Error(err)
					return
				}
				ended.Add(1)
			}
		})
	}
	all.Wait()
	if ended.Load() != int64(n) {
		t.Fatalf("%d of %d orders were done", ended.Load(), n)
	}
	l.client.CloseIdleConnections()
}

// order has one action done.
func (l *leaks) order(k leakKind) error {
	wait := "?wait=60s"
	if k.cancel {
		wait = ""
	}
	body := fmt.Sprintf(`{"host":%q,"spec":%q}`, l.h.name, base64.StdEncoding.EncodeToString(k.spec))
	answer, err := l.get(l.client, http.MethodPost, l.w.url()+"/v1/actions"+wait, body)
	var a api.Action
	if err == nil {
		err = json.Unmarshal([]byte(answer), &a)
	}
	if err == nil && k.cancel {
		if _, err = l.get(l.client, http.MethodPost, l.w.url()+"/v1/actions/"+a.ID+"/cancel", ""); err == nil {
			if answer, err = l.get(l.client, http.MethodGet, l.w.url()+"/v1/actions/"+a.ID+"?wait=60s", ""); err == nil {
				err = json.Unmarshal([]byte(answer), &a)
			}
		}
	}
	if err != nil || a.State != string(k.ends) {
		return fmt.Errorf("%s: it is %s %s, want %s: %v: %.300s", k.spec, a.State, a.Reason, k.ends, err, answer)
	}
	return nil
}

// lists asks for long lists from all sides until every connection of the
// coordinator's store is open: they are opened when they are first needed.
func (l *leaks) lists(t *testing.T) {
	t.Helper()
	var all sync.WaitGroup
	for range leakParallel {
		all.Go(func() {
			for range 50 {
				if _, err := l.get(l.client, http.MethodGet, l.w.url()+"/v1/actions?limit=1000", ""); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	l.client.CloseIdleConnections()
}

// reconnects connects to the broker as another host n times, and hangs up.
func (l *leaks) reconnects(t *testing.T, n int) {
	t.Helper()
	connect := append([]byte{0, 4, 'M', 'Q', 'T', 'T', 4, 2, 0, 60, 0, 7}, "edge-77"...)
	for range n {
		conn, err := tls.Dial("tcp", l.w.mqtt, l.dial)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write(append([]byte{0x10, byte(len(connect))}, connect...)); err != nil {
			t.Fatal(err)
		}
		answer := make([]byte, 4)
		if _, err := io.ReadFull(conn, answer); err != nil || answer[3] != 0 {
			t.Fatalf("the broker answers %x, %v", answer, err)
		}
		if err := conn.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// daemon is what is seen of one.
type daemon struct{ fds, goroutines, rssMB float64 }

// look is what is seen of all.
type look struct {
	agent, coordinator daemon
	groups, runs       int
	pushed, inputs     int // files
	payloads, state    int
}

// rest looks at the daemons until they have come to rest: until they have no
// more than before, or did not change for a while.
func (l *leaks) rest(t *testing.T, before *look) look {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), leakPatience)
	defer cancel()
	tick := time.NewTicker(5 * time.Second)
	defer tick.Stop()
	var now look
	for same := 0; ; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return now
		}
		last := now
		now = l.look(t)
		if same++; now.agent.goroutines != last.agent.goroutines || now.coordinator.goroutines != last.coordinator.goroutines {
			same = 0
		}
		settled := now.runs <= keptRuns && now.inputs == 0 && same >= 2
		if settled && (before == nil || now.agent.goroutines <= before.agent.goroutines && now.coordinator.goroutines <= before.coordinator.goroutines) {
			return now
		}
	}
}

func (l *leaks) look(t *testing.T) look {
	t.Helper()
	theirs, err := l.get(l.client, http.MethodGet, l.w.url()+"/metrics", "")
	if err != nil {
		t.Fatal(err)
	}
	l.client.CloseIdleConnections()
	ours, err := l.get(l.agent, http.MethodGet, "http://agent/metrics", "")
	if err != nil {
		t.Fatal(err)
	}
	now := look{agent: daemonOf(t, ours), coordinator: daemonOf(t, theirs), runs: len(entries(t, l.h.path("runs")))}
	now.pushed, now.inputs = len(entries(t, l.drop)), len(entries(t, l.h.path("inputs")))
	now.payloads, now.state = len(entries(t, l.w.path("coordinator/payloads"))), len(entries(t, l.h.dir))
	for _, leaf := range l.w.leaves() {
		_ = filepath.WalkDir(leaf, func(_ string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				now.groups++
			}
			return nil
		})
	}
	return now
}

func daemonOf(t *testing.T, page string) daemon {
	t.Helper()
	value := func(name string) float64 {
		for line := range strings.Lines(page) {
			if v, ok := strings.CutPrefix(line, name+" "); ok {
				n, err := strconv.ParseFloat(strings.TrimSpace(v), 64)
				if err != nil {
					t.Fatal(err)
				}
				return n
			}
		}
		t.Fatalf("there is no metric %s", name)
		return 0
	}
	return daemon{value("process_open_fds"), value("go_goroutines"), value("process_resident_memory_bytes") / 1e6}
}

// get makes a request and returns the body of an answer that is no failure.
func (l *leaks) get(client *http.Client, method, url, body string) (string, error) {
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Authorization", "Bearer "+l.w.token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, 16<<20))
	if err == nil && resp.StatusCode/100 != 2 {
		err = fmt.Errorf("%s %s", resp.Status, b)
	}
	return string(b), err
}
