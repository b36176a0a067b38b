//go:build integration

package integration

import (
	"strings"
	"testing"

	"github.com/hostler-io/hostler/api"
)

// copyTo copies a directory, as a backup or a clone of a disk does, in stead of
// what is there.
func (w *world) copyTo(t testing.TB, from, to string) {
	t.Helper()
	w.tool(t, "rm", "-rf", to)
	w.tool(t, "cp", "-a", from, to)
}

// quarantined waits until a host is quarantined and returns why.
func (h *host) quarantined(t testing.TB, from int) string {
	t.Helper()
	e := h.w.event(t, from, h.name+" is quarantined", func(e api.Event) bool { return e.Type == "host.quarantined" && e.Host == h.name })
	why, _ := e.Data["reason"].(string)
	if s := show[api.Host](t, h.w, "host", "show", h.name); s.Quarantined != why {
		t.Errorf("it is shown as quarantined because of %q, the event says %q", s.Quarantined, why)
	}
	h.w.cli(t, "run", h.name, "--", "true").exits(t, 125, "quarantined")
	return why
}

// readmitted lets a host back in, which obeys then.
func (h *host) readmitted(t testing.TB) {
	t.Helper()
	from := h.w.events.mark()
	h.w.must(t, "host", "readmit", h.name)
	h.online(t, from)
	h.w.must(t, "run", h.name, "--", "true")
}

// TestCopiedState: a second agent is started on a copy of the state directory.
// Both are shut out until somebody has decided which one it is.
func TestCopiedState(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	edge, other := w.addHost(t, "edge-01", false), w.addHost(t, "edge-02", false)
	w.must(t, "run", "edge-01", "--", "true")
	edge.agent.end(t, term)
	clone := w.newHost(t, "clone", false)
	w.copyTo(t, edge.dir, clone.dir)
	write(t, clone.config(), strings.Replace(read(t, clone.config()), `"clone"`, `"edge-01"`, 1))
	edge.start(t)
	from := w.events.mark()
	clone.startAlone(t)
	// Whatever shows it first: the two speak beside each other, or each has an
	// audit log of its own.
	if why := edge.quarantined(t, from); !strings.Contains(why, "two processes speak for this host") && !strings.Contains(why, "two histories") {
		t.Errorf("quarantined because of %q", why)
	}
	clone.agent.end(t, kill)
	edge.readmitted(t)
	if s := show[api.Host](t, w, "host", "show", other.name); s.Quarantined != "" {
		t.Errorf("host %s is quarantined too: %s", other.name, s.Quarantined)
	}
	w.must(t, "run", other.name, "--", "true")
}

// TestOldDisk: the agent's state directory is that of yesterday. What it was
// asked since is LOST, and it is asked nothing until somebody has looked.
func TestOldDisk(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	edge, other := w.addHost(t, "edge-01", false), w.addHost(t, "edge-02", false)
	w.must(t, "run", "edge-01", "--", "true")
	edge.agent.end(t, term)
	backup := w.path("edge-01.backup")
	w.copyTo(t, edge.dir, backup)
	edge.start(t)
	forgotten := w.submit(t, "edge-01", "sleep", "600")
	w.state(t, forgotten, "RUNNING")
	for range 3 {
		w.must(t, "run", "edge-01", "--", "true")
	}
	edge.agent.end(t, kill)
	w.copyTo(t, backup, edge.dir)
	from := w.events.mark()
	edge.startAlone(t)
	edge.quarantined(t, from)
	edge.readmitted(t)
	if got := w.ended(t, forgotten)[forgotten]; got != "LOST host_rolled_back" {
		t.Errorf("what it has forgotten is %s", got)
	}
	w.must(t, "run", other.name, "--", "true")
}

// TestOldCoordinator: the coordinator's state directory is that of yesterday. It
// finds out by what it has signed itself, refuses everything, also after a
// restart, and says what to do, which helps.
func TestOldCoordinator(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	edge := w.addHost(t, "edge-01", false)
	w.must(t, "run", "edge-01", "--", "true")
	dir, old, newest := w.path("coordinator"), w.path("coordinator.old"), w.path("coordinator.newest")
	w.coordinator.end(t, term)
	w.copyTo(t, dir, old)
	from := w.events.mark()
	w.startCoordinator(t)
	edge.online(t, from)
	for range 3 {
		w.must(t, "run", "edge-01", "--", "true")
	}
	w.coordinator.end(t, term)
	w.copyTo(t, dir, newest)
	edge.agent.end(t, term) // so that the old one can be started alone

	w.copyTo(t, old, dir)
	for range 3 { // until its term is beyond all that the host has seen
		w.startCoordinator(t)
		w.coordinator.end(t, term)
	}
	w.startCoordinator(t)
	edge.startAlone(t)
	refusal := "put the newest copy of its state directory in place"
	w.coordinator.says(t, w.coordinator.talk, "entering recovery")
	for _, restart := range []bool{false, true} {
		if restart {
			edge.agent.end(t, kill) // there is nobody to prove it again
			w.coordinator.end(t, kill)
			w.startCoordinator(t)
		}
		w.cli(t, "run", "edge-01", "--", "true").exits(t, 125, refusal)
		w.cli(t, "host", "invite").exits(t, 1, refusal)
		if s := show[api.Status](t, w, "status"); !strings.Contains(s.Recovery, refusal) {
			t.Errorf("the status says %q", s.Recovery)
		}
		if s := show[api.Host](t, w, "host", "show", "edge-01"); s.Quarantined != "" {
			t.Errorf("the host is blamed: %s", s.Quarantined)
		}
	}
	w.coordinator.end(t, term)
	w.copyTo(t, newest, dir)
	w.startCoordinator(t)
	edge.startAlone(t)
	w.coordinator.says(t, w.coordinator.talk, "entering recovery until the next start")
	w.cli(t, "run", "edge-01", "--", "true").exits(t, 125, "If this is the newest copy of its state directory, start it again")
	w.coordinator.end(t, term)
	w.startCoordinator(t)
	w.must(t, "run", "edge-01", "--", "true")
}
