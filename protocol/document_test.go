package protocol_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler-io/hostler/certs"
	"github.com/hostler-io/hostler/protocol"
)

const documentFile = "../doc/protocol.md"

// TestDocument keeps the tables of doc/protocol.md as the code has them.
func TestDocument(t *testing.T) {
	b, err := os.ReadFile(documentFile)
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	for _, table := range []struct {
		mark string
		rows string
	}{
		{"topics", topicRows()}, {"checks", checkRows()}, {"types", typeRows()}, {"kinds", kindRows()}, {"actions", actionRows()},
		{"example", "```\n" + string(newBuilder(sampleNamed("order")).bytes()) + "\n```\n"},
	} {
		open, end := "<!-- "+table.mark+" -->\n", "<!-- /"+table.mark+" -->"
		head, rest, ok := strings.Cut(text, open)
		_, tail, closed := strings.Cut(rest, end)
		if !ok || !closed {
			t.Fatalf("%s has no place for %s", documentFile, table.mark)
		}
		text = head + open + table.rows + end + tail
	}
	compareFile(t, documentFile, []byte(text))
}

func topicRows() string {
	var b strings.Builder
	b.WriteString("| topic | goes | retained | type | at most |\n|---|---|---|---|---|\n")
	for _, c := range channels {
		way, level := "", "host/<id>/"+string(c)
		switch c.Direction() {
		case protocol.Up:
			way = "up"
		case protocol.Down:
			way = "down"
		case protocol.Fleet:
			way, level = "to all", "fleet/"+string(c)
		}
		if c.PerAction() {
			level += "/<action>"
		}
		retained, typ, size := "", "", ""
		if c.Retained() {
			retained = "yes"
		}
		if typed, ok := protocol.TypeOf(c); ok {
			typ = "`" + string(typed) + "`"
		}
		if n := protocol.MaxSize(c); n > 0 {
			size = fmt.Sprintf("%d KiB", n>>10)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", level, way, retained, typ, size)
	}
	return b.String()
}

func checkRows() string {
	var b strings.Builder
	b.WriteString("| check | code | refused because |\n|---|---|---|\n")
	for _, c := range protocol.Codes() {
		fmt.Fprintf(&b, "| %d | `%s` | %s |\n", checkOf(c), string(c), c.Error())
	}
	return b.String()
}

// typeRows lists the members of each payload, those of an item being in it.
func typeRows() string {
	var b strings.Builder
	b.WriteString("| type | class | members beside the header (`?`: may be left out) |\n|---|---|---|\n")
	done := map[protocol.Type]bool{}
	for _, s := range samples() {
		if done[s.typ] {
			continue
		}
		done[s.typ] = true
		list := "the attachment"
		switch {
		case s.decode != nil && reflect.TypeOf(s.decode()) == reflect.TypeFor[*document]():
			list = "see the package that owns it"
		case s.decode != nil:
			list = memberList(reflect.TypeOf(s.decode()).Elem())
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", s.typ, protocol.ClassOf(s.typ), list)
	}
	return b.String()
}

// memberList names the members of a struct, and theirs in braces.
func memberList(t reflect.Type) string {
	var list []string
	for _, f := range reflect.VisibleFields(t) {
		if f.Anonymous || len(f.Index) > 1 && t.Field(f.Index[0]).Type == reflect.TypeFor[protocol.Header]() {
			continue
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "hostler" || name == "fleet" {
			continue // of a document, which has no other header
		}
		name = "`" + name + "`"
		if strings.HasPrefix(options, "omit") {
			name += "?"
		}
		e := f.Type
		for e.Kind() == reflect.Pointer || e.Kind() == reflect.Slice {
			e = e.Elem()
		}
		if e.Kind() == reflect.Struct {
			name += " {" + memberList(e) + "}"
		}
		list = append(list, name)
	}
	return strings.Join(list, ", ")
}

func kindRows() string {
	var b strings.Builder
	b.WriteString("| kind | attempts | time limit | start within | lane | can be cancelled | gives root |\n|---|---|---|---|---|---|---|\n")
	yes := map[bool]string{true: "yes", false: ""}
	for _, k := range protocol.Kinds() {
		i, _ := protocol.KindOf(k)
		limit := "none"
		if i.RunTimeout > 0 {
			limit = fmt.Sprintf("%.0f s", i.RunTimeout.Seconds())
		}
		within := fmt.Sprintf("%.0f h", i.StartTTL.Hours())
		if i.StartTTL < time.Hour {
			within = fmt.Sprintf("%.0f s", i.StartTTL.Seconds())
		}
		fmt.Fprintf(&b, "| `%s` | %d | %s | %s | %s | %s | %s |\n", k, i.Attempts, limit, within, i.Lane, yes[i.Cancellable], yes[i.RootEquivalent])
	}
	return b.String()
}

func actionRows() string {
	var b strings.Builder
	b.WriteString("| owner | event | from | to | reason |\n|---|---|---|---|---|\n")
	for _, m := range moves() {
		reason := string(m.reason)
		if m.reason == aCode {
			reason = "the code"
		}
		fmt.Fprintf(&b, "| %s | `%s` | %s | %s | %s |\n", m.owner, m.event, m.fromNames(), stateName(m.to), reason)
	}
	return b.String()
}

// TestDocumentedVerification runs the commands of doc/protocol.md, as they
// stand there, on a message and on a changed one, with stock gpg.
func TestDocumentedVerification(t *testing.T) {
	text, err := os.ReadFile(documentFile)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "```sh\n")
	script, _, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatal("there are no commands")
	}
	id, err := certs.Generate("edge-07", time.UnixMilli(1780000000000))
	if err != nil {
		t.Fatal(err)
	}
	body := must(json.Marshal(itemOf(up(protocol.TypeReport, 0), hostStore, protocol.StreamReport, 1, []byte(`{"detail":"a && b < c"}`))))
	raw, err := protocol.Seal(id, body, nil)
	if err != nil {
		t.Fatal(err)
	}
	// The path of a socket is short; that of a test's folder may not be.
	home, err := os.MkdirTemp("/tmp", "g")
	if err != nil {
		t.Fatal(err)
	}
	run := func(name string, args ...string) (string, error) {
		c := exec.Command(name, args...)
		c.Dir, c.Env = home, append(os.Environ(), "GNUPGHOME="+home, "LC_ALL=C")
		out, err := c.CombinedOutput()
		return string(out), err
	}
	t.Cleanup(func() {
		if out, err := run("gpgconf", "--kill", "all"); err != nil {
			t.Errorf("ending gpg's agent: %v: %s", err, out)
		}
		if err := os.RemoveAll(home); err != nil {
			t.Error(err)
		}
	})
	write := func(name string, b []byte) {
		if err := os.WriteFile(filepath.Join(home, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("commands", []byte(script))
	write("public", id.Public())
	if out, err := run("gpg", "--batch", "--quiet", "--ignore-time-conflict", "--import", "public"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	write("message", raw)
	if out, err := run("bash", "commands"); err != nil || !strings.Contains(out, "Good signature") {
		t.Errorf("%v: %s", err, out)
	}
	if got := must(os.ReadFile(filepath.Join(home, "body"))); !slices.Equal(got, body) {
		t.Errorf("body %s, want %s", got, body)
	}
	write("message", []byte(strings.Replace(string(raw), `"n":1`, `"n":2`, 1)))
	if out, err := run("bash", "commands"); err == nil || !strings.Contains(out, "BAD signature") {
		t.Errorf("a changed message: %v: %s", err, out)
	}
}
