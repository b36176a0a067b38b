//go:build integration

package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hostler-io/hostler/api"
)

// coordinatorCommand runs a command of the coordinator's program, which has to
// succeed, and returns what it printed.
func (w *world) coordinatorCommand(t testing.TB, args ...string) string {
	t.Helper()
	return w.mustRun(t, "hostler-coordinator", append([]string{"--config", w.path("coordinator.toml")}, args...)...)
}

// recovered takes the steps that follow a restore, as a coordinator's machine
// and an owner take them.
func (w *world) recovered(t testing.TB) (report string) {
	t.Helper()
	request := field(t, w.coordinatorCommand(t, "recover"), "request")
	w.must(t, "fleet", "ring", "replace-coordinator", request, "--out", w.path("ring-next"))
	return w.coordinatorCommand(t, "recover", "--ring", w.path("ring-next"))
}

// writes asks a host to write a word into a file, and returns the action.
func (w *world) writes(t testing.TB, host, file, word string) string {
	t.Helper()
	return w.submit(t, host, "sh", "-c", fmt.Sprintf("echo %s >>%s", word, file))
}

// shown is what the coordinator says of an action.
func (w *world) shown(t testing.TB, id string) string {
	t.Helper()
	a := show[api.Action](t, w, "action", "show", id)
	return strings.TrimSpace(a.State + " " + a.Reason)
}

// TestRestoredCoordinator backs a coordinator up while orders flow, lets it go
// on, destroys it, and recovers it from the backup. Every order was carried out
// once, and is told as it ended; what no host has seen is LOST.
func TestRestoredCoordinator(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	edge, away := w.addHost(t, "edge-01", false), w.addHost(t, "edge-02", false)
	witness := w.path("witness")
	var done []string
	first := w.writes(t, "edge-01", witness, "first")
	w.ended(t, first)
	lasting := w.submit(t, "edge-01", "sh", "-c", "until test -e "+w.path("go")+"; do sleep 0.1; done; echo lasting >>"+witness)
	w.state(t, lasting, "RUNNING")
	from := w.events.mark()
	away.agent.end(t, kill)
	w.event(t, from, "edge-02 is away", func(e api.Event) bool { return e.Host == "edge-02" && e.Type == "host.late" })
	later, never := w.writes(t, "edge-02", witness, "later"), w.writes(t, "edge-02", witness, "never")

	// The backup, while orders flow.
	var stop atomic.Bool
	flowing := make(chan []string)
	go func() {
		var ids []string
		for n := 0; !stop.Load(); n++ {
			ids = append(ids, w.writes(t, "edge-01", witness, fmt.Sprint("flow-", n)))
		}
		flowing <- ids
	}()
	backup := field(t, w.coordinatorCommand(t, "backup", w.dir), "backup")
	stop.Store(true)
	done = append(done, <-flowing...)

	// It goes on.
	w.must(t, "action", "cancel", never)
	away.start(t)
	w.ended(t, later)
	for n := range 5 {
		done = append(done, w.writes(t, "edge-01", witness, fmt.Sprint("since-", n)))
	}
	w.ended(t, done...)
	done = append(done, first, later)
	done = append(done, w.sealed(t, witness)...)
	invite := w.invite(t)
	before := w.path("coordinator.before")
	w.coordinator.end(t, kill)
	w.copyTo(t, w.path("coordinator"), before)
	if err := os.RemoveAll(w.path("coordinator")); err != nil {
		t.Fatal(err)
	}
	write(t, w.path("go"), "")
	edge.agent.says(t, edge.agent.talk, "") // it is there, and nobody hears it

	w.coordinatorCommand(t, "restore", backup)
	w.start(t, "hostler-coordinator", "--config", w.path("coordinator.toml"), "run").finish(t).exits(t, 1, "Run: hostler-coordinator recover")
	report := w.recovered(t)
	if !strings.Contains(report, "hosts: 2 to be asked") {
		t.Errorf("the report says\n%s", report)
	}
	w.startCoordinator(t)
	for _, host := range []string{"edge-01", "edge-02"} {
		w.coordinator.says(t, w.coordinator.talk, `before the recovery" host=`+host)
	}
	s := show[api.Status](t, w, "status")
	if s.Recovery != "" || s.Recovered == nil || s.Recovered.Hosts != 2 || s.Recovered.Answered != 2 || s.Recovered.LostTo < s.Recovered.LostFrom || s.Recovered.LostFrom == 0 {
		t.Errorf("the status says %+v %+v", s, s.Recovered)
	}
	for _, id := range append(done, lasting) {
		if got := w.shown(t, id); got != "DONE ok" {
			t.Errorf("action %s is %s", id, got)
		}
	}
	// It was cancelled before it was sent, after the backup.
	if got := w.shown(t, never); got != "LOST coordinator_restored" {
		t.Errorf("what was cancelled is %s", got)
	}
	w.must(t, "run", "edge-01", "--", "sh", "-c", "echo after >>"+witness)
	w.must(t, "run", "edge-02", "--", "true")
	words := strings.Fields(read(t, witness))
	seen := make(map[string]int)
	for _, word := range words {
		if seen[word]++; seen[word] > 1 {
			t.Errorf("%s was written %d times", word, seen[word])
		}
	}
	if want := len(done) + 2; len(words) != want {
		t.Errorf("%d words were written, want %d: %v", len(words), want, words)
	}
	for _, host := range []string{"edge-01", "edge-02"} {
		if h := show[api.Host](t, w, "host", "show", host); h.Quarantined != "" {
			t.Errorf("%s is quarantined: %s", host, h.Quarantined)
		}
	}
	// This machine never verified the log before.
	w.cli(t, "audit", "verify").exits(t, 1, "1 fault(s)")
	if v := decode[auditVerdict](t, w.cli(t, "audit", "verify", "-o", "json").exits(t, 1).stdout); len(v.Faults) != 1 || v.Faults[0].Kind != "lost" {
		t.Errorf("audit verify says %+v", v)
	}
	w.newHost(t, "edge-03", false).spawn(t, "edge-03-join", "join", invite).finish(t).exits(t, 4, "")

	// The one before comes back to where hosts look for it. None obeys it, and
	// it ends as soon as it is told.
	w.coordinator.end(t, term)
	w.copyTo(t, before, w.path("coordinator"))
	w.startCoordinator(t)
	id := w.writes(t, "edge-01", witness, "stale")
	w.must(t, "fleet", "ring", "publish", "--yes")
	if code := w.coordinator.code(t); code != 1 {
		t.Errorf("the one before ended with exit code %d", code)
	}
	w.coordinator.says(t, w.coordinator.talk, "the owners of the fleet took this coordinator out")
	if strings.Contains(read(t, witness), "stale") {
		t.Errorf("action %s of the one before was carried out", id)
	}
}

// TestRecoveredDisk: the coordinator's disk went back, and there is no newer
// copy. It has found that out; recover makes it useful again.
func TestRecoveredDisk(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	edge := w.addHost(t, "edge-01", false)
	w.must(t, "run", "edge-01", "--", "true")
	dir, old := w.path("coordinator"), w.path("coordinator.old")
	w.start(t, "hostler-coordinator", "--config", w.path("coordinator.toml"), "recover").finish(t).exits(t, 1, "stop it first")
	w.coordinator.end(t, term)
	w.start(t, "hostler-coordinator", "--config", w.path("coordinator.toml"), "recover").finish(t).exits(t, 1, "nothing speaks against this state directory")
	w.copyTo(t, dir, old)
	from := w.events.mark()
	w.startCoordinator(t)
	edge.online(t, from)
	since := w.submit(t, "edge-01", "true")
	w.ended(t, since)
	w.coordinator.end(t, term)
	w.copyTo(t, old, dir)
	w.startCoordinator(t)
	w.coordinator.says(t, w.coordinator.talk, "entering recovery")
	w.cli(t, "run", "edge-01", "--", "true").exits(t, 125, "run hostler-coordinator recover")
	w.coordinator.end(t, term)
	w.recovered(t)
	w.startCoordinator(t)
	w.coordinator.says(t, w.coordinator.talk, `before the recovery" host=edge-01`)
	if got := w.shown(t, since); got != "DONE ok" {
		t.Errorf("what was asked since is %s", got)
	}
	w.must(t, "run", "edge-01", "--", "true")
}

// TestStagingCopy: a copy of a fleet's coordinator, as another fleet's, orders
// nothing of that fleet's hosts even where they look for their own, and takes
// nothing from them.
func TestStagingCopy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	edge := w.addHost(t, "edge-01", false)
	w.must(t, "run", "edge-01", "--", "true")
	backup := field(t, w.coordinatorCommand(t, "backup", w.dir), "backup")
	production := w.path("production")
	w.coordinator.end(t, term)
	w.copyTo(t, w.path("coordinator"), production)
	if err := os.RemoveAll(w.path("coordinator")); err != nil {
		t.Fatal(err)
	}
	w.coordinatorCommand(t, "restore", backup)
	mkdir(t, w.path("staging-operator"))
	operator := func(args ...string) string {
		t.Helper()
		env := w.env("XDG_CONFIG_HOME=" + w.path("staging-operator"))
		return w.spawn(t, "staging", env, append([]string{filepath.Join(w.bin, "hostler")}, args...)...).finish(t).exits(t, 0).stdout
	}
	code := field(t, operator("fleet", "init", "lab"), "code")
	request := field(t, w.coordinatorCommand(t, "recover", "--as-new-fleet", "--fleet", code), "request")
	operator("fleet", "ring", "add-coordinator", request, "--out", w.path("staging-ring"))
	report := w.coordinatorCommand(t, "recover", "--ring", w.path("staging-ring"))
	w.startCoordinator(t) // on the same addresses, under the same name
	operator("login", w.url(), "--token", field(t, report, "token"), "--ca", w.path("coordinator/ca.crt"))
	edge.agent.says(t, edge.agent.talk, "refused TLS peer")
	env := w.env("XDG_CONFIG_HOME=" + w.path("staging-operator"))
	w.spawn(t, "staging", env, filepath.Join(w.bin, "hostler"), "run", "edge-01", "--", "true").finish(t).exits(t, 125, "it is a host of fleet lab")
	w.coordinator.end(t, term)

	w.copyTo(t, production, w.path("coordinator"))
	w.startCoordinator(t)
	w.must(t, "run", "edge-01", "--", "true")
}

// sealed writes until what was recorded before it is sealed, which takes a second,
// and told to edge-01 with the receipts of what comes after it. It returns the
// actions. (hostler audit verify would tell, but remembers what it has seen.)
func (w *world) sealed(t *testing.T, witness string) (ids []string) {
	t.Helper()
	for since := time.Now(); time.Since(since) < 4*time.Second; {
		ids = append(ids, w.writes(t, "edge-01", witness, fmt.Sprint("sealed-", len(ids))))
		w.ended(t, ids[len(ids)-1])
	}
	return ids
}
