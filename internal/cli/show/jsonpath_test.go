package show

import (
	"bytes"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/internal/cli/term"
)

// pathThing has a member of each form.
type pathThing struct {
	Name  string         `json:"name"`
	Count int            `json:"count"`
	Big   int64          `json:"big"`
	Exit  *pathExit      `json:"exit,omitempty"`
	All   []pathExit     `json:"all"`
	Free  map[string]any `json:"free,omitempty"`
}

type pathExit struct {
	Code int    `json:"code"`
	Word string `json:"word"`
}

func TestJSONPath(t *testing.T) {
	thing := pathThing{Name: "edge-01", Count: 3, Big: 1<<53 - 1, Exit: &pathExit{7, "a\x1b[2J"}, All: []pathExit{{0, "no"}, {1, "yes"}, {2, "yes"}}}
	n := Noun[pathThing]{Name: func(p pathThing) string { return p.Name }}
	for path, want := range map[string]string{
		"$.name":                                "edge-01\n",
		"{.name}":                               "edge-01\n",
		".exit.code":                            "7\n",
		"$.big":                                 "9007199254740991\n",
		"$.exit":                                `{"code":7,"word":"a\u001b[2J"}` + "\n",
		"$.exit.word":                           "a\uFFFD[2J\n",
		"$.all[*].code":                         "0\n1\n2\n",
		"$.all[-1].code":                        "2\n",
		"$.all[0:2].word":                       "no\nyes\n",
		"$.all[?(@.word == 'yes')].code":        "1\n2\n",
		"$.all[?@.code > 0].code":               "1\n2\n",
		"{.all[?(@.code == 1)].word}":           "yes\n",
		"$['name']":                             "edge-01\n",
		"$.nothing":                             "",
		"$.all[9].code":                         "",
		"$.all[?(@.word == 'yes')].code.deeper": "",
	} {
		v := &View{Format: Format{Word: "table"}}
		if err := v.Format.Set("jsonpath=" + path); err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		var out bytes.Buffer
		if err := (&Table[pathThing]{UI: new(term.UI), Noun: n, View: v}).Print(&out, []pathThing{thing}); err != nil || out.String() != want {
			t.Errorf("%s: %v\n%q, want\n%q", path, err, out.String(), want)
		}
	}
	for _, path := range []string{"", "name", "$.", "$[", "{.name", "$.all[?(@.x", "$" + strings.Repeat(".a", maxPath)} {
		if err := new(Format).Set("jsonpath=" + path); err == nil {
			t.Errorf("%.20q was taken", path)
		}
	}
}

// TestPathThatFitsNothing: a path is written for things that mostly lack a member, too, so it
// is no error; the user is told.
func TestPathThatFitsNothing(t *testing.T) {
	n := Noun[pathThing]{Name: func(p pathThing) string { return p.Name }}
	told := "The path $.nme selects nothing; -o json shows what there is.\n"
	for path, want := range map[string][2]string{"$.nme": {"", told}, "$.exit.code": {"7\n", ""}} {
		for _, none := range []bool{false, true} {
			var out, talk bytes.Buffer
			v := new(View)
			if err := v.Format.Set("jsonpath=" + path); err != nil {
				t.Fatal(err)
			}
			things := []pathThing{{Name: "a"}, {Name: "b", Exit: &pathExit{Code: 7}}}
			if none {
				things, want = nil, [2]string{}
			}
			if err := Print(&term.UI{Out: &out, Err: &talk}, v, n, things); err != nil || out.String() != want[0] || talk.String() != want[1] {
				t.Errorf("%s: %v\n%q and %q, want %q", path, err, out.String(), talk.String(), want)
			}
		}
	}
}

// FuzzJSONPath: whatever is typed is refused or selects something, and always the same.
func FuzzJSONPath(f *testing.F) {
	for _, seed := range []string{"$.name", "{.exit.code}", "$..code", "$.all[?(@.code > 0)].word", "$[*]", "$.all[::-1]", "$.all[?(@.word =~ /y.*/)]", "$.all[(@.length-1)]", "$['a','b']", "{"} {
		f.Add(seed)
	}
	thing := pathThing{Name: "x", All: []pathExit{{1, "y"}}}
	f.Fuzz(func(t *testing.T, path string) {
		p, err := parseJSONPath(path)
		if err != nil {
			return
		}
		var one, two bytes.Buffer
		if _, err := p.print(&one, thing); err != nil {
			t.Fatal(err)
		}
		if _, err := p.print(&two, thing); err != nil || one.Len() != two.Len() {
			t.Errorf("%q selects %q, then %q: %v", path, one.String(), two.String(), err)
		}
	})
}
