//go:build integration

package integration

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/protocol"
)

// TestWatch prints what goes through the real broker: signed messages as they are, and
// a forged one with the code of what is wrong with it.
func TestWatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.addHost(t, "edge-01", false)
	w.cli(t, "watch", "host/+/report").exits(t, 3, "hostler viewer create NAME --keep")
	w.must(t, "viewer", "create", "screen", "--keep")

	// What is retained comes at once, and is good.
	docs := w.must(t, "watch", "fleet/+", "--verify", "--limit", "2", "-o", "template={{.signature}} {{.text}}")
	for _, want := range []string{"good the coordinator is online", "good the rings of the fleet"} {
		if !strings.Contains(docs, want) {
			t.Errorf("it has no %q in\n%s", want, docs)
		}
	}
	forged := w.start(t, "hostler", "watch", "host/edge-01/+", "--verify", "-o", "json", "--no-headers")
	forged.says(t, forged.out, `"signature":"good"`) // it has subscribed
	w.must(t, "run", "edge-01", "--", "true")
	forged.says(t, forged.out, `"type":"report/1"`)

	// Whoever has the coordinator's certificate may publish, and yet signs nothing.
	order := string(lineOf(t, forged, `"type":"order/1"`).Body)
	w.mosquitto(t, w.stolenCoordinator(), "mosquitto_pub", "-t", w.topic("edge-01", "order"), "-m", string(seal(t, stranger(t), order))).finish(t).exits(t, 0)
	forged.says(t, forged.out, `"signature":"bad"`)
	if bad := lineOf(t, forged, `"signature":"bad"`); bad.Code != string(protocol.ErrUnknownKey) || bad.Topic != w.topic("edge-01", "order") {
		t.Errorf("the forged order is shown as %+v", bad)
	}
	forged.signal(t, term)
	forged.finish(t)

	// As lines, and with an end.
	lines := w.start(t, "hostler", "watch", "host/edge-01/lease", "--viewer", w.path("operator/hostler/fleets/lab/viewer"), "--broker", w.mqtt, "--limit", "1")
	if got := lines.finish(t).exits(t, 0).stdout; !strings.Contains(got, "host/edge-01/lease") || !strings.Contains(got, "unchecked") {
		t.Errorf("a lease is shown as %s", got)
	}
	w.must(t, "viewer", "revoke", "screen", "--yes")
	w.cli(t, "watch", "#").exits(t, 6, "hostler viewer ls")
}

// watchedLine is a line of hostler watch -o json.
type watchedLine struct {
	Topic, Code string
	Body        json.RawMessage
}

// lineOf returns the first line that a watcher has printed and that holds a text.
func lineOf(t testing.TB, p *process, text string) watchedLine {
	t.Helper()
	for _, line := range p.out.lines() {
		if strings.Contains(line, text) {
			var l watchedLine
			if err := json.Unmarshal([]byte(line), &l); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			return l
		}
	}
	t.Fatalf("no line holds %q", text)
	return watchedLine{}
}
