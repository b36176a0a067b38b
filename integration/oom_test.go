//go:build integration

package integration

import (
	"strings"
	"testing"
	"time"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/metrics"
)

// TestOutOfMemory has a container use more than its limit leaves it: the kernel kills the
// command, and the alert is there soon, and not with the next look.
func TestOutOfMemory(t *testing.T) { // not beside others: the kernel counts for all hosts of this machine
	w := newWorld(t)
	w.addHost(t, "edge-01", false)
	w.must(t, "ct", "create", "edge-01/web", "--template", "busybox", "--start")
	w.must(t, "ct", "limit", "edge-01/web", "memory=24MiB")
	// A kill is seen as a difference between two samples, so its first ones are awaited, and
	// then the next one: from that the regular look is a whole interval away.
	samples := func() int {
		return strings.Count(w.cli(t, "metrics", "edge-01/web", "--metric", "oom", "-o", "csv").stdout, "\n")
	}
	first := 0
	for deadline := time.Now().Add(patience); ; elapse(t, time.Second/2) {
		n := samples()
		if first == 0 && n > 1 {
			first = n
		}
		if first > 0 && n > first {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("kills are not measured: there are %d samples", n)
		}
	}
	from, begun := w.events.mark(), time.Now()
	w.cli(t, "exec", "edge-01/web", "--", "dd", "if=/dev/zero", "of=/dev/null", "bs=200M", "count=1").exits(t, 137)
	w.event(t, from, "an alert is raised", func(e api.Event) bool { return e.Type == "alert.raised" && e.Object == "container.oom/web" })
	if took := time.Since(begun); took > metrics.Interval*2/3 {
		t.Errorf("the alert was there after %s, want it before the next look, which is %s after the one before", took, metrics.Interval)
	} else {
		t.Logf("the alert was there after %s", took)
	}
	if got := w.must(t, "alert", "ls", "-o", "json"); !strings.Contains(got, `"container.oom/web"`) {
		t.Errorf("alert ls says %s", got)
	}
	if got := w.must(t, "alert", "show", "container.oom"); !strings.Contains(got, "ct limit") {
		t.Errorf("alert show says nothing of what to do: %s", got)
	}
}
