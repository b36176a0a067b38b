//go:build integration

package integration

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/san"
)

// cut is how soon a host that is revoked must be gone. On a busy machine it is half of
// the shortest time after which either side would miss the other by itself.
func cut() time.Duration { return within(2*time.Second, 15*time.Second) }

// said is when a program has written the first line with that text from a
// position on.
func (o *transcript) said(t testing.TB, from int, text string) time.Time {
	t.Helper()
	var at time.Time
	until(t, &o.change, "it says "+text, func() bool {
		s := o.String()[from:]
		end := strings.LastIndexByte(s, '\n') + 1
		for line := range strings.Lines(s[:end]) {
			if !strings.Contains(line, text) {
				continue
			}
			stamp, _, _ := strings.Cut(strings.TrimPrefix(line, "time="), " ")
			var err error
			if at, err = time.Parse(time.RFC3339Nano, stamp); err != nil {
				t.Fatalf("a line without a time: %s", line)
			}
			return true
		}
		return false
	})
	return at
}

// ring is the number of the ring that a host holds.
func (h *host) ring(t testing.TB) uint64 {
	t.Helper()
	var s api.AgentStatus
	if err := json.Unmarshal([]byte(h.get(t, "/status")), &s); err != nil {
		t.Fatal(err)
	}
	return s.Ring
}

// TestRevocation shuts a host out that is connected, and one that is away.
func TestRevocation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	here, away, other := w.addHost(t, "edge-01", false), w.addHost(t, "edge-02", false), w.addHost(t, "edge-03", false)
	away.agent.end(t, term)
	from, heard := w.events.mark(), len(here.agent.talk.String())
	w.must(t, "host", "revoke", "edge-01", "--reason", "it was stolen", "--yes")
	revoked := w.event(t, from, "edge-01 is revoked", func(e api.Event) bool { return e.Type == "host.revoked" })
	lost := here.agent.talk.said(t, heard, "broker connection failed")
	t.Logf("the connection was cut %s after the revocation", lost.Sub(revoked.At).Round(time.Millisecond))
	if took := lost.Sub(revoked.At); took > cut() {
		t.Errorf("it took %s, want at most %s", took, cut())
	}
	here.agent.says(t, here.agent.talk, "the fleet has shut this host out")
	here.agent.says(t, here.agent.talk, "it was stolen")

	from = w.events.mark()
	w.must(t, "host", "revoke", "edge-02", "--reason", "sold", "--yes")
	away.startAlone(t)
	away.agent.says(t, away.agent.talk, "the fleet has shut this host out")
	away.agent.says(t, away.agent.talk, "sold")
	w.must(t, "run", other.name, "--", "true")
	for _, e := range w.events.since(from) {
		if e.Type == "host.online" && e.Host != other.name {
			t.Errorf("host %s came online", e.Host)
		}
	}
	// It is the fleet that shuts it out: on the host itself work goes on.
	away.local(t, "run", "--", "true").exits(t, 0)
}

// coOwner makes another owner, on a machine of their own, and returns how they
// type commands.
func (w *world) coOwner(t testing.TB, person string) (request string, cli func(testing.TB, ...string) result) {
	t.Helper()
	cli = func(t testing.TB, args ...string) result {
		t.Helper()
		env := w.env("XDG_CONFIG_HOME=" + w.path(person))
		return w.spawn(t, person, env, append([]string{filepath.Join(w.bin, "hostler")}, args...)...).finish(t)
	}
	code := strings.TrimSpace(w.must(t, "fleet", "show", "-o", "template={{.code}}"))
	made := cli(t, "fleet", "request-owner", code, "--person", person).exits(t, 0)
	return field(t, made.stdout, "request"), cli
}

// TestNewRings changes the ring while the coordinator runs, with a host that is
// there and one that misses several.
func TestNewRings(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	here, away := w.addHost(t, "edge-01", false), w.addHost(t, "edge-02", false)
	away.agent.end(t, term)
	request, bob := w.coOwner(t, "bob")
	w.must(t, "fleet", "ring", "add-owner", request, "--out", w.path("ring-3"))
	w.must(t, "fleet", "ring", "publish")
	w.must(t, "fleet", "ring", "set-threshold", "2", "--out", w.path("ring-4"))
	from := w.events.mark()
	w.must(t, "fleet", "ring", "publish")
	w.event(t, from, "ring 4 is taken", func(e api.Event) bool { return e.Type == "ring.taken" && e.Object == "4" })
	w.must(t, "run", "edge-01", "--", "true") // whose order names ring 4
	if n := here.ring(t); n != 4 {
		t.Errorf("the host that is there holds ring %d", n)
	}
	away.start(t)
	w.must(t, "run", "edge-02", "--", "true")
	if n := away.ring(t); n != 4 {
		t.Errorf("the host that was away for two rings holds ring %d", n)
	}

	// One of two owners changes nothing, both do. The file goes to the
	// coordinator's machine this time.
	w.must(t, "fleet", "ring", "set-threshold", "1", "--out", w.path("ring-5"))
	w.start(t, "hostler-coordinator", "--config", w.path("coordinator.toml"), "init", "--ring", w.path("ring-5")).finish(t).exits(t, 1, "too few owners signed it: 1 of 2")
	bob(t, "fleet", "ring", "sign", w.path("ring-5"), "--yes").exits(t, 0)
	w.mustRun(t, "hostler-coordinator", "--config", w.path("coordinator.toml"), "init", "--ring", w.path("ring-5"))
	from = w.events.mark()
	w.coordinator.signal(t, hup)
	w.event(t, from, "ring 5 is taken", func(e api.Event) bool { return e.Type == "ring.taken" && e.Object == "5" })
	w.must(t, "run", "edge-01", "--", "true")
	if n := here.ring(t); n != 5 {
		t.Errorf("the host holds ring %d", n)
	}
	// Ann has lost her key: bob alone signs her out.
	bob(t, "fleet", "ring", "remove-owner", "owner", "--out", w.path("ring-6")).exits(t, 0)
	w.must(t, "fleet", "ring", "sign", w.path("ring-6"))
	w.must(t, "fleet", "ring", "publish")
	w.cli(t, "fleet", "ring", "set-threshold", "1", "--out", w.path("ring-7")).exits(t, 4, "belongs to no owner in ring 6")
	w.must(t, "run", "edge-01", "--", "true")
	if n := here.ring(t); n != 6 {
		t.Errorf("the host holds ring %d", n)
	}
}

// TestReplacedCoordinator puts another coordinator, with keys of its own, in the
// place of one whose keys were stolen. The hosts follow; the one that was taken
// out cannot order, and cannot enrol.
func TestReplacedCoordinator(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	edge := w.addHost(t, "edge-01", false)
	w.must(t, "run", "edge-01", "--", "true")
	stolen, was := w.coordinatorKey(t), w.path("stolen")
	old := show[[]struct {
		Coordinators []string `json:"coordinators"`
	}](t, w, "fleet", "ring", "ls")[1].Coordinators[0]

	// The second one is made beside the first, for the same addresses.
	second := w.path("second")
	write(t, w.path("second.toml"), fmt.Sprintf("state_dir = %q\n[http]\nlisten = %q\n[mqtt]\nlisten = %q\n", second, w.http, w.mqtt))
	code := strings.TrimSpace(w.must(t, "fleet", "show", "-o", "template={{.code}}"))
	request := field(t, w.mustRun(t, "hostler-coordinator", "--config", w.path("second.toml"), "init", "--fleet", code), "request")
	w.must(t, "fleet", "ring", "add-coordinator", request, "--out", w.path("ring-3"))
	w.copyTo(t, w.path("coordinator"), was)
	w.must(t, "fleet", "ring", "remove-coordinator", old, "--out", w.path("ring-4"))
	w.mustRun(t, "hostler-coordinator", "--config", w.path("second.toml"), "init", "--ring", w.path("ring-4"))

	// The first is told while it runs, and ends.
	w.must(t, "fleet", "ring", "publish", "--yes")
	if code := w.coordinator.code(t); code != 1 {
		t.Errorf("it ended with exit code %d", code)
	}
	w.coordinator.says(t, w.coordinator.talk, "the owners of the fleet took this coordinator out")
	w.start(t, "hostler-coordinator", "--config", w.path("coordinator.toml"), "run").finish(t).exits(t, 1, "ring 4 does not have this coordinator")

	// Its database goes to the second, its keys do not.
	for _, f := range []string{"store.db", "store.db-wal", "store.db-shm", "output"} {
		if matches, _ := filepath.Glob(filepath.Join(w.path("coordinator"), f)); len(matches) > 0 {
			w.copyTo(t, filepath.Join(w.path("coordinator"), f), filepath.Join(second, f))
		}
	}
	w.coordinator = w.start(t, "hostler-coordinator", "--config", w.path("second.toml"), "run")
	w.coordinator.says(t, w.coordinator.talk, "serving")
	w.must(t, "login", w.url(), "--token", w.token, "--ca", filepath.Join(second, "ca.crt"))
	edge.agent.says(t, edge.agent.talk, "the certificate was renewed") // by the authority of the second
	w.must(t, "run", "edge-01", "--", "true")
	if n := edge.ring(t); n != 4 {
		t.Errorf("the host holds ring %d", n)
	}

	// An order of the first, brought in by the second's own broker.
	ca, err := certs.LoadAuthority(filepath.Join(second, "ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	l := w.certificate(t, ca, san.Name{Kind: san.Coordinator})
	l.ca = filepath.Join(second, "ca.crt")
	eyes := w.record(t, l, w.everything())
	w.must(t, "run", "edge-01", "--", "true")
	h := open(t, capture(t, eyes, w.topic("edge-01", "order"), 0)).h
	h.N++
	before := metric(t, edge.get(t, "/metrics"), "hostler_agent_messages_refused_total", `code="unknown_key"`)
	write(t, w.path("payload"), string(seal(t, stolen, body(t, h, func(*protocol.Header) {}))))
	w.mosquitto(t, l, "mosquitto_pub", "-q", "0", "-t", w.topic("edge-01", "order"), "-f", w.path("payload")).finish(t).exits(t, 0)
	w.must(t, "run", "edge-01", "--", "true")
	if n := metric(t, edge.get(t, "/metrics"), "hostler_agent_messages_refused_total", `code="unknown_key"`); n != before+1 {
		t.Errorf("the host refused %v messages of the one that was taken out, want 1", n-before)
	}
	invite := w.invite(t)
	w.coordinator.end(t, kill)

	// The first, with the disk from before, where the second was.
	w.copyTo(t, was, w.path("coordinator"))
	w.startCoordinator(t)
	p := w.newHost(t, "edge-02", false).spawn(t, "edge-02-join", "join", invite)
	p.finish(t).exits(t, 4, "the answering server is not of the fleet")
	edge.agent.says(t, edge.agent.talk, "refused TLS peer")
}
