//go:build integration

package integration

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/internal/btrfstest"
)

// TestBtrfs: a host whose containers lie on btrfs limits how much they write, takes snapshots
// that share all data, and says that it can.
func TestBtrfs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.newHost(t, "edge-01", false)
	write(t, h.config(), strings.Replace(read(t, h.config()), h.path("lxc"), btrfstest.Mount(t)+"/lxc", 1))
	p, words := h.join(t, w.invite(t))
	w.must(t, "host", "approve", h.name, "--words", words)
	p.finish(t).exits(t, 0)
	h.start(t)
	if out := w.must(t, "host", "show", "edge-01"); !strings.Contains(out, "lxc.subvolumes") || !strings.Contains(out, "limit.disk") {
		t.Errorf("host show: %s", out)
	}
	fill := func(where, file string) result {
		t.Helper()
		return w.cli(t, "exec", where, "--", "dd", "if=/dev/zero", "of=/root/"+file, "bs=1M", "count=64", "conv=fsync")
	}
	w.must(t, "ct", "create", "edge-01/web", "--template", "busybox", "--start", "--limit", "disk=48MiB")
	if out := w.must(t, "ct", "limit", "edge-01/web", "-o", "csv", "--no-headers"); !strings.Contains(out, "disk,48MiB,48MiB\n") {
		t.Errorf("the limits are %q", out)
	}
	from := w.events.mark()
	w.must(t, "alert", "rule", "set", "full", "disk=50%/15s", "edge-01/web")
	fill("edge-01/web", "large").exits(t, 1, "quota exceeded")
	full := func(kind, text string) {
		t.Helper()
		w.event(t, from, "the disk of web", func(e api.Event) bool {
			return e.Type == kind && e.Object == "measured.disk.warning/web/" && strings.Contains(fmt.Sprint(e.Data), text)
		})
	}
	full("alert.raised", "disk of web is ")
	w.must(t, "exec", "edge-01/web", "--", "rm", "/root/large")
	full("alert.cleared", "disk of web is ")
	w.cli(t, "ct", "limit", "edge-01/web", "disk=4KiB").exits(t, 1, "below present use")

	w.must(t, "snapshot", "create", "edge-01/web", "small")
	if all := show[[]api.ContainerSnapshot](t, w, "snapshot", "ls", "edge-01/web"); len(all) != 1 || !all[0].Shared {
		t.Errorf("snapshots: %+v", all)
	}
	w.must(t, "ct", "clone", "edge-01/web", "free")
	w.must(t, "ct", "start", "edge-01/free")
	fill("edge-01/free", "large").exits(t, 1, "quota exceeded") // limits are copied
	w.must(t, "ct", "limit", "edge-01/free", "disk=none")
	fill("edge-01/free", "large").exits(t, 0)
	w.must(t, "snapshot", "rollback", "edge-01/web", "small", "--restart", "--yes")
	fill("edge-01/web", "large").exits(t, 1, "quota exceeded")
	w.must(t, "ct", "limit", "edge-01/web", "disk=none")
	fill("edge-01/web", "large").exits(t, 0)
	for _, name := range []string{"edge-01/web", "edge-01/free"} {
		w.must(t, "ct", "rm", name, "--yes")
	}
}
