//go:build integration

package integration

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/san"
)

const (
	leakParallel = 10
	// leakPatience is how long the daemons may take to come to rest: old actions
	// are forgotten a minute later, and by and by.
	leakPatience = 3 * time.Minute
)

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

func newLeaks(t *testing.T, w *world, h *host) *leaks {
	cert, err := tls.LoadX509KeyPair(w.issued(t, san.Name{Kind: san.Host, ID: "edge-77"}))
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
	return l
}

// daemon is what is seen of one.
type daemon struct{ fds, goroutines, rssMB float64 }

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

// look is what is seen of all.
type look struct {
	agent, coordinator daemon
	groups, runs       int
	pushed, inputs     int // files
	payloads, state    int
}

// ownGoroutines is how many goroutines of the very request that asks for their number
// may be there or not: those of queries of its token end a moment after it. One that
// each of ten sessions or thousands of actions left would be more.
const ownGoroutines = 4

// hasLeftNothing compares all that is counted but memory, which grows within bounds.
func hasLeftNothing(t *testing.T, before, after look) {
	t.Helper()
	for name, pair := range map[string][2]float64{
		"descriptors of the agent":       {before.agent.fds, after.agent.fds},
		"goroutines of the agent":        {before.agent.goroutines + ownGoroutines, after.agent.goroutines},
		"descriptors of the coordinator": {before.coordinator.fds, after.coordinator.fds},
		"goroutines of the coordinator":  {before.coordinator.goroutines + ownGoroutines, after.coordinator.goroutines},
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
		if settled && (before == nil || now.agent.goroutines <= before.agent.goroutines+ownGoroutines && now.coordinator.goroutines <= before.coordinator.goroutines+ownGoroutines) {
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
	now.payloads, now.state = len(entriesOf(t, l.w.path("coordinator/payloads/admin"))), len(entries(t, l.h.dir))
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
