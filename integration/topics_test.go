//go:build integration

package integration

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/protocol"
)

var update = flag.Bool("update", false, "write the examples of doc/mqtt.md anew")

const topicsPage = "../doc/mqtt.md"

// shownTopics are the topics below those of a fleet, in the order of the page.
var shownTopics = []string{
	"host/edge-01/presence", "host/edge-01/heartbeat", "host/edge-01/lease", "host/edge-01/report", "host/edge-01/alert", "host/edge-01/ack", "host/edge-01/out",
	"host/edge-01/order", "host/edge-01/control", "host/edge-01/grant", "host/edge-01/receipt", "host/edge-01/in",
	"fleet/coordinator", "fleet/ring", "fleet/revoked",
}

// TestTopicsPage captures a message of each topic from the real broker by mosquitto_sub.
// The page shows one of each, of the same type and members; -update writes them anew.
func TestTopicsPage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.addHost(t, "edge-01", false)
	rec := w.record(t, w.viewer(t, "recorder"), w.everything())
	w.must(t, "alert", "rule", "set", "example", "tasks=1/15s", "-A")
	write(t, w.path("input"), "some input\n")
	w.must(t, "push", w.path("input"), "edge-01:"+w.path("pushed"))
	w.must(t, "run", "edge-01", "--", "echo", "hello")
	w.addHost(t, "edge-02", false)
	w.must(t, "host", "revoke", "edge-02", "--yes", "--reason", "its disk was sold")
	page := read(t, topicsPage)
	for _, topic := range shownTopics {
		shape := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta("hostler/v1/"+w.fleet+"/"+topic) + `(?:/[0-9a-f-]{36})? (.*)$`)
		until(t, &rec.out.change, "a message on "+topic, func() bool { return shape.MatchString(rec.out.String()) })
		env, err := protocol.Split([]byte(shape.FindStringSubmatch(rec.out.String())[1]))
		if err != nil {
			t.Fatalf("%s: %v", topic, err)
		}
		open, end := "<!-- example "+topic+" -->\n", "<!-- /example "+topic+" -->"
		head, rest, ok := strings.Cut(page, open)
		old, tail, closed := strings.Cut(rest, end)
		if !ok || !closed {
			t.Fatalf("%s has no place for an example of %s", topicsPage, topic)
		}
		if *update {
			page = head + open + "```json\n" + legible(t, env.Body) + "\n```\n" + end + tail
			continue
		}
		var is, shown struct {
			Type string `json:"hostler"`
		}
		text := strings.TrimSuffix(strings.TrimPrefix(old, "```json\n"), "```\n")
		if json.Unmarshal(env.Body, &is) != nil || json.Unmarshal([]byte(text), &shown) != nil || is.Type != shown.Type {
			t.Errorf("%s shows %q on %s, and it is %q", topicsPage, shown.Type, topic, is.Type)
		}
	}
	if *update {
		if err := os.WriteFile(topicsPage, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

var long = regexp.MustCompile(`"([^"]{60})[^"]{20,}"`)

// ofThisMachine is what an example does not tell of the machine that it was made on.
var ofThisMachine = []struct {
	is *regexp.Regexp
	to string
}{
	{regexp.MustCompile(`"hostname": "[^"]*"`), `"hostname": "edge-01"`},
	{regexp.MustCompile(`"kernel": "[^"]*"`), `"kernel": "6.1.0-44-amd64"`},
	{regexp.MustCompile(`"boot": "[^"]*"`), `"boot": "5f0a1c9e-6c1b-4f0e-9a55-3c2f0f7d1b6a-1"`},
	{regexp.MustCompile(`(?s)"interfaces": \[.*?\n    \]`), `"interfaces": [
      {
        "name": "eth0",
        "mac": "52:54:00:12:34:56",
        "up": true,
        "addresses": [
          "192.0.2.7/24"
        ]
      }
    ]`},
}

// legible is JSON for people: a member to a line, and long texts cut.
func legible(t testing.TB, body []byte) string {
	t.Helper()
	var b bytes.Buffer
	if err := json.Indent(&b, body, "", "  "); err != nil {
		t.Fatal(err)
	}
	text := long.ReplaceAllString(b.String(), `"$1…"`)
	for _, x := range ofThisMachine {
		text = x.is.ReplaceAllString(text, x.to)
	}
	return text
}
