//go:build integration

package integration

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// TestReconnectWindow restarts a coordinator that has told its hosts to come back over 20 s:
// they come one after the other, and nothing says meanwhile that one of them is late.
func TestReconnectWindow(t *testing.T) {
	t.Parallel()
	const window = 20 * time.Second
	w := newWorld(t, func(w *world) {
		w.served = append(w.served, fmt.Sprintf("HOSTLER_MQTT_RECONNECT_SECONDS=%d", window/time.Second))
	})
	names := []string{"edge-01", "edge-02", "edge-03", "edge-04", "edge-05"}
	for _, name := range names {
		w.addHost(t, name, false)
	}
	from, begun := w.events.mark(), time.Now()
	w.coordinator.end(t, kill)
	w.startCoordinator(t)
	until(t, &w.events.change, "all hosts are back", func() bool {
		back := make(map[string]bool)
		for _, e := range w.events.since(from) {
			if e.Type == "host.online" {
				back[e.Host] = true
			}
		}
		return len(back) == len(names)
	})
	took := time.Since(begun)
	// Without a window a host waits for 1 s at most, and for 2 s more if nobody listens yet:
	// all of them were back after 1.6 to 2 s. That five draws of 20 s are below 4 s happens
	// once in 3,000 times. What the draws leave of the last bound is for the hosts' hellos.
	if took < window/5 || took > window*3/2 {
		t.Errorf("they were back after %s, want %s to %s", took, window/5, window*3/2)
	}
	for _, e := range w.events.since(from) {
		if slices.Contains([]string{"host.late", "host.offline"}, e.Type) {
			t.Errorf("%s of %s: %s", e.Type, e.Host, e.Data)
		}
	}
	t.Logf("all of them were back after %s", took)
}
