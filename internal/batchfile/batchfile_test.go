package batchfile_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hostler-io/hostler/internal/batchfile"
)

const good = `# what to do on Sunday
operations:
  - name: look
    run: edge-01
    argv: [sh, -c, "uptime; echo $HOME", 07]
    as: nobody
    cwd: /tmp
    env: [A=1, "B=x y"]
    timeout: 5m
    exclusive: true
    wait: 1h
  - {create: edge-01/web, template: busybox, class: pinned, labels: [app=web], started: true, privileged: true}
  - exec: edge-01/web
    argv: ["true"]
    timeout: none
  - {stop: edge-01/web, grace: 30s}
  - {rm: edge-01/web}
  - {ping: edge-02}
  - {push: edge-01, from: motd, to: /etc/motd, timeout: 2m}
  - pull: edge-01/web
    from: /var/log/
    to: logs/
    timeout: none
`

func TestParse(t *testing.T) {
	got, err := batchfile.Parse([]byte(good))
	if err != nil {
		t.Fatal(err)
	}
	want := []batchfile.Operation{
		{Line: 3, Name: "look", Verb: "run", Where: "edge-01", Argv: []string{"sh", "-c", "uptime; echo $HOME", "07"}, User: "nobody", Cwd: "/tmp",
			Env: []string{"A=1", "B=x y"}, Timeout: 5 * time.Minute, Exclusive: true, Wait: time.Hour},
		{Line: 12, Verb: "create", Where: "edge-01/web", Template: "busybox", Class: "pinned", Labels: []string{"app=web"}, Started: true, Privileged: true},
		{Line: 13, Verb: "exec", Where: "edge-01/web", Argv: []string{"true"}, NoTimeout: true},
		{Line: 16, Verb: "stop", Where: "edge-01/web", Grace: 30 * time.Second},
		{Line: 17, Verb: "rm", Where: "edge-01/web"},
		{Line: 18, Verb: "ping", Where: "edge-02"},
		{Line: 19, Verb: "push", Where: "edge-01", From: "motd", To: "/etc/motd", Timeout: 2 * time.Minute},
		{Line: 20, Verb: "pull", Where: "edge-01/web", From: "/var/log/", To: "logs/", NoTimeout: true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	// JSON, and a bare list.
	if got, err := batchfile.Parse([]byte(`[{"run":"edge-01","argv":["uptime"]}]`)); err != nil || len(got) != 1 || got[0].Argv[0] != "uptime" {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestParseRefuses has one mistake in each file, and the line that it is in.
func TestParseRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":     "it is empty",
		"a: [": "line 1",
		"- {run: e, argv: [a]}\n---\n- {run: e, argv: [a]}": "more than one document",
		"hello":                              "line 1: want a list",
		"[]":                                 "there are no operations",
		"operation: []":                      `line 1: unknown key "operation"`,
		"{}":                                 "operations is missing",
		"operations: []\noperations: []":     "is listed twice",
		"- run: e\n  agrv: [a]":              `line 2: run takes no "agrv"`,
		"- run: e\n  argv: [a]\n  argv: [b]": `line 3: "argv" is listed twice`,
		"- run: e\n  argv: [a]\n  stop: e/w": "line 3: one operation cannot run and stop",
		"- name: x":                          "no operation",
		`- {ping: ""}`:                       "says not where",
		"- run: e":                           "needs argv",
		"- run: e\n  argv: ls -l":            "line 2: want a list of texts",
		"- run: e/w\n  argv: [a]":            "is done on a HOST",
		"- exec: e\n  argv: [a]":             "is done with a container",
		"- create: e/w":                      "needs template",
		"- {push: e, from: a}":               "line 1: push needs from and to",
		"- {pull: e/w, to: a}":               "pull needs from and to",
		"- {push: e, from: a, to: b}":        `to of a push is a path on the host, and "b" is not absolute`,
		"- {pull: e, from: a, to: /b}":       `from of a pull is a path on the host, and "a" is not absolute`,
		"- push: {from: a, to: /b}":          "push says not where",
		"- {pull: e, from: [/a], to: b}":     "want a text",
		"- push: e\n  from: a\n  to: /b\n  mode: 600": `line 4: push takes no "mode": want name, wait, from, to, timeout`,
		"- {run: e, argv: [a], from: b}":              `run takes no "from"`,
		"- {run: e, argv: [a], timeout: 5}":           "is not a duration",
		"- {run: e, argv: [a], timeout: -5s}":         "is not a duration",
		"- {run: e, argv: [a], wait: 9999999d}":       "is not a duration",
		"- {run: e, argv: [a], exclusive: yes}":       "want true or false",
		"- {run: e, argv: [yes, true]}":               "write it in quotes",
		"- {run: e, argv: [null]}":                    "want a text",
		"- {run: , argv: [a]}":                        "want a text",
		"- {name: a, ping: e}\n- {name: a, ping: e}":  `line 2: the name "a" is that of the operation in line 1`,
		"- &a {ping: e}\n- *a":                        "anchors are not taken",
		"- ping: &a e\n- ping: *a":                    "aliases are not taken",
		"- {ping: !!str e}":                           "tags are not taken",
		"- {ping: e, 1: 2}":                           "a key is a word",
		"- [ping]":                                    "an operation is an object",
		"- {<<: {ping: e}}":                           "",
	} {
		got, err := batchfile.Parse([]byte(text))
		if !errors.Is(err, batchfile.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is %+v, %v; want %q", text, got, err, want)
		}
	}
	if _, err := batchfile.Parse(make([]byte, batchfile.MaxBytes+1)); !errors.Is(err, batchfile.ErrInvalid) {
		t.Errorf("a large file: %v", err)
	}
	if _, err := batchfile.Parse([]byte(strings.Repeat("- {ping: e}\n", batchfile.MaxOperations+1))); !errors.Is(err, batchfile.ErrInvalid) {
		t.Errorf("many operations: %v", err)
	}
}

// TestAllMistakesAreTold: nobody mends a file one mistake at a time, and nobody
// reads a thousand.
func TestAllMistakesAreTold(t *testing.T) {
	_, err := batchfile.Parse([]byte("- {run: e}\n- {exec: e/w}\n- {pong: e}\n"))
	for _, want := range []string{"line 1:", "line 2:", "line 3:"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%s is not told: %v", want, err)
		}
	}
	// In the order of the file, each once, though an object is read key by key.
	_, err = batchfile.Parse([]byte("- run: e\n  agrv: [a]\n  argv: [null]\n  argv: [b]\n  1: x\n"))
	want := "line 2: run takes no \"agrv\": want name, wait, argv, as, cwd, env, timeout, exclusive\nline 3: want a text\nline 4: \"argv\" is listed twice\nline 5: a key is a word"
	if !strings.HasSuffix(err.Error(), ": "+want) {
		t.Errorf("it is told as\n%v", err)
	}
	_, err = batchfile.Parse([]byte(strings.Repeat("- {pong: e}\n", 500)))
	if n := strings.Count(err.Error(), "line"); n > 25 || !strings.Contains(err.Error(), "and more is wrong") {
		t.Errorf("%d mistakes are told", n)
	}
}

// FuzzParse: whatever a file holds, it is refused as a whole or each of its
// operations is complete.
func FuzzParse(f *testing.F) {
	f.Add([]byte(good))
	for _, seed := range []string{`[{"run":"e","argv":["a"]}]`, "- &a {ping: e}\n- *a", "- {<<: *b, ping: e}", "a: &x [*x]", "- ping: e\n\t", "%YAML 1.1\n---\n- ping: e", "- ? {a: b}\n  : c"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		all, err := batchfile.Parse(b)
		if err != nil {
			if !errors.Is(err, batchfile.ErrInvalid) || all != nil {
				t.Errorf("%v, %+v", err, all)
			}
			return
		}
		if len(all) == 0 || len(all) > batchfile.MaxOperations {
			t.Errorf("%d operations", len(all))
		}
		for _, o := range all {
			if o.Verb == "" || o.Where == "" || o.Line == 0 || (o.Verb == batchfile.Run) != (len(o.Argv) > 0) && o.Verb != batchfile.Exec {
				t.Errorf("incomplete: %+v", o)
			}
			there := map[batchfile.Verb]string{batchfile.Push: o.To, batchfile.Pull: o.From}
			if path, copies := there[o.Verb]; copies != (o.From != "" || o.To != "") || copies && (o.From == "" || o.To == "" || path[0] != '/') {
				t.Errorf("what is copied is incomplete: %+v", o)
			}
		}
	})
}
