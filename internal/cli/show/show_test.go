package show

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/terminal"
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

// screen is a terminal of so many columns.
type screen uint16

func (s screen) Raw() (func(), error) { return func() {}, nil }

func (s screen) Size() (terminal.Size, error) { return terminal.Size{Rows: 24, Cols: uint16(s)}, nil }

func (s screen) Resized() (<-chan os.Signal, func()) { return nil, func() {} }

// TestNote: what people should see stands behind a row, and never wraps its line.
func TestNote(t *testing.T) {
	n := Noun[string]{Columns: []Column[string]{{name: "state", at: inTable, cell: func(s string) any { return s }}}, Note: func(s string) string {
		return map[string]string{"degraded": "the disk is full: 0 bytes are free in /var/lib/hostler"}[s]
	}}
	for _, c := range []struct {
		tty  bool
		cols uint16
		want string
	}{
		{false, 0, "the disk is full: 0 bytes are free in /var/lib/hostler"},
		{true, 120, "the disk is full: 0 bytes are free in /var/lib/hostler"},
		{true, 40, "the disk is full: 0 bytes a…"},
		{true, 30, ""},
	} {
		ui := &term.UI{OutTTY: c.tty, Getenv: func(string) string { return "" }, Console: screen(c.cols)}
		var out bytes.Buffer
		tab := &Table[string]{UI: ui, Noun: n, View: &View{Format: Format{Word: "table"}, noHeaders: true}}
		if err := tab.Print(&out, []string{"degraded", "late"}); err != nil {
			t.Fatal(err)
		}
		if got := strings.NewReplacer("\x1b[33m", "", "\x1b[0m", "").Replace(out.String()); got != strings.TrimRight("degraded   "+c.want, " ")+"\nlate\n" {
			t.Errorf("%d columns: %q", c.cols, got)
		}
	}
}

// TestNoLineWithoutAName: a line about a thing that has no name is left out of a list of
// names.
func TestNoLineWithoutAName(t *testing.T) {
	n := Noun[string]{Name: func(s string) string { return s }}
	var out bytes.Buffer
	tab := &Table[string]{UI: new(term.UI), Noun: n, View: &View{Format: Format{Word: "name"}}}
	if err := tab.Print(&out, []string{"b1", "", "b3"}); err != nil || out.String() != "b1\nb3\n" {
		t.Errorf("%v\n%q", err, out.String())
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
