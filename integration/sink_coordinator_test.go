//go:build integration

package integration

import (
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/hostler-io/hostler/internal/dbtest"
)

// metricOf is the value of a metric without labels, or with those that name has.
func metricOf(t testing.TB, page, name string) float64 {
	t.Helper()
	m := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + ` (\S+)$`).FindStringSubmatch(page)
	if m == nil {
		t.Fatalf("there is no metric %s in\n%s", name, page)
	}
	v, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// awaitMetric looks at a page of metrics until a value is as it should be.
func awaitMetric(t testing.TB, page func() string, name string, is func(float64) bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; elapse(t, 200*time.Millisecond) {
		v := metricOf(t, page(), name)
		if is(v) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s is %v", name, v)
		}
	}
}

// TestSinkByTheCoordinator has hosts without a database give their samples to the coordinator,
// which writes them to a real one. Nothing is lost while the database is away, nor while the
// coordinator is.
func TestSinkByTheCoordinator(t *testing.T) {
	t.Parallel()
	db := dbtest.Victoria(t)
	w := newWorld(t)
	hosts := []*host{w.addHost(t, "edge-01", true), w.addHost(t, "edge-02", false)}
	w.cli(t, "ct", "create", "edge-01/web", "--template", "busybox", "--start").exits(t, 0)
	secret := w.path("secret")
	write(t, secret, dbtest.Password+"\n")
	for _, h := range hosts {
		write(t, h.config(), read(t, h.config())+"\n[metrics.influx]\nvia = \"coordinator\"\nseconds = 2\n")
		h.restart(t, term)
	}
	// Without a database of its own the coordinator takes none: they wait on the hosts.
	waiting := func(n float64) bool { return n > 0 }
	none := func(n float64) bool { return n == 0 }
	for _, h := range hosts {
		awaitMetric(t, func() string { return h.get(t, "/metrics") }, "hostler_agent_sink_lines_waiting", waiting)
	}
	write(t, w.path("coordinator.toml"), read(t, w.path("coordinator.toml"))+
		fmt.Sprintf("\n[metrics.influx]\nurl = %q\nuser = %q\nsecret_file = %q\nca_file = %q\n", db.URL, dbtest.User, secret, db.CA))
	from := w.events.mark()
	w.coordinator.end(t, term)
	w.startCoordinator(t)
	for _, h := range hosts {
		h.online(t, from)
	}
	series := func(match string) string { return "/api/v1/series?match[]=" + url.QueryEscape(match) }
	db.Await(t, series(`hostler_container_memory{host="edge-01",container="web",fleet="lab"}`), `"web"`)
	db.Await(t, series(`hostler_host_load1{host="edge-02",fleet="lab"}`), `"edge-02"`)

	own := func() string { return w.metrics(t) }
	db.Down()
	awaitMetric(t, own, "hostler_coordinator_sink_lines_waiting", waiting)
	for _, h := range hosts { // what the coordinator keeps is off their disks
		awaitMetric(t, func() string { return h.get(t, "/metrics") }, "hostler_agent_sink_lines_waiting", none)
	}
	db.Up(t)
	awaitMetric(t, own, "hostler_coordinator_sink_lines_waiting", none)

	w.coordinator.end(t, kill)
	for _, h := range hosts {
		awaitMetric(t, func() string { return h.get(t, "/metrics") }, "hostler_agent_sink_lines_waiting", waiting)
	}
	w.startCoordinator(t)
	for _, h := range hosts {
		awaitMetric(t, func() string { return h.get(t, "/metrics") }, "hostler_agent_sink_lines_waiting", none)
		for _, name := range []string{"hostler_agent_sink_lines_lost_total", "hostler_agent_sink_lines_refused_total"} {
			if n := metricOf(t, h.get(t, "/metrics"), name); n != 0 {
				t.Errorf("%s of %s is %v", name, h.name, n)
			}
		}
	}
	page := own()
	for _, name := range []string{
		"hostler_coordinator_sink_lines_lost_total", "hostler_coordinator_sink_lines_refused_total",
		`hostler_coordinator_samples_messages_total{what="malformed"}`, `hostler_coordinator_samples_messages_total{what="limited"}`,
	} {
		if n := metricOf(t, page, name); n != 0 {
			t.Errorf("%s is %v", name, n)
		}
	}
}
