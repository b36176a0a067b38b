//go:build integration

package integration

import (
	"errors"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestHomeAssistant takes the recipe for Home Assistant out of the page, and has its templates
// read what the mirror of a coordinator publishes: a host that is there, an alert that is
// raised, and a host that has gone. The templates are rendered by the engine that Home
// Assistant has; Home Assistant itself is not here.
func TestHomeAssistant(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	write(t, w.path("coordinator.toml"), read(t, w.path("coordinator.toml"))+"plain = true\n")
	w.coordinator.end(t, term)
	w.startCoordinator(t)
	h := w.addHost(t, "edge-01", false)

	_, section, _ := strings.Cut(read(t, topicsPage), "\n### Home Assistant\n")
	_, section, _ = strings.Cut(section, "\n```yaml\n")
	recipe, _, ok := strings.Cut(section, "\n```\n")
	if !ok {
		t.Fatalf("%s has no recipe for Home Assistant", topicsPage)
	}
	write(t, w.path("recipe.yaml"), strings.ReplaceAll(recipe, "hostler/v1/demo/", "hostler/v1/"+w.fleet+"/"))
	rec := w.record(t, w.viewer(t, "home"), w.everything())
	shows := func(want ...string) {
		t.Helper()
		until(t, &rec.out.change, "Home Assistant shows "+strings.Join(want, ", "), func() bool {
			c := exec.Command("/usr/bin/python3", "testdata/mqtt/home-assistant.py", w.path("recipe.yaml"))
			c.Stdin = strings.NewReader(strings.Join(rec.out.lines(), "\n"))
			out, err := c.Output()
			if failed, ok := errors.AsType[*exec.ExitError](err); ok {
				t.Fatalf("the recipe: %v\n%s", err, failed.Stderr)
			}
			if err != nil {
				t.Fatal(err)
			}
			return slices.Equal(strings.Split(strings.TrimSpace(string(out)), "\n"), want)
		})
	}
	shows("edge-01 ON", "edge-01 alerts 0")
	w.must(t, "alert", "rule", "set", "busy", "tasks=1/15s", "-A")
	shows("edge-01 ON", "edge-01 alerts 1")
	h.agent.end(t, term)
	shows("edge-01 OFF", "edge-01 alerts 1")
}
