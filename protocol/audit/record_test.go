package audit_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/audit"
)

func TestRecordIsOneLine(t *testing.T) {
	r := audit.Record{AtMS: 5, Actor: "alice", From: "192.0.2.7", Verb: "host.approve", Host: "edge-07", Object: "x",
		Digest: protocol.Sum([]byte("spec")), Detail: map[string]any{"labels": []string{"a=b"}, "n": 3}}
	stored, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	line := audit.Line(7, stored)
	want := `{"n":7,"at_ms":5,"actor":"alice","from":"192.0.2.7","verb":"host.approve","host":"edge-07","object":"x","digest":"` +
		protocol.Sum([]byte("spec")).String() + `","detail":{"labels":["a=b"],"n":3}}`
	if string(line) != want {
		t.Errorf("line\n%s, want\n%s", line, want)
	}
	got, err := audit.ParseLine(line)
	if err != nil {
		t.Fatal(err)
	}
	r.N, r.Detail = 7, map[string]any{"labels": []any{"a=b"}, "n": 3.0}
	if diff := cmp.Diff(r, got); diff != "" {
		t.Error(diff)
	}
}

// TestEveryRecordCanBeRead writes what anybody might type.
func TestEveryRecordCanBeRead(t *testing.T) {
	text := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }),
		rapid.Just(strings.Repeat("<\x00é", 3000)))
	rapid.Check(t, func(rt *rapid.T) {
		r := audit.Record{Actor: text.Draw(rt, "actor"), Verb: "v", Object: text.Draw(rt, "object"),
			Detail: map[string]any{"reason": text.Draw(rt, "reason"), "labels": rapid.SliceOf(text).Draw(rt, "labels")}}
		stored, err := r.Encode()
		if err != nil {
			rt.Fatal(err)
		}
		n := rapid.Uint64Range(1, protocol.MaxInteger).Draw(rt, "n")
		line := audit.Line(n, stored)
		if got, err := audit.ParseLine(line); err != nil || got.N != n {
			rt.Fatalf("%q: %d, %v", line, got.N, err)
		}
	})
}

func TestParseLineRefuses(t *testing.T) {
	for _, line := range []string{``, `{}`, `{"at_ms":1,"n":2}`, `{"n":0,"verb":"x"}`, `{"n":01,"verb":"x"}`, `{ "n":1,"verb":"x"}`,
		`{"n":1,"verb":"x","n":2}`, `{"n":1,"verb":null}`, `{"n":1,"verb":"` + strings.Repeat("x", audit.MaxRecord) + `"}`, "{\"n\":1,\n\"verb\":\"x\"}"} {
		if r, err := audit.ParseLine([]byte(line)); err == nil {
			t.Errorf("%.60q is read as %+v", line, r)
		}
	}
}

// TestAsked: a command line stands in a record as far as there is room, whatever is in
// it, and never costs the record the rest of its detail.
func TestAsked(t *testing.T) {
	for _, c := range []struct {
		argv []string
		want string
	}{
		{nil, `null`},
		{[]string{"echo", "a b"}, `["echo","a b"]`},
		{append([]string{"echo"}, slices.Repeat([]string{strings.Repeat("\x01", 500)}, 5)...), `["echo","` + strings.Repeat(`\u0001`, 500) + `","… and 4 more"]`},
	} {
		d := map[string]any{"kind": "host.run"}
		audit.Asked(d, c.argv)
		b, err := audit.Record{Verb: "action.request", Detail: d}.Encode()
		if err != nil {
			t.Fatal(err)
		}
		r, err := audit.ParseLine(audit.Line(1, b))
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := json.Marshal(r.Detail["argv"]); r.Detail["kind"] != "host.run" || string(got) != c.want {
			t.Errorf("of %d words it says %s", len(c.argv), got)
		}
	}
}
