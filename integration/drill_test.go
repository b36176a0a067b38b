//go:build integration

package integration

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hostler-io/hostler/api"
)

// drillRow is a line of the report of a drill.
type drillRow struct{ What, Promised, Seen, Verdict string }

// TestDrillPartition: a host is cut off, and its unique container moves when its lease has
// ended; all is as promised, and the report says so.
func TestDrillPartition(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	write(t, w.path("coordinator.toml"), read(t, w.path("coordinator.toml"))+"[lease]\nmin_self_fence = \"guard\"\nttl_seconds = 15\nkill_seconds = 2\nmargin_seconds = 1\n")
	w.coordinator.end(t, term)
	w.startCoordinator(t)
	for _, name := range []string{"edge-01", "edge-02"} {
		h := w.newHost(t, name, false)
		write(t, h.config(), read(t, h.config())+"[unique]\nguard = true\npausable = \"no\"\n")
		p, words := h.join(t, w.invite(t))
		w.must(t, "host", "approve", h.name, "--words", words)
		p.finish(t).exits(t, 0)
		h.start(t)
	}
	w.must(t, "ct", "create", "edge-01/db", "--template", "busybox", "--class", "unique", "--data", "none", "--start")
	w.must(t, "ct", "create", "edge-01/web", "--template", "busybox", "--start")
	w.cli(t, "drill", "partition", "edge-01", "--for", "9s", "--yes").exits(t, 2, "10s to 15m")
	w.cli(t, "drill", "partition", "edge-01", "--for", "1m").exits(t, 4, "--yes")

	r := w.cli(t, "drill", "partition", "edge-01", "--for", "1m", "--yes", "-o", "json").exits(t, 0, "edge-02 holds it now")
	var rows []drillRow
	if err := json.Unmarshal([]byte(r.stdout), &rows); err != nil {
		t.Fatalf("%v: %s", err, r.stdout)
	}
	want := map[string]string{"edge-01": "back after", "db": "it ended", "db elsewhere": "edge-02 holds it", "web": "it went on"}
	for _, row := range rows {
		if seen, ok := want[row.What]; !ok && !strings.HasPrefix(row.What, "alert ") || !strings.Contains(row.Seen, seen) || row.Verdict != "as promised" {
			t.Errorf("%+v", row)
		}
		delete(want, row.What)
	}
	if len(want) > 0 {
		t.Errorf("nothing is reported of %v: %s", want, r.stdout)
	}
}

// TestDrillEndsByItself: when the program that has asked for it is killed, and when the
// agent is killed in the middle.
func TestDrillEndsByItself(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.addHost(t, "edge-01", false)

	drill := func(lasts time.Duration) (from int) {
		from = w.events.mark()
		p := w.start(t, "hostler", "drill", "partition", "edge-01", "--for", lasts.String(), "--yes")
		w.event(t, from, "edge-01 is away", func(e api.Event) bool { return e.Type == "host.late" && e.Host == "edge-01" })
		if p.ended() {
			t.Fatalf("the program ended before the drill: %s", p.talk)
		}
		p.end(t, kill)
		return w.events.mark()
	}
	begun := time.Now()
	h.online(t, drill(15*time.Second))
	if took := time.Since(begun); took < 15*time.Second {
		t.Errorf("it was back after %s", took)
	}

	begun = time.Now()
	from := drill(15 * time.Minute)
	h.agent.end(t, kill)
	h.startAlone(t)
	h.online(t, from)
	if took := time.Since(begun); took > 10*time.Minute {
		t.Errorf("an agent that was started anew was cut off for %s", took)
	}
}

// TestDrillStopsAgent: the agent stands still, and goes on at the end, though one of the
// processes that wake it was killed.
func TestDrillStopsAgent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.addHost(t, "edge-01", false)
	w.must(t, "ct", "create", "edge-01/web", "--template", "busybox", "--start")
	p := w.start(t, "hostler", "drill", "stop-agent", "edge-01", "--for", "20s", "--yes")
	h.state(t, "T")
	wakers := h.children(t, h.agent.pid(), "wake")
	if len(wakers) != 2 {
		t.Fatalf("%d processes wake the agent", len(wakers))
	}
	if err := syscall.Kill(wakers[0], kill); err != nil {
		t.Error(err)
	}
	h.state(t, "S")
	r := p.finish(t).exits(t, 0, "stop-agent begins in 3s")
	if !strings.Contains(r.stdout, "it went on") || strings.Contains(r.stdout, "not as promised") {
		t.Errorf("reported is %s", r.stdout)
	}
}

// state waits until the agent is in a state of the kernel: T is stopped, S sleeps.
func (h *host) state(t testing.TB, want string) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; elapse(t, 20*time.Millisecond) {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", h.agent.pid()))
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(b)[strings.LastIndexByte(string(b), ')'):], " ")
		if strings.HasPrefix(rest, want) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the agent is never in state %s, but in %.1s", want, rest)
		}
	}
}
