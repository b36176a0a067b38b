//go:build integration && heavy

package integration

import (
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/protocol"
)

// What is done between the first and the second look at the daemons. The first
// is after some of it, when caches, pools and pages of the programs are there.
const (
	leakWarmUp     = 2000
	leakActions    = 10_000
	leakReconnects = 1000
	// How much more memory each may then have. The agent's is that of the pages
	// of its program that came to use meanwhile; the coordinator's heap may be
	// found anywhere between two collections.
	leakAgentMB, leakCoordinatorMB = 2, 12
)

// TestNothingLeaks compares both daemons before and after thousands of actions of
// all kinds, well ended and not, and of connections.
func TestNothingLeaks(t *testing.T) {
	w := newWorld(t)
	h := w.addHost(t, "edge-01", true)
	w.must(t, "ct", "create", "edge-01/web", "--template", "busybox", "--start")
	l := newLeaks(t, w, h)
	l.prepare(t)
	l.orders(t, leakWarmUp)
	l.reconnects(t, 100)
	l.lists(t)
	before := l.rest(t, nil)
	l.orders(t, leakActions)
	l.reconnects(t, leakReconnects)
	after := l.rest(t, &before)
	t.Logf("before %+v", before)
	t.Logf("after  %+v", after)
	hasLeftNothing(t, before, after)
	if grown := after.agent.rssMB - before.agent.rssMB; grown > leakAgentMB {
		t.Errorf("the agent has %.1f MB more than before, at most %d are allowed", grown, leakAgentMB)
	}
	if grown := after.coordinator.rssMB - before.coordinator.rssMB; grown > leakCoordinatorMB {
		t.Errorf("the coordinator has %.1f MB more than before, at most %d are allowed", grown, leakCoordinatorMB)
	}
	w.quiet(t)
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
		s.SetInput(sum, int64(len(leakPayload)))
		return s
	}
	run := func(argv ...string) protocol.Spec {
		return protocol.Spec{Kind: protocol.KindRun, Args: protocol.Command(argv...)}
	}
	file := func(mode string, paths ...string) *protocol.FileArgs {
		return &protocol.FileArgs{Paths: paths, Mode: mode}
	}
	for range 9 {
		add(run("/bin/true"), protocol.StateDone)
	}
	add(run("/bin/false"), protocol.StateFailed)
	add(run("/nosuch"), protocol.StateFailed)
	add(run("/bin/sleep", "1000"), protocol.StateCancelled)
	add(protocol.Spec{Kind: protocol.KindExec, Target: ct, Args: protocol.Command("true")}, protocol.StateDone)
	add(protocol.Spec{Kind: protocol.KindExec, Target: ct, Args: protocol.Command("false")}, protocol.StateFailed)
	add(with(run("/bin/cat")), protocol.StateDone)
	add(with(protocol.Spec{Kind: protocol.KindExec, Target: ct, Args: protocol.Command("cat")}), protocol.StateDone)
	add(with(protocol.Spec{Kind: protocol.KindHostPush, Args: &protocol.PushArgs{Files: file("0644", l.drop+"/pushed")}}), protocol.StateDone)
	add(with(protocol.Spec{Kind: protocol.KindHostPush, Args: &protocol.PushArgs{Files: file("0644", l.drop+"/nosuch/pushed")}}), protocol.StateFailed)
	add(with(protocol.Spec{Kind: protocol.KindContainerPush, Target: ct, Args: &protocol.PushArgs{Files: file("0644", "/etc/pushed")}}), protocol.StateDone)
	add(protocol.Spec{Kind: protocol.KindHostPull, Args: &protocol.PullArgs{Files: file("", "/etc/hostname")}}, protocol.StateDone)
	add(protocol.Spec{Kind: protocol.KindContainerPull, Target: ct, Args: &protocol.PullArgs{Files: file("", "/etc/passwd")}}, protocol.StateDone)
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
