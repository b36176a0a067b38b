//go:build integration

package integration

import (
	"os"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/api"
)

// TestLostCoordinator loses the disk of a coordinator of which there is no backup.
// The owners let a new one in; a host joins it with the key, the commands and the
// memory that it has, tells what it did, and carries nothing out again. Commands go
// on meanwhile.
func TestLostCoordinator(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	edge := w.addHost(t, "edge-01", false)
	witness := w.path("witness")
	first := w.writes(t, "edge-01", witness, "first")
	w.ended(t, first)
	gate := w.fifo(t, "gate")
	lasting := w.submit(t, "edge-01", "sh", "-c", `read x <"$0"; echo lasting >>"$1"`, gate, witness)
	w.state(t, lasting, "RUNNING")
	identity := read(t, edge.path("identity.pgp"))

	w.coordinator.end(t, kill)
	if err := os.RemoveAll(w.path("coordinator")); err != nil {
		t.Fatal(err)
	}
	made := w.coordinatorCommand(t, "init", "--fleet", strings.TrimSpace(w.must(t, "fleet", "show", "-o", "template={{.code}}")))
	w.token = field(t, made, "token")
	w.must(t, "fleet", "ring", "replace-coordinator", field(t, made, "request"), "--out", w.path("ring-3"))
	w.coordinatorCommand(t, "init", "--ring", w.path("ring-3"))
	w.startCoordinator(t)
	w.must(t, "login", w.url(), "--token", w.token, "--ca", w.path("coordinator/ca.crt"))
	w.follow(t)

	code := w.invite(t)
	edge.spawn(t, "edge-01-early", "join", code).finish(t).exits(t, 1, "To join the fleet again, stop it first")
	edge.agent.end(t, term)
	edge.spawn(t, "edge-01-other", "join", code, "--host", "edge-02").finish(t).exits(t, 4, "keeps its name")
	waits := func(args ...string) *process {
		p := edge.spawn(t, "edge-01-again", append([]string{"join"}, args...)...)
		until(t, &p.out.change, "it says what it waits for", func() bool {
			return strings.Contains(p.out.String(), "hostler host pending") || p.ended()
		})
		return p
	}
	waits(code).end(t, kill)
	p := waits()
	w.must(t, "host", "approve", "edge-01", "--words", field(t, p.out.String(), "words"))
	if said := p.finish(t).exits(t, 0).stdout; !strings.Contains(said, "again, with all that it remembers") {
		t.Errorf("join said\n%s", said)
	}
	if read(t, edge.path("identity.pgp")) != identity {
		t.Error("the host has another key")
	}
	edge.startAlone(t)
	w.coordinator.says(t, w.coordinator.talk, `before the recovery" host=edge-01`)
	if got := w.shown(t, first); got != "DONE ok" {
		t.Errorf("what was done before is %s", got)
	}
	if a := show[api.Action](t, w, "action", "show", lasting); a.State != "RUNNING" || a.Kind != "host.run" || a.Requester != "host:edge-01/admin" {
		t.Errorf("what lasts is %+v", a)
	}
	release(t, gate)
	if got := w.ended(t, lasting)[lasting]; got != "DONE ok" {
		t.Errorf("what lasted is %s", got)
	}
	w.must(t, "run", "edge-01", "--", "sh", "-c", `echo after >>"$0"`, witness)
	if got := strings.Fields(read(t, witness)); strings.Join(got, " ") != "first lasting after" {
		t.Errorf("written was %v", got)
	}
	if h := show[api.Host](t, w, "host", "show", "edge-01"); h.Quarantined != "" || h.Connectivity != "online" {
		t.Errorf("the host is %s, quarantined: %q", h.Connectivity, h.Quarantined)
	}
	w.must(t, "audit", "verify")
	edge.agent.end(t, term)
	edge.spawn(t, "edge-01-member", "join").finish(t).exits(t, 4, "is a member of a fleet already")
}
