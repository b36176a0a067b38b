//go:build integration

package integration

import (
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hostler-io/hostler/api"
)

// ruled sets a rule of alerts, and waits until edge-01 has it.
func (w *world) ruled(t testing.TB, args ...string) {
	t.Helper()
	w.must(t, append([]string{"alert", "rule", "set"}, args...)...)
	all := show[[]api.AlertRule](t, w, "alert", "rule", "ls")
	newest := slices.MaxFunc(all, func(a, b api.AlertRule) int { return int(a.Number) - int(b.Number) })
	for deadline := time.Now().Add(patience); ; elapse(t, 200*time.Millisecond) {
		if h := show[api.Host](t, w, "host", "show", "edge-01"); h.AlertRules >= newest.Number {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("edge-01 does not get the rule %+v", newest)
		}
	}
}

// codes are the alerts that are raised on a host, by their ids up to a slash.
func codes(h api.Host) (all []string) {
	for _, a := range h.ActiveAlerts {
		code, _, _ := strings.Cut(a.ID, "/")
		all = append(all, code)
	}
	slices.Sort(all)
	return all
}

// alerts waits until a host has these alerts, and no others.
func (w *world) alerts(t testing.TB, host string, want ...string) {
	t.Helper()
	var got []string
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); elapse(t, 200*time.Millisecond) {
		if got = codes(show[api.Host](t, w, "host", "show", host)); slices.Equal(got, want) {
			return
		}
	}
	t.Fatalf("the alerts of %s are %q, want %q", host, got, want)
}

// TestRuleOfABrokenContainer: a container that does not start while the coordinator is away
// raises the alert that hosts raise anyhow, and the one of its rule, each once; both arrive
// later, and are cleared when the container starts again.
func TestRuleOfABrokenContainer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.addHost(t, "edge-01", false)
	w.must(t, "ct", "create", "edge-01/web", "--template", "busybox", "--start")
	w.cli(t, "alert", "rule", "set", "stuck", "load=4", "edge-01/web").exits(t, 2, "Linux keeps no load average of a container", "psi-cpu")
	w.cli(t, "alert", "rule", "set", "stuck", "broken=1", "edge-01/web").exits(t, 2, "write broken=yes")
	w.ruled(t, "stuck", "broken=yes/15s:critical", "swap=90%", "edge-01/web")
	from := w.events.mark()
	w.coordinator.end(t, term)
	init, hidden := h.path("lxc/web/rootfs/sbin/init"), h.path("lxc/web/rootfs/sbin/hidden")
	if err := os.Rename(init, hidden); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(h.initPID(t, "web"), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(patience); !strings.Contains(h.get(t, "/metrics"), `hostler_agent_measured_broken{container="web",part=""} 1`+"\n"); elapse(t, time.Second) {
		if time.Now().After(deadline) {
			t.Fatal("that the container is broken is not measured")
		}
	}
	w.startCoordinator(t)
	w.alerts(t, "edge-01", "container.broken", "measured.broken.critical")
	if err := os.Rename(hidden, init); err != nil {
		t.Fatal(err)
	}
	w.must(t, "ct", "reset", "edge-01/web")
	w.alerts(t, "edge-01")
	told := make(map[string]int)
	for _, e := range w.events.since(from) {
		if code, _, _ := strings.Cut(e.Object, "/"); e.Type == "alert.raised" || e.Type == "alert.cleared" {
			told[e.Type+" "+code]++
		}
	}
	for _, typ := range []string{"alert.raised", "alert.cleared"} {
		for _, code := range []string{"container.broken", "measured.broken.critical"} {
			if told[typ+" "+code] != 1 {
				t.Errorf("told was %v, want each once", told)
			}
		}
	}
}
