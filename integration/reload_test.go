//go:build integration

package integration

import (
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"testing"
)

// TestRefusedConfigurationOnHangup gives a coordinator that runs configurations that it
// cannot use. It says so, goes on, and ends no connection: not that of its host, not that
// of a follower of output, not that of a client between two requests. A reload of a
// configuration that it can use ends none either.
func TestRefusedConfigurationOnHangup(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.addHost(t, "edge-01", false)
	good := read(t, w.path("coordinator.toml"))
	follower := w.start(t, "hostler", "run", "edge-01", "--", "sh", "-c", `echo begun; until test -e "$0"; do sleep 0.1; done; echo ended`, w.path("go"))
	follower.says(t, follower.out, "begun")

	client := &http.Client{Timeout: patience, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: w.roots(t), MinVersion: tls.VersionTLS13}}}
	defer client.CloseIdleConnections()
	request := func() (reused bool) {
		t.Helper()
		trace := &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) { reused = c.Reused }}
		req, err := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), trace), http.MethodGet, w.url()+"/v1/hosts", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+w.token)
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
			t.Errorf("status %d, %v", resp.StatusCode, err)
		}
		return reused
	}
	accepted := func() float64 {
		return metric(t, w.metrics(t), "hostler_coordinator_broker_connections_total", "")
	}
	request()
	from, before := w.events.mark(), accepted()

	says := func(text, why string) {
		t.Helper()
		known := len(w.coordinator.talk.lines())
		w.coordinator.signal(t, hup)
		until(t, &w.coordinator.talk.change, "the coordinator says "+text+why, func() bool {
			if w.coordinator.ended() {
				t.Fatalf("it ended: %s", w.coordinator.talk.tail())
			}
			return slices.ContainsFunc(w.coordinator.talk.lines()[known:], func(line string) bool {
				return strings.Contains(line, text) && strings.Contains(line, why)
			})
		})
		if !request() {
			t.Errorf("the connection of a client was closed: %s", text)
		}
		w.must(t, "run", "edge-01", "--", "true")
	}
	const refused = "the new configuration is refused; the one before it stays in force"
	for _, c := range []struct{ config, why string }{
		{good + "nosuch = 1\n", "nosuch"},
		{good + "[output]\ndays = 0\n", "output: "},
		{good + "[policy]\nfile = \"/nonexistent/policy.toml\"\n", "policy.file: "},
		{"[http\n", "line 1"},
	} {
		write(t, w.path("coordinator.toml"), c.config)
		says(refused, c.why)
	}
	write(t, w.path("coordinator.toml"), good+"[output]\ndays = 3\n")
	says("these settings take a restart", "output.days")

	write(t, w.path("go"), "")
	if r := follower.finish(t).exits(t, 0); r.stdout != "begun\nended\n" || strings.Contains(r.stderr, "coordinator") {
		t.Errorf("the follower saw %q, and was told %q", r.stdout, r.stderr)
	}
	w.stayedOnline(t, from)
	if now := accepted(); now != before {
		t.Errorf("%v connections with the broker were made anew", now-before)
	}
}
