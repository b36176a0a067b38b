//go:build integration

package integration

import (
	"context"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestStrangers has a coordinator with few descriptors besieged from one address, by
// connections that say nothing, that speak no TLS, and with wrong tokens. A host comes
// back from another address, and people work on, meanwhile.
func TestStrangers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.addHost(t, "edge-01", false)
	w.coordinator.end(t, kill)
	w.coordinator = w.spawn(t, "coordinator", w.env(), "sh", "-c", `ulimit -n 512 && exec "$0" "$@"`,
		filepath.Join(w.bin, "hostler-coordinator"), "--config", w.path("coordinator.toml"), "run")
	w.coordinator.says(t, w.coordinator.talk, "serving")
	places := int(metric(t, w.metrics(t), "hostler_coordinator_strangers_max", ""))
	if places < 16 || places > 128 {
		t.Fatalf("%d places of 512 descriptors", places)
	}

	from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 9)}}
	ctx, cease := context.WithCancel(t.Context())
	var siege sync.WaitGroup
	defer siege.Wait()
	defer cease()
	besiege := func(say string) {
		for i := range 4 * places {
			to := []string{w.http, w.mqtt}[i%2]
			siege.Go(func() {
				for ctx.Err() == nil {
					c, err := from.DialContext(ctx, "tcp", to)
					if err != nil {
						elapse(t, 10*time.Millisecond)
						continue
					}
					stop := context.AfterFunc(ctx, func() { c.Close() })
					_, _ = c.Write([]byte(say))
					_, _ = c.Read(make([]byte, 1)) // until it is ended there
					stop()
					c.Close()
					elapse(t, 50*time.Millisecond)
				}
			})
		}
	}
	besiege("")
	mark := w.events.mark()
	h.agent.end(t, kill)
	h.startAlone(t)
	h.online(t, mark)
	w.must(t, "run", "edge-01", "--", "true")
	m := w.metrics(t)
	ended := metric(t, m, "hostler_coordinator_strangers_ended_total", `why="full"`) + metric(t, m, "hostler_coordinator_strangers_ended_total", `why="displaced"`)
	if now := metric(t, m, "hostler_coordinator_strangers", ""); now > float64(places) || ended == 0 {
		t.Errorf("%v strangers in %d places, %v were ended", now, places, ended)
	}

	lines, begun := strings.Count(w.coordinator.talk.String(), "\n"), time.Now()
	besiege("GET / HTTP/1.0\r\n\r\n")
	w.must(t, "run", "edge-01", "--", "true")
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.url()+"/v1/hosts", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer hst_"+strings.Repeat("A", 32))
	for range 25 {
		r, err := w.web(t).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if r.Body.Close(); r.StatusCode != http.StatusUnauthorized {
			t.Errorf("a wrong token: status %d", r.StatusCode)
		}
	}
	if took := time.Since(begun); took < 2*time.Second {
		t.Errorf("25 wrong tokens were judged within %s", took)
	}
	for _, want := range []struct{ name, labels string }{
		{"tls_handshake_errors_total", `listener="api"`}, {"tls_handshake_errors_total", `listener="broker"`}, {"wrong_tokens_total", ""},
	} {
		for n, patience := 0.0, time.Now().Add(time.Minute); n < 10; { // the siege goes on
			if m = w.metrics(t); time.Now().After(patience) {
				t.Fatalf("%s{%s} is %v", want.name, want.labels, n)
			}
			n = metric(t, m, "hostler_coordinator_"+want.name, want.labels)
		}
	}
	w.must(t, "run", "edge-01", "--", "true")
	if more := strings.Count(w.coordinator.talk.String(), "\n") - lines; more > 20+4*int(time.Since(begun).Seconds()) {
		t.Errorf("%d lines in the log within %s", more, time.Since(begun))
	}
	t.Logf("%d places, %v strangers were ended", places, metric(t, m, "hostler_coordinator_strangers_ended_total", ""))
}
