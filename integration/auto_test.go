//go:build integration

package integration

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/api"
)

// TestAutoApprove lets a real host in by a rule, and shows that it was one.
func TestAutoApprove(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(t, "host", "auto-approve", "set", "lab", "-l", "site=lab", "--from", "127.0.0.0/8", "--count", "1", "--ttl", "1h")
	h := w.newHost(t, "edge-01", false)
	p := h.spawn(t, "join", "join", w.invite(t, "--label", "site=lab"))
	p.finish(t).exits(t, 0)
	h.start(t)
	if got := w.must(t, "host", "show", "edge-01", "-o", "json"); !strings.Contains(got, "rule:lab") || !strings.Contains(got, "site=lab") {
		t.Errorf("host show says %q", got)
	}
	if got := w.must(t, "host", "events", "edge-01"); !strings.Contains(got, "rule:lab") {
		t.Errorf("host events says nothing of the rule: %s", got)
	}
	if got := w.must(t, "audit", "ls", "--verb", "host.approve", "-o", "json"); !strings.Contains(got, `"rule:lab"`) {
		t.Errorf("the audit log says nothing of the rule: %s", got)
	}
	var rules []api.AutoRule
	if err := json.Unmarshal([]byte(w.must(t, "host", "auto-approve", "ls", "-o", "json")), &rules); err != nil || len(rules) != 1 || rules[0].Approved != 1 || rules[0].State != "used up" {
		t.Errorf("the rules are %+v, %v", rules, err)
	}
	// It has approved as many as it may: the next one waits for a person.
	next := w.newHost(t, "edge-02", false)
	waits, words := next.join(t, w.invite(t, "--label", "site=lab"))
	w.must(t, "host", "approve", "edge-02", "--words", words)
	waits.finish(t).exits(t, 0)
	w.must(t, "host", "auto-approve", "rm", "lab")
}
