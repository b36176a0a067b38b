//go:build integration

package integration

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/api"
)

// TestHealthChecks looks at a real container in all three ways, and restarts it when it is
// not well.
func TestHealthChecks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.addHost(t, "edge-01", true)
	w.must(t, "ct", "create", "edge-01/web", "--template", "busybox", "--start")
	w.container(t, "edge-01/web", "has an address", func(c ct) bool { return c.State == "running" && c.Address != "" })
	is := func(state string) {
		t.Helper()
		w.container(t, "edge-01/web", "is "+state, func(c ct) bool { return c.Health == state })
	}
	often := []string{"--health-interval", "1s", "--health-timeout", "5s", "--health-retries", "2"}
	set := func(args ...string) {
		t.Helper()
		w.must(t, append(append([]string{"ct", "set", "edge-01/web"}, often...), args...)...)
	}

	set("--health-action", "mark", "--health-cmd", "--", "sh", "-c", "test ! -e /sick || { echo it is sick; exit 3; }")
	is("healthy")
	w.must(t, "exec", "edge-01/web", "--", "touch", "/sick")
	is("unhealthy")
	if out := w.must(t, "alert", "ls", "-o", "json"); !strings.Contains(out, "container.unhealthy/") || !strings.Contains(out, "it is sick") {
		t.Errorf("the alerts are %s", out)
	}
	w.must(t, "exec", "edge-01/web", "--", "rm", "/sick")
	is("healthy")

	set("--health-action", "mark", "--health-tcp", "8080")
	is("unhealthy")
	w.must(t, "exec", "edge-01/web", "--daemon", "--no-wait", "--", "httpd", "-f", "-p", "8080", "-h", "/etc")
	is("healthy")
	set("--health-action", "mark", "--health-http", ":8080/none")
	is("unhealthy")
	set("--health-action", "mark", "--health-http", ":8080/inittab")
	is("healthy")

	before := h.initPID(t, "web")
	w.must(t, "exec", "edge-01/web", "--", "touch", "/sick")
	set("--health-cmd", "--", "test", "!", "-e", "/sick")
	h.agent.says(t, h.agent.talk, "a container was started as it should be")
	if now := h.initPID(t, "web"); now == before {
		t.Error("it was not restarted")
	}
	w.must(t, "ct", "set", "edge-01/web", "--health-off")
	is("")
	w.cli(t, "ct", "set", "edge-01/web", "--health-tcp", "80", "--health-http", ":80").exits(t, 2, "one of")
	w.cli(t, "ct", "set", "edge-01/web", "--health-cmd").exits(t, 2, "--")
	var ends []api.ContainerEnd
	if out := w.must(t, "ct", "exits", "edge-01/web", "-o", "json"); json.Unmarshal([]byte(out), &ends) != nil || len(ends) == 0 || ends[0].Cause != "health" {
		t.Errorf("it has ended by %s", out)
	}
}

// TestStartsInOrder: what ran when the host went down comes back in its order.
func TestStartsInOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.addHost(t, "edge-01", false)
	names := []string{"app", "db", "web"}
	for _, name := range names {
		w.must(t, "ct", "create", "edge-01/"+name, "--template", "busybox", "--start")
	}
	w.must(t, "ct", "set", "edge-01/db", "--start-order", "1")
	w.must(t, "ct", "set", "edge-01/app", "--start-after", "web,db")
	w.cli(t, "ct", "set", "edge-01/db", "--start-after", "app").exits(t, 1, "db after app after db")
	h.agent.end(t, kill)
	for _, name := range names {
		w.tool(t, "lxc-stop", "-P", h.path("lxc"), "-n", name, "-k")
	}
	h.start(t)
	for _, name := range names {
		// The coordinator tells of it as it was, until the host has told anew.
		h.agent.says(t, h.agent.talk, fmt.Sprintf("a container was started as it should be\" container=%s", name))
		w.container(t, "edge-01/"+name, "runs again", func(c ct) bool { return c.State == "running" })
	}
	at := func(name string) int {
		return strings.Index(h.agent.talk.String(), fmt.Sprintf("a container was started as it should be\" container=%s", name))
	}
	if db, web, app := at("db"), at("web"), at("app"); db < 0 || web < db || app < web {
		t.Errorf("they were started at db %d, web %d, app %d of:\n%s", db, web, app, h.agent.talk)
	}
}
