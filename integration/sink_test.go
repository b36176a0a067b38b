//go:build integration

package integration

import (
	"fmt"
	"net/url"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/hostler-io/hostler/internal/dbtest"
)

// TestSinks has hosts send their samples to real databases, one by the client of
// InfluxData and with TLS, one by the classic path, and Prometheus scrape the fleet and,
// with the certificate of a viewer, an agent. A client without that certificate is refused by the agent.
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
	scraped := freeAddress(t)
	write(t, a.config(), fmt.Sprintf("http.metrics = %q\n", scraped)+read(t, a.config()))
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
	screen := w.viewer(t, "screen")
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
    scheme: https
    tls_config: {cert_file: %[5]q, key_file: %[6]q, insecure_skip_verify: true}
    static_configs: [{targets: [%[4]q]}]
`, token, w.path("coordinator/ca.crt"), w.http, scraped, screen.cert, screen.key))
	for _, query := range []string{
		`hostler_fleet_host_up{host="edge-01"} == 1`, `hostler_fleet_host_memory_bytes{host="edge-02"} > 0`, `hostler_fleet_containers{state="running"} == 1`,
		`hostler_coordinator_hosts{connectivity="online"} == 2`, `hostler_agent_measured_load1 >= 0`, `hostler_agent_connected == 1`,
		`count(up == 1) == 3`,
	} {
		p.Await(t, "/api/v1/query?"+url.Values{"query": {query}}.Encode(), `"value"`)
	}
	curl := func(l login, path string) string {
		t.Helper()
		args := []string{"-k", "-sS", "-m", "20", "-o", "/dev/null", "-w", "%{http_code}"}
		if l.cert != "" {
			args = append(args, "--cert", l.cert, "--key", l.key)
		}
		out, _ := exec.CommandContext(t.Context(), "curl", append(args, "https://"+scraped+path)...).Output()
		return string(out)
	}
	for who, l := range map[string]login{"a stranger": {}, "a host": w.tlsOf(t, "edge-02")} {
		if got := curl(l, "/metrics"); got != "000" {
			t.Errorf("%s reads the metrics of a host: %s", who, got)
		}
	}
	if got := curl(screen, "/status"); got != "404" {
		t.Errorf("beside the metrics there is more: %s", got)
	}
	if got := a.get(t, "/v1/check"); !strings.Contains(got, "http.metrics "+scraped) {
		t.Errorf("doctor says nothing of the listener: %s", got)
	}
}
