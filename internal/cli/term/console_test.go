package term

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/hostler-io/hostler/terminal"
)

// narrow is a Console of a few columns.
type narrow struct{ Console }

func (narrow) Size() (terminal.Size, error) { return terminal.Size{Rows: 24, Cols: 20}, nil }

func TestNarrowTerminal(t *testing.T) {
	a := &UI{}
	long := strings.Repeat("ä", 100)
	if got := a.Fit(long); utf8.RuneCountInString(got) != screenWidth {
		t.Errorf("%d columns of a terminal whose size nobody knows", utf8.RuneCountInString(got))
	}
	a.Console = narrow{}
	if got := a.Fit(long); got != strings.Repeat("ä", 18)+"…" {
		t.Errorf("%q", got)
	}
	if got := a.Fit("short"); got != "short" {
		t.Errorf("%q", got)
	}
}
