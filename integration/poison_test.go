//go:build integration

package integration

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/protocol"
)

// TestPoisonedStreams puts items into streams that are signed as they should
// be, and cannot be read: with the stolen key of the coordinator, and with that
// of a host. None of them may block what comes after it.
func TestPoisonedStreams(t *testing.T) {
	t.Parallel()
	s := newSiege(t)
	t.Run("of a coordinator", func(t *testing.T) { poisonedReports(t, s) })
	t.Run("of a host", func(t *testing.T) { poisonedOrders(t, s) })
	s.unchanged(t)
}

// next is an item of the same stream as the newest one, which it becomes.
func (s *siege) next(t testing.TB, h *protocol.Header, key protocol.Signer, item string) []byte {
	t.Helper()
	h.N++
	h.Item = []byte(item)
	return seal(t, key, body(t, *h, func(*protocol.Header) {}))
}

// last opens the newest message that a viewer has seen on a topic.
func (s *siege) last(t testing.TB, topic string) protocol.Header {
	t.Helper()
	all := captured(s.eyes, topic)
	if len(all) == 0 {
		t.Fatalf("nobody has seen a message on %s", topic)
	}
	return open(t, all[len(all)-1]).h
}

// newID is that of an action of the attacker's.
func newID(n byte) protocol.ActionID {
	return protocol.NewActionID(time.Now().UnixMilli(), [10]byte{n})
}

func poisonedReports(t *testing.T, s *siege) {
	topic, key := s.topic("edge-03", "report"), s.identity(t, s.idle)
	capture(t, s.eyes, topic, 0)
	h := s.last(t, topic)
	tlsOf := s.tlsOf(t, "edge-03")
	id := newID(1)
	spec := []byte(`{"kind":"host.run","argv":["true"]}`)
	good, err := json.Marshal(protocol.Report{
		Action: id, Digest: protocol.Sum(spec), Event: protocol.EventSucceed, State: protocol.StateDone, Reason: protocol.ReasonOK,
		AcceptSeq: 99, Attempt: 1, Spec: spec, Requester: "root", Exit: &protocol.Exit{}, AtMS: time.Now().UnixMilli(),
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, item := range map[string]string{
		"no JSON":        "x",
		"a member twice": `{"action":"` + id.String() + `","action":"` + id.String() + `"}`,
		"no action":      `{"event":"succeed","at_ms":1}`,
		"bad UTF-8":      "{\"event\":\"\xff\"}",
	} {
		from := s.events.mark()
		s.send(t, tlsOf, topic, s.next(t, &h, key, item))
		e := s.event(t, from, name+" is kept as rejected", func(e api.Event) bool { return e.Type == "item.rejected" && e.Host == "edge-03" })
		if e.Data["code"] != "payload" || e.Data["n"] != float64(h.N) {
			t.Errorf("%s: %v", name, e.Data)
		}
	}
	s.send(t, tlsOf, topic, s.next(t, &h, key, string(good)))
	if got := s.ended(t, id.String())[id.String()]; got != "DONE ok" {
		t.Errorf("the report behind them makes it %s", got)
	}
}

func poisonedOrders(t *testing.T, s *siege) {
	topic, key, l := s.topic("edge-01", "order"), s.coordinatorKey(t), s.stolenCoordinator()
	s.must(t, "run", "edge-01", "--", "true")
	h := s.last(t, topic)
	item := func(n byte, spec string) string {
		b, err := json.Marshal(protocol.OrderItem{Action: newID(n), Spec: []byte(spec), Requester: "thief", CreatedMS: time.Now().UnixMilli()})
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	unreadable := []string{
		"x", // no JSON
		strings.TrimSuffix(item(1, "{}"), "}") + `,"requester":"x"}`, // a member twice
		strings.TrimSuffix(item(1, "{}"), "}") + `,"more":1}`,        // an unknown member
		strings.TrimSuffix(item(1, "{}"), "}") + `,"Requester":"x"}`, // another case
	}
	for _, bad := range unreadable {
		s.send(t, l, topic, s.next(t, &h, key, bad))
	}
	specs := map[byte]string{
		10: `{"kind":"host.dance"}`,
		11: `{"kind":"host.run","argv":["a\u0000b"]}`,
		12: "{\"kind\":\"host.run\",\"argv\":[\"\xff\"]}",
		13: `{"kind":"container.create","target":"01890a5d-ac96-774b-bcce-b302099a8057","name":"../x","template":"busybox"}`,
		14: `{"kind":"container.create","target":"01890a5d-ac96-774b-bcce-b302099a8057","name":"x","template":"../../../bin/sh"}`,
		15: `{"kind":"host.run","argv":["true"],"argv":["reboot"]}`,
		16: `{"kind":"host.run","argv":["true"],"user":"../root"}`, // a name that nobody has
	}
	for n, spec := range specs {
		s.send(t, l, topic, s.next(t, &h, key, item(n, spec)))
	}
	last := s.path("witness-last")
	honest, err := json.Marshal([]string{"sh", "-c", `echo "$0"; echo behind >"$1"`, "x", last})
	if err != nil {
		t.Fatal(err)
	}
	s.send(t, l, topic, s.next(t, &h, key, item(99, fmt.Sprintf(`{"kind":"host.run","argv":%s}`, honest))))
	fileUntil(t, last, "the order behind them runs", func(c string) bool { return c == "behind\n" })

	var all []api.Action
	out := s.edge.local(t, "action", "ls", "--limit", "0", "-o", "json").exits(t, 0).stdout
	if err := json.Unmarshal([]byte(out), &all); err != nil {
		t.Fatal(err)
	}
	reasons := make(map[string]int)
	for _, a := range all {
		if a.Requester == "thief" && a.State == "FAILED" {
			reasons[a.Reason]++
		}
	}
	if want := map[string]int{"unknown_kind": 1, "bad_spec": 5, "no_start": 1}; !maps.Equal(reasons, want) {
		t.Errorf("they ended as %v, want %v", reasons, want)
	}
	if n := metric(t, s.edge.get(t, "/metrics"), "hostler_agent_messages_refused_total", `code="payload"`); n != float64(len(unreadable)) {
		t.Errorf("%v of the %d items that cannot be read were counted", n, len(unreadable))
	}
}
