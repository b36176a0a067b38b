//go:build integration

package integration

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"
)

// TestMetrics asks a host for what it has measured, of itself and of a container, from
// the coordinator, on the host, and of the files when the agent has ended.
func TestMetrics(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.addHost(t, "edge-01", true)
	w.cli(t, "ct", "create", "edge-01/web", "--template", "busybox").exits(t, 0)
	w.cli(t, "ct", "start", "edge-01/web").exits(t, 0)
	type line struct {
		Container, Metric, Part, Unit string
		Points                        []struct {
			Mean float64
			AtMS int64 `json:"at_ms"`
		}
	}
	linesOf := func(out string) map[string]line {
		t.Helper()
		all := make(map[string]line)
		var lines []line
		if err := json.Unmarshal([]byte(out), &lines); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		for _, l := range lines {
			all[strings.TrimSpace(l.Container+" "+l.Metric)] = l
		}
		return all
	}
	// Rates need two samples, and the container a look.
	watch := w.start(t, "hostler", "metrics", "edge-01", "--all", "--metric", "cpu", "-o", "csv", "--watch")
	watch.says(t, watch.out, ",web,cpu,")
	watch.end(t, syscall.SIGTERM)
	got := linesOf(w.must(t, "metrics", "edge-01", "--all", "-o", "json"))
	for _, want := range []string{"cpu", "memory", "load1", "disk", "web memory", "web tasks"} {
		if l := got[want]; len(l.Points) == 0 || l.Points[0].Mean < 0 {
			t.Errorf("%s is %+v", want, l)
		}
	}
	if m := got["web memory"].Points; m[len(m)-1].Mean <= 0 || m[len(m)-1].Mean > 64<<20 {
		t.Errorf("the memory of a busybox is %v", m)
	}
	for _, tc := range []struct {
		out  string
		says []string
	}{
		{w.must(t, "metrics", "edge-01/web", "--metric", "memory"), []string{"HISTORY", "web"}},
		{w.must(t, "metrics", "edge-01", "--metric", "load1", "--plot"), []string{"load1", "└"}},
		{w.must(t, "top"), []string{"LOAD", "edge-01"}},
		{h.local(t, "metrics", "web", "-o", "csv").exits(t, 0).stdout, []string{"span_ms", "web,memory"}},
	} {
		for _, text := range tc.says {
			if !strings.Contains(tc.out, text) {
				t.Errorf("%q is missing in\n%s", text, tc.out)
			}
		}
	}
	w.cli(t, "metrics", "edge-01", "--metric", "nothing").exits(t, 1, "there is no metric")
	for _, text := range []string{`hostler_agent_measured_memory_bytes{container="web",part=""} `, "hostler_agent_measured_load1{"} {
		if out := h.get(t, "/metrics"); !strings.Contains(out, "\n"+text) {
			t.Errorf("%q is missing in what Prometheus gets:\n%s", text, out)
		}
	}
	// A rule that comes with a new configuration raises an alert, and another one that
	// replaces it clears the alert again.
	config := read(t, h.config())
	reload := func(rules string) {
		t.Helper()
		write(t, h.config(), config+"\n[alerts]\nrules = ["+rules+"]\n")
		h.agent.signal(t, syscall.SIGHUP)
	}
	reload(`"host tasks=1/15s:critical"`)
	alerts := w.start(t, "hostler", "alert", "ls", "-o", "csv", "--watch")
	alerts.says(t, alerts.out, "critical,edge-01,")
	alerts.says(t, alerts.out, "processes is ")
	if out := h.get(t, "/status"); !strings.Contains(out, "edge-01") {
		t.Errorf("the agent says %s", out)
	}
	alerts.end(t, syscall.SIGTERM)
	reload("")
	cleared := w.start(t, "hostler", "events", "--since", "1h")
	cleared.says(t, cleared.out, "alert.cleared")
	cleared.end(t, syscall.SIGTERM)
	if out := w.must(t, "alert", "ls", "--no-headers"); out != "" {
		t.Errorf("without rules there is %q", out)
	}
	h.agent.end(t, syscall.SIGTERM)
	out := h.spawn(t, "metrics", "metrics", "--metric=cpu").finish(t).exits(t, 0).stdout
	if !strings.Contains(out, `"metric":"cpu"`) {
		t.Errorf("without an agent: %q", out)
	}
}
