//go:build integration

package integration

import (
	"strings"
	"testing"
	"time"

	"github.com/hostler-io/hostler/api"
)

// TestOutOfMemory has a container use more than its limit leaves it: the kernel kills the
// command, and the alert is there soon, and not with the next look.
func TestOutOfMemory(t *testing.T) { // not beside others: the kernel counts for all hosts of this machine
	w := newWorld(t)
	w.addHost(t, "edge-01", false)
	w.must(t, "ct", "create", "edge-01/web", "--template", "busybox", "--start")
	w.must(t, "ct", "limit", "edge-01/web", "memory=24MiB")
	// Its first samples are there: a kill is seen as a difference between two.
	for deadline := time.Now().Add(patience); ; elapse(t, time.Second) {
		if got := w.cli(t, "metrics", "edge-01/web", "--metric", "oom", "-o", "csv").stdout; strings.Count(got, "\n") > 1 {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("kills are not measured: %s", got)
		}
	}
	from, begun := w.events.mark(), time.Now()
	w.cli(t, "exec", "edge-01/web", "--", "dd", "if=/dev/zero", "of=/dev/null", "bs=200M", "count=1").exits(t, 137)
	w.event(t, from, "an alert is raised", func(e api.Event) bool { return e.Type == "alert.raised" && e.Object == "container.oom/web" })
	t.Logf("the alert was there after %s", time.Since(begun))
	if got := w.must(t, "alert", "ls", "-o", "json"); !strings.Contains(got, `"container.oom/web"`) {
		t.Errorf("alert ls says %s", got)
	}
	if got := w.must(t, "alert", "show", "container.oom"); !strings.Contains(got, "ct limit") {
		t.Errorf("alert show says nothing of what to do: %s", got)
	}
}
