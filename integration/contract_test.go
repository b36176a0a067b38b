//go:build integration

package integration

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/api"
)

// TestOfflineContract: what was told before is what comes when the coordinator is away:
// one container is stopped when its time is over, and stays so for as long as nothing is
// heard; the other goes on.
func TestOfflineContract(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.addHost(t, "edge-01", true)
	w.must(t, "ct", "create", "edge-01/web", "--template", "busybox", "--start", "--offline", "stop-after=8h")
	w.must(t, "ct", "create", "edge-01/db", "--template", "busybox", "--start")
	w.must(t, "ct", "set", "edge-01/web", "--offline", "stop-after=30s", "--class", "cloned")
	w.cli(t, "ct", "set", "edge-01/web", "--offline", "stop-after=1s").exits(t, 2, "30s")
	w.cli(t, "ct", "set", "edge-01/web").exits(t, 2, "nothing to set")
	w.container(t, "edge-01/web", "has its contract", func(c ct) bool { return c.Offline == "stop-after=30s" && c.Class == "cloned" })

	foretold := func(out string) map[string]api.OfflineForecast {
		t.Helper()
		var all []api.OfflineForecast
		if err := json.Unmarshal([]byte(out), &all); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		by := make(map[string]api.OfflineForecast)
		for _, f := range all {
			by[f.Name] = f
		}
		return by
	}
	for _, out := range []string{
		w.must(t, "host", "explain-offline", "edge-01", "--for", "2h", "--reboot", "-o", "json"),
		h.local(t, "host", "explain-offline", "--for", "2h", "--reboot", "-o", "json").exits(t, 0).stdout,
	} {
		if all := foretold(out); all["db"].Then != "running" || all["db"].StopsIn != "" || all["web"].Then != "stopped" || all["web"].StopsIn == "" {
			t.Errorf("it is foretold: %s", out)
		}
	}
	if all := foretold(w.must(t, "ct", "explain-offline", "edge-01/web", "--for", "1s", "-o", "json")); all["web"].Then != "running" || len(all) != 1 {
		t.Errorf("for a second it is foretold: %+v", all)
	}
	w.cli(t, "ct", "explain-offline", "edge-01/nothing").exits(t, 3)

	before := h.initPID(t, "db")
	w.coordinator.end(t, kill)
	h.agent.says(t, h.agent.talk, "a container was stopped as it should be")
	stopped := func(when string) {
		t.Helper()
		var c ct
		if out := h.local(t, "ct", "show", "web", "-o", "json").exits(t, 0).stdout; json.Unmarshal([]byte(out), &c) != nil || c.State != "stopped" || c.Intended != "running" || !strings.Contains(c.Waits, "stop-after=30s") {
			t.Errorf("%s it is shown as %s", when, out)
		}
	}
	stopped("when its time is over")
	h.agent.end(t, kill)
	h.startAlone(t)
	h.local(t, "ct", "start", "web").exits(t, 1, "stop-after=30s")
	stopped("after a restart of the agent")

	w.startCoordinator(t)
	w.container(t, "edge-01/web", "runs again", func(c ct) bool { return c.State == "running" && c.Waits == "" })
	if now := h.initPID(t, "db"); now != before {
		t.Error("the container beside it was restarted")
	}
}
