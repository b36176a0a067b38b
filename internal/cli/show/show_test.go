package show

import (
	"bytes"
	"testing"
	"time"

	"github.com/hostler-io/hostler/internal/cli/term"
)

func TestTableKeepsColumns(t *testing.T) {
	a := &term.UI{Getenv: func(string) string { return "" }, Now: time.Now}
	n := Noun[string]{Name: func(s string) string { return s }, Columns: []Column[string]{
		{"name", inTable, func(s string) any { return s }, whole}, {"n", inTable, func(s string) any { return len(s) }, whole}, {"wide", inWide, func(string) any { return "w" }, whole},
	}}
	var out bytes.Buffer
	tab := &Table[string]{UI: a, Noun: n, View: &View{Format: Format{Word: "table"}}}
	if err := tab.Print(&out, []string{"é", "longer"}); err != nil {
		t.Fatal(err)
	}
	if err := tab.Print(&out, []string{"x"}); err != nil {
		t.Fatal(err)
	}
	if want := "NAME     N\né        2\nlonger   6\nx        1\n"; out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
	out.Reset()
	tab = &Table[string]{UI: a, Noun: n, View: &View{Format: Format{Word: "yaml"}}}
	if err := tab.Print(&out, []string{"yes", "12", "a: b"}); err != nil || out.String() != "- \"yes\"\n- \"12\"\n- \"a: b\"\n" {
		t.Errorf("yaml: %v\n%s", err, out.String())
	}
}

// TestNamesSteerNoTerminal: names come from elsewhere, too, and stay one to a line.
func TestNamesSteerNoTerminal(t *testing.T) {
	n := Noun[string]{Name: func(s string) string { return s }}
	var out bytes.Buffer
	tab := &Table[string]{UI: new(term.UI), Noun: n, View: &View{Format: Format{Word: "name"}}}
	if err := tab.Print(&out, []string{"web", "a\x1b[2J\nb"}); err != nil || out.String() != "web\na\uFFFD[2J b\n" {
		t.Errorf("%v\n%q", err, out.String())
	}
}
