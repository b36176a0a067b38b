//go:build integration

package integration

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/hostler-io/hostler/api"
)

// TestTimelineOfChanges changes a container by an action, the host's links by hand, and
// reads who changed what and when. The kernel tells of the link: no look is waited for.
func TestTimelineOfChanges(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.addHost(t, "edge-01", false)
	from := w.events.mark()
	w.must(t, "ct", "create", "edge-01/web", "--template", "busybox", "--start")
	w.must(t, "ct", "stop", "edge-01/web", "--now")
	w.event(t, from, "the container is stopped", func(e api.Event) bool {
		return e.Type == "container.changed" && strings.Contains(fmt.Sprint(e.Data), "stopped")
	})
	link := fmt.Sprintf("hc%d", os.Getpid())
	begun := time.Now()
	if b, err := exec.Command("ip", "link", "add", link, "type", "bridge").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	t.Cleanup(func() { _ = exec.Command("ip", "link", "delete", link).Run() })
	w.event(t, from, "the link is told", func(e api.Event) bool {
		return e.Type == "host.changed" && strings.Contains(fmt.Sprint(e.Data), link)
	})
	took := time.Since(begun)
	t.Logf("the link was told after %s", took)
	if took > 20*time.Second {
		t.Errorf("the link was told after %s: that was a look", took)
	}
	got := w.must(t, "host", "events", "edge-01", "--filter", "what=container.changed", "-o", "json")
	for _, want := range []string{`"admin"`, `"state"`, `"web"`} {
		if !strings.Contains(got, want) {
			t.Errorf("the timeline has no %s in %s", want, got)
		}
	}
	if got := w.must(t, "host", "events", "edge-01", "--filter", "what=host.changed"); !strings.Contains(got, "host:edge-01") || !strings.Contains(got, link) {
		t.Errorf("the timeline says nothing of the link: %s", got)
	}
}
