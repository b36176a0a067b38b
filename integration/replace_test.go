//go:build integration

package integration

import (
	"strings"
	"testing"

	"github.com/hostler-io/hostler/api"
)

// TestHostReplace gives a machine up that is not lost after all, and puts another one
// in its place. The old one is shut out, whatever it tries, and goes on with what it
// had begun; nothing of that is done again, and the new one bears the name from then
// on, over a crash of the coordinator too.
func TestHostReplace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	old := w.newHost(t, "edge-01", false)
	p, words := old.join(t, w.invite(t, "--label", "site=lab"))
	w.must(t, "host", "approve", "edge-01", "--words", words)
	p.finish(t).exits(t, 0)
	old.start(t)
	witness := w.path("witness")
	done := w.writes(t, "edge-01", witness, "done")
	w.ended(t, done)
	gate, ended := w.fifo(t, "gate"), w.fifo(t, "ended")
	lasting := w.submit(t, "edge-01", "sh", "-c", `read x <"$0"; echo lasting >>"$1"; echo >"$2"`, gate, witness, ended)
	w.state(t, lasting, "RUNNING")

	w.cli(t, "host", "replace", "edge-01").exits(t, 4, "--yes")
	said := w.cli(t, "host", "replace", "edge-01", "--reason", "it burned", "--yes").exits(t, 0, "1 action(s) are LOST", "Make sure that the lost machine is off")
	line := strings.Fields(said.stdout)
	if len(line) != 5 || strings.Join(line[:4], " ") != "hostler-agent join --host edge-01" {
		t.Fatalf("host replace printed %q", line)
	}
	code := line[4]
	a := show[api.Action](t, w, "action", "show", lasting)
	if a.State != "LOST" || a.Reason != "host_replaced" || !strings.Contains(a.Detail, "how it ended is not known") {
		t.Errorf("what ran is %s(%s): %s", a.State, a.Reason, a.Detail)
	}
	old.agent.says(t, old.agent.talk, "the fleet has shut this host out")
	w.cli(t, "run", "edge-01", "--", "true").exits(t, 125, "is replacing", "it burned")
	if got := w.must(t, "status", "-o", "template={{.hosts.replacing}}"); strings.TrimSpace(got) != "1" {
		t.Errorf("%s hosts wait for another machine", got)
	}

	next := w.newHost(t, "next-01", false)
	write(t, next.config(), strings.Replace(read(t, next.config()), `host = "next-01"`, `host = "edge-01"`, 1))
	other := w.newHost(t, "edge-02", false)
	other.spawn(t, "edge-02-join", "join", code).finish(t).exits(t, 4, "join with --host edge-01")
	next.spawn(t, "next-01-early", "join", w.invite(t)).finish(t).exits(t, 4, "is kept for the new machine")
	p = next.spawn(t, "next-01-join", "join", code)
	p.says(t, p.out, "words:")
	w.must(t, "host", "approve", "edge-01", "--words", field(t, p.out.String(), "words"))
	p.finish(t).exits(t, 0)
	from := w.events.mark()
	next.startAlone(t)
	w.event(t, from, "the new machine is online", func(e api.Event) bool { return e.Type == "host.online" && e.Host == "edge-01" })

	w.ended(t, w.writes(t, "edge-01", witness, "new"))
	w.coordinator.end(t, kill)
	w.startCoordinator(t)
	// Its TLS certificate is good by its dates, and by who signed it.
	old.agent.end(t, kill)
	old.startAlone(t)
	old.agent.says(t, old.agent.talk, "the fleet has shut this host out")
	w.ended(t, w.writes(t, "edge-01", witness, "newer"))
	release(t, gate) // on the old machine the command is still there
	read(t, ended)
	if got := strings.Join(strings.Fields(read(t, witness)), " "); got != "done new newer lasting" {
		t.Errorf("written was %q", got)
	}
	if got := w.shown(t, lasting); got != "LOST host_replaced" {
		t.Errorf("what ran on the old machine is %s", got)
	}
	if got := w.shown(t, done); got != "DONE ok" {
		t.Errorf("what had ended is %s", got)
	}
	h := show[api.Host](t, w, "host", "show", "edge-01")
	if h.State != "online" || h.Quarantined != "" || len(h.Labels) != 1 || h.Labels[0] != "site=lab" {
		t.Errorf("the new machine is %+v", h)
	}
	for verb, want := range map[string]string{"host.replace": `"unknown": 1`, "host.approve": `"replaced":`} {
		if got := w.must(t, "audit", "ls", "--verb", verb, "-o", "json"); !strings.Contains(got, want) {
			t.Errorf("the audit log says %s", got)
		}
	}
	w.must(t, "audit", "verify")
}
