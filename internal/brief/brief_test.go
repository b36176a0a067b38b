package brief_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/hostler-io/hostler/internal/brief"
)

func TestText(t *testing.T) {
	word, words := strings.Repeat("x", 5000), strings.Repeat("many words ", 500)
	for name, c := range map[string]struct {
		text   string
		inputs []string
		want   string // its beginning
	}{
		"short":      {`host "edge": not found`, nil, `host "edge": not found`},
		"own words":  {strings.TrimSpace(words), nil, strings.TrimSpace(words)},
		"a word":     {"no host " + word + " here", nil, "no host xxx"},
		"quoted":     {fmt.Sprintf("no host %q here", words), nil, `no host "many words`},
		"an input":   {"no host " + words + "here", []string{words}, "no host many words"},
		"a value":    {"no label " + words + "here", []string{"--label=" + words}, "no label many words"},
		"odd quote":  {`it ends with " and ` + word, nil, `it ends with " and xxx`},
		"a quote in": {fmt.Sprintf("no host %q here", words+`"`+words), nil, `no host "many words`},
		"no text":    {"no host " + strings.Repeat("\xff", 5000), nil, "no host \xff"},
	} {
		t.Run(name, func(t *testing.T) {
			got := brief.Text(c.text, c.inputs...)
			if !strings.HasPrefix(got, c.want) || name != "own words" && utf8.RuneCountInString(got) > brief.Most+30 {
				t.Errorf("%d characters: %s", utf8.RuneCountInString(got), got)
			}
			if again := brief.Text(got, c.inputs...); again != got {
				t.Errorf("once more: %s", again)
			}
		})
	}
}

func FuzzText(f *testing.F) {
	f.Add(strings.Repeat("x", 300))
	f.Add(`"` + strings.Repeat(`\"`, 300))
	f.Fuzz(func(t *testing.T, s string) {
		if utf8.RuneCountInString(s) <= brief.Most {
			return
		}
		for _, text := range []string{fmt.Sprintf("it is %q, which is wrong", s), "it is " + s + ", which is wrong"} {
			if got := brief.Text(text, s); utf8.RuneCountInString(got) > brief.Most+50 {
				t.Errorf("%q became %q", text, got)
			}
		}
	})
}

func TestNearest(t *testing.T) {
	known := []string{"top", "host", "container", "image", "expose"}
	for word, want := range map[string]string{
		"exppose": "expose", "imaeg": "image", "hots": "host", "cont": "container", "tpo": "top",
		"nope": "", "t": "", "": "", "hosting": "", strings.Repeat("x", brief.Most+1): "",
	} {
		if got := brief.Nearest(word, known); got != want {
			t.Errorf("nearest to %.20q is %q, want %q", word, got, want)
		}
	}
}
