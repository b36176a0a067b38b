//go:build integration

package integration

import (
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/hostler-io/hostler/api"
)

// relay is an address that leads to one place, and then to another: a name that
// moves, or a machine in front.
type relay struct {
	listener net.Listener
	wg       sync.WaitGroup

	mu    sync.Mutex
	to    string // nowhere if empty
	conns map[net.Conn]bool
}

func newRelay(t testing.TB, to string) *relay {
	t.Helper()
	l, err := net.Listen("tcp", freeAddress(t))
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{listener: l, to: to, conns: make(map[net.Conn]bool)}
	r.wg.Go(r.serve)
	t.Cleanup(func() {
		l.Close()
		r.lead("")
		r.wg.Wait()
	})
	return r
}

func (r *relay) address() string { return r.listener.Addr().String() }

func (r *relay) serve() {
	for {
		c, err := r.listener.Accept()
		if err != nil {
			return // it was closed
		}
		r.wg.Go(func() { r.carry(c) })
	}
}

// carry leads one connection on until either side ends it.
func (r *relay) carry(c net.Conn) {
	defer c.Close()
	r.mu.Lock()
	to := r.to
	r.mu.Unlock()
	if to == "" {
		return
	}
	up, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer up.Close()
	r.mu.Lock()
	if r.to != to {
		r.mu.Unlock()
		return // it leads elsewhere by now
	}
	r.conns[c], r.conns[up] = true, true
	r.mu.Unlock()
	var both sync.WaitGroup
	for from, to := range map[net.Conn]net.Conn{c: up, up: c} {
		both.Go(func() {
			_, _ = io.Copy(to, from) // ends with either side
			c.Close()
			up.Close()
		})
	}
	both.Wait()
	r.mu.Lock()
	delete(r.conns, c)
	delete(r.conns, up)
	r.mu.Unlock()
}

// lead cuts every connection, and leads those that come to another place.
func (r *relay) lead(to string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.to = to
	for c := range r.conns {
		c.Close()
	}
}

// TestCoordinatorsSideBySide: nobody stopped the coordinator that another one,
// recovered from a backup, took the place of. While hosts reach the old one they
// obey it. Once they have met the new one they obey the old one nothing, wherever
// their way leads: what it asks of them is not carried out, and nothing is
// carried out twice.
func TestCoordinatorsSideBySide(t *testing.T) {
	t.Parallel()
	var toHTTP, toMQTT *relay
	w := newWorld(t, func(w *world) {
		toHTTP, toMQTT = newRelay(t, w.http), newRelay(t, w.mqtt)
		w.served = []string{"HOSTLER_HTTP_ADDRESSES=" + toHTTP.address() + "," + w.http, "HOSTLER_MQTT_ADDRESSES=" + toMQTT.address()}
	})
	lead := func(http, mqtt string) { toHTTP.lead(http); toMQTT.lead(mqtt) }
	oldHTTP, oldMQTT, witness := w.http, w.mqtt, w.path("witness")
	edge := w.addHost(t, "edge-01", false)
	first := w.writes(t, "edge-01", witness, "first")
	w.ended(t, first)
	lasting := w.submit(t, "edge-01", "sh", "-c", "until test -e "+w.path("go")+"; do sleep 0.1; done; echo lasting >>"+witness)
	w.state(t, lasting, "RUNNING")
	backup := field(t, w.coordinatorCommand(t, "backup", w.dir), "backup")
	since := w.writes(t, "edge-01", witness, "since")
	w.ended(t, since)

	// The old one goes on with its own configuration; so does who asks it.
	old, before := w.coordinator, w.path("operator.before")
	w.copyTo(t, w.path("operator"), before)
	ask := func(args ...string) string {
		return w.spawn(t, "hostler-before", append(w.env(), "XDG_CONFIG_HOME="+before), append([]string{filepath.Join(w.bin, "hostler")}, args...)...).finish(t).exits(t, 0).stdout
	}
	w.http, w.mqtt = freeAddress(t), freeAddress(t)
	w.served = []string{"HOSTLER_HTTP_ADDRESSES=" + toHTTP.address() + "," + w.http, "HOSTLER_MQTT_ADDRESSES=" + toMQTT.address()}
	write(t, w.path("coordinator.toml"), fmt.Sprintf("state_dir = %q\n[http]\nlisten = %q\n[mqtt]\nlisten = %q\n", w.path("recovered"), w.http, w.mqtt))
	w.coordinatorCommand(t, "restore", backup)
	w.recovered(t)
	w.startCoordinator(t)
	meanwhile := strings.TrimSpace(ask("run", "edge-01", "--no-wait", "--", "sh", "-c", "echo meanwhile >>"+witness))
	w.ended(t, meanwhile) // the events are those of the old one

	// The way leads to the new one.
	lead("", "")
	write(t, w.path("go"), "")
	lead(w.http, w.mqtt)
	w.coordinator.says(t, w.coordinator.talk, `before the recovery" host=edge-01`)
	w.must(t, "login", w.url(), "--token", w.token, "--ca", w.path("recovered/ca.crt"))
	w.must(t, "run", "edge-01", "--", "sh", "-c", "echo after >>"+witness)
	for _, id := range []string{first, since, meanwhile} {
		if got := w.shown(t, id); got != "DONE ok" {
			t.Errorf("action %s is %s", id, got)
		}
	}

	// It leads back to the old one, which still has something to ask for.
	stale := strings.TrimSpace(ask("run", "edge-01", "--no-wait", "--", "sh", "-c", "echo stale >>"+witness))
	const refused = "signed by a key that is not known here"
	lead(oldHTTP, oldMQTT)
	edge.agent.says(t, edge.agent.talk, refused)
	edge.agent.end(t, kill)
	edge.startAlone(t) // one that starts knows no more than what it kept
	edge.agent.says(t, edge.agent.talk, refused)
	old.says(t, old.talk, "it names ring 3, ring 2 is held") // they have met
	if old.ended() {
		t.Error("the old one has ended")
	}
	if got := strings.TrimSpace(ask("action", "show", stale, "-o", "template={{.state}}")); got != "PENDING_SCHEDULE" {
		t.Errorf("the old one has its action %s", got)
	}

	// And to the new one again.
	lead(w.http, w.mqtt)
	w.must(t, "run", "edge-01", "--", "sh", "-c", "echo again >>"+witness)
	if got := w.shown(t, lasting); got != "DONE ok" {
		t.Errorf("what lasted is %s", got)
	}
	if h := show[api.Host](t, w, "host", "show", "edge-01"); h.Quarantined != "" {
		t.Errorf("it is quarantined: %s", h.Quarantined)
	}
	seen := make(map[string]int)
	for _, word := range strings.Fields(read(t, witness)) {
		seen[word]++
	}
	if got, want := fmt.Sprint(seen), "map[after:1 again:1 first:1 lasting:1 meanwhile:1 since:1]"; got != want {
		t.Errorf("written was %s, want %s", got, want)
	}
	// What the old one recorded after the backup is lost, if it was sealed and a host has
	// seen that; all else is whole.
	verdict := w.cli(t, "audit", "verify", "-o", "json")
	for _, f := range decode[auditVerdict](t, verdict.stdout).Faults {
		if f.Kind != "lost" {
			t.Errorf("audit verify says %+v", f)
		}
	}
}
