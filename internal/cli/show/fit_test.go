package show

import (
	"bytes"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/hostler-io/hostler/internal/cli/term"
)

type fault struct {
	Object string `json:"object"`
	State  string `json:"state"`
	Text   string `json:"text"`
	Labels string `json:"labels"`
	Cause  string `json:"cause"`
	Mend   string `json:"mend"`
}

var faults = []fault{
	{"host edge-with-a-long-name-01", "failed", "the disk is filling up faster than anything removes from it", "site=laboratory,rack=7,tier=database", "", ""},
	{"host é", "ok", "", "", "of the file system below /var/lib there are no more than two percent left", "hostler image prune edge-01 --older-than 30d --yes    # frees what no container was made of"},
}

// printed prints a table on a terminal of some columns; 0 is a pipe.
func printed(t *testing.T, columns string, cols int, word string) string {
	t.Helper()
	a := &term.UI{Getenv: func(string) string { return "1" }, Now: time.Now, OutTTY: cols > 0, Width: func() int { return cols }}
	var out bytes.Buffer
	if err := (&Table[fault]{UI: a, Noun: NounOf[fault]("object", columns, nil), View: &View{Format: Format{Word: word}}}).Print(&out, faults); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestTablesFitTheTerminal: texts are cut there, ids and states never, and what is read
// by a program or was asked for as wide is whole.
func TestTablesFitTheTerminal(t *testing.T) {
	const columns = "object state text~ labels~"
	whole := printed(t, columns, 0, "table")
	for _, cols := range []int{60, 80, 120} {
		got := printed(t, columns, cols, "table")
		for line := range strings.Lines(got) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > cols {
				t.Errorf("%d columns: a line of %d: %q", cols, n, line)
			}
		}
		if !strings.Contains(got, "host edge-with-a-long-name-01   failed") || !strings.Contains(got, "…") {
			t.Errorf("%d columns:\n%s", cols, got)
		}
		if wide := printed(t, columns, cols, "wide"); wide != whole {
			t.Errorf("%d columns: -o wide is cut:\n%s", cols, wide)
		}
	}
	if got := printed(t, columns, 200, "table"); got != whole {
		t.Errorf("it fits, and is cut:\n%s", got)
	}
	if got := printed(t, columns, 20, "table"); !strings.Contains(got, "host edge-with-a-long-name-01   failed   the dis…") {
		t.Errorf("what cannot fit:\n%s", got)
	}
}

// TestLongTextsStandBelow where they do not fit: in lines of words, and a command in one
// that can be copied.
func TestLongTextsStandBelow(t *testing.T) {
	const columns = "object state cause~~ mend$"
	for cols, want := range map[int]string{
		60: `OBJECT                          STATE
host edge-with-a-long-name-01   failed
host é                          ok
    cause: of the file system below /var/lib there are no
           more than two percent left
    mend: hostler image prune edge-01 --older-than 30d --yes    # frees what no container was made of
`,
		80: `OBJECT                          STATE
host edge-with-a-long-name-01   failed
host é                          ok
    cause: of the file system below /var/lib there are no more than two percent
           left
    mend: hostler image prune edge-01 --older-than 30d --yes    # frees what no container was made of
`,
		120: `OBJECT                          STATE
host edge-with-a-long-name-01   failed
host é                          ok
    cause: of the file system below /var/lib there are no more than two percent left
    mend: hostler image prune edge-01 --older-than 30d --yes    # frees what no container was made of
`,
	} {
		if got := printed(t, columns, cols, "table"); got != want {
			t.Errorf("%d columns: got\n%swant\n%s", cols, got, want)
		}
	}
	if got := printed(t, columns, 300, "table"); strings.Count(got, "\n") != 3 || !strings.Contains(got, "CAUSE") {
		t.Errorf("it fits, and stands below:\n%s", got)
	}
}
