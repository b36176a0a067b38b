//go:build integration

package integration

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"syscall"
	"testing"

	"github.com/hostler-io/hostler/internal/dbtest"
)

// TestSinks has hosts send their samples to real databases, one by the client of
// InfluxData and with TLS, one by the classic path, and Prometheus scrape the fleet and
// an agent.
func TestSinks(t *testing.T) {
	t.Parallel()
	modern, classic := dbtest.Victoria(t), dbtest.Influx(t, "hostler")
	w := newWorld(t)
	a, b := w.addHost(t, "edge-01", true), w.addHost(t, "edge-02", true)
	w.cli(t, "ct", "create", "edge-01/web", "--template", "busybox").exits(t, 0)
	w.cli(t, "ct", "start", "edge-01/web").exits(t, 0)
	secret := w.path("secret")
	write(t, secret, dbtest.Password+"\n")
	sendTo := func(h *host, db *dbtest.DB, more string) {
		t.Helper()
		write(t, h.config(), read(t, h.config())+fmt.Sprintf("\n[metrics.influx]\nurl = %q\nuser = %q\nsecret_file = %q\nseconds = 5\n", db.URL, dbtest.User, secret)+more)
		h.restart(t, syscall.SIGTERM)
	}
	sendTo(a, modern, fmt.Sprintf("ca_file = %q\n", modern.CA))
	sendTo(b, classic, "api = \"v1\"\n")
	modern.Await(t, "/api/v1/series?match[]="+url.QueryEscape(`hostler_container_memory{host="edge-01",container="web",fleet="lab"}`), `"web"`)
	classic.Await(t, "/query?"+url.Values{"db": {"hostler"}, "q": {`SELECT last(load1) FROM hostler_host WHERE host = 'edge-02' AND fleet = 'lab'`}}.Encode(), `"values"`)
	for _, h := range []*host{a, b} {
		out := h.get(t, "/metrics")
		for _, line := range []string{"\nhostler_agent_sink_lines_lost_total 0\n", "\nhostler_agent_sink_lines_refused_total 0\n", "\nhostler_agent_sink_failures_total 0\n"} {
			if !strings.Contains(out, line) {
				t.Errorf("%q is missing in\n%s", line, out)
			}
		}
	}
	// The agent has a socket and no port: what forwards to it is the site's business.
	forward := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = "http", "agent" },
		Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", a.socket())
		}},
	}
	agent := httptest.NewServer(forward)
	t.Cleanup(agent.Close)
	token := w.path("prometheus.token")
	write(t, token, w.must(t, "token", "create", "prometheus", "--role", "viewer", "-o", "template={{.secret}}"))
	p := dbtest.Prometheus(t, fmt.Sprintf(`
global: {scrape_interval: 1s}
scrape_configs:
  - job_name: fleet
    metrics_path: /metrics/fleet
    scheme: https
    authorization: {credentials_file: %[1]q}
    tls_config: {ca_file: %[2]q}
    static_configs: [{targets: [%[3]q]}]
  - job_name: coordinator
    scheme: https
    authorization: {credentials_file: %[1]q}
    tls_config: {ca_file: %[2]q}
    static_configs: [{targets: [%[3]q]}]
  - job_name: agent
    static_configs: [{targets: [%[4]q]}]
`, token, w.path("coordinator/ca.crt"), w.http, strings.TrimPrefix(agent.URL, "http://")))
	for _, query := range []string{
		`hostler_fleet_host_up{host="edge-01"} == 1`, `hostler_fleet_host_memory_bytes{host="edge-02"} > 0`, `hostler_fleet_containers{state="running"} == 1`,
		`hostler_coordinator_hosts{connectivity="online"} == 2`, `hostler_agent_measured_load1 >= 0`, `hostler_agent_connected == 1`,
		`count(up == 1) == 3`,
	} {
		p.Await(t, "/api/v1/query?"+url.Values{"query": {query}}.Encode(), `"value"`)
	}
}
