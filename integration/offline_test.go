//go:build integration

package integration

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hostler-io/hostler/api"
)

// TestCoordinatorAway is a host on its own: it obeys its own people, keeps its
// containers, and tells of it afterwards.
func TestCoordinatorAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.addHost(t, "edge-01", true)
	w.must(t, "ct", "create", "edge-01/web", "--template", "busybox", "--start")
	h.countBoots(t, "web")
	gate := w.fifo(t, "gate-away")
	begun := w.submit(t, "edge-01", "sh", "-c", `read x <"$0"; echo over`, gate)
	w.state(t, begun, "RUNNING")

	w.coordinator.end(t, kill)
	if r := h.local(t, "run", "--local", "--", "sh", "-c", "echo alone; exit 4").exits(t, 4); r.stdout != "alone\n" {
		t.Errorf("alone it printed %q", r.stdout)
	}
	if r := h.local(t, "exec", "--local", "web", "--", "hostname").exits(t, 0); r.stdout != "web\n" {
		t.Errorf("in the container it printed %q", r.stdout)
	}
	alone := strings.TrimSpace(h.local(t, "run", "--local", "--no-wait", "--", "echo", "quietly").exits(t, 0).stdout)
	w.tool(t, "kill", "-KILL", strconv.Itoa(h.initPID(t, "web")))
	h.boots(t, "web", 1)
	release(t, gate)
	h.local(t, "action", "logs", begun, "--follow").exits(t, 0)

	w.startCoordinator(t)
	w.done(t, begun)
	if out := w.must(t, "action", "logs", begun, "--follow"); out != "over\n" {
		t.Errorf("the output of the command that was under way is %q", out)
	}
	w.done(t, alone)
	act := w.action(t, alone)
	if act.Host != "edge-01" || !strings.HasPrefix(act.Requester, "host:edge-01") || fmt.Sprint(act.Argv) != "[echo quietly]" {
		t.Errorf("the host's own action is shown as %+v", act)
	}
	if out := w.must(t, "action", "logs", alone, "--follow"); out != "quietly\n" {
		t.Errorf("its output is %q", out)
	}
}

// TestHostAway: orders wait for their host, and nobody else waits.
func TestHostAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	away := w.addHost(t, "edge-01", false)
	w.addHost(t, "edge-02", false)
	from := w.events.mark()
	away.agent.end(t, term)
	w.event(t, from, "edge-01 has said goodbye", func(e api.Event) bool { return e.Type == "host.goodbye" && e.Host == "edge-01" })

	first := w.submit(t, "edge-01", "sh", "-c", `echo "$0" >>"$1"`, "first", w.path("witness"))
	unwanted := w.submit(t, "edge-01", "sh", "-c", `echo "$0" >>"$1"`, "unwanted", w.path("witness"))
	second := w.submit(t, "edge-01", "sh", "-c", `echo "$0" >>"$1"`, "second", w.path("witness"))
	w.must(t, "run", "edge-02", "--", "true")
	if act := w.action(t, first); act.State != "PENDING_SCHEDULE" || act.Shown != "waits for its host" {
		t.Errorf("it is %s, shown as %q", act.State, act.Shown)
	}
	w.must(t, "action", "cancel", unwanted)
	if got := w.ended(t, unwanted)[unwanted]; got != "CANCELLED cancelled" {
		t.Errorf("cancelled before its delivery it is %s", got)
	}
	away.start(t)
	w.done(t, first)
	w.done(t, second)
	if got := read(t, w.path("witness")); strings.Contains(got, "unwanted") || strings.Count(got, "\n") != 2 {
		t.Errorf("what ran: %q", got)
	}
}

// outputLinger is longer than an agent keeps the output of an ended command
// open, for a coordinator that asks for more of it.
const outputLinger = 12 * time.Second

// TestFootprint holds both daemons to what 500 actions may leave in memory.
func TestFootprint(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.addHost(t, "edge-01", false)
	write(t, w.path("token"), w.token)
	roundtrips := func(n int) {
		t.Helper()
		w.mustRun(t, "roundtrip", "-url", w.url(), "-ca", w.path("coordinator/ca.crt"), "-token-file", w.path("token"), "-host", "edge-01", "-n", strconv.Itoa(n))
	}
	roundtrips(100) // caches and pools are filled once
	elapse(t, outputLinger)
	before := map[*process]footprint{h.agent: measure(t, h.agent), w.coordinator: measure(t, w.coordinator)}
	roundtrips(400)
	elapse(t, outputLinger)
	for p, b := range before {
		a := measure(t, p)
		// What a leak of 64 KiB or a file per action would cost stays. What a busy
		// collector of garbage has not come to yet goes.
		grown := func() bool { return a.rss > b.rss+24<<10 || a.rss > 128<<10 || a.files > b.files+20 }
		for deadline := time.Now().Add(patience); grown() && time.Now().Before(deadline); a = measure(t, p) {
			elapse(t, outputLinger)
		}
		t.Logf("%s: %d KiB and %d files before, %d KiB and %d files after", p.name, b.rss, b.files, a.rss, a.files)
		if grown() {
			t.Errorf("%s has grown with 400 actions: %+v, and had %+v", p.name, a, b)
		}
	}
	w.quiet(t)
}

// footprint is what a process holds.
type footprint struct {
	rss   int // KiB
	files int
}

func measure(t testing.TB, p *process) footprint {
	t.Helper()
	var f footprint
	for line := range strings.Lines(read(t, fmt.Sprintf("/proc/%d/status", p.pid()))) {
		if _, err := fmt.Sscanf(line, "VmRSS: %d kB", &f.rss); err == nil {
			break
		}
	}
	f.files = len(entries(t, fmt.Sprintf("/proc/%d/fd", p.pid())))
	if f.rss == 0 {
		t.Fatal("there is no VmRSS")
	}
	return f
}
