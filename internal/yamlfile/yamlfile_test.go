package yamlfile_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/internal/yamlfile"
)

type file struct {
	Name  string            `yaml:"name"`
	Count int               `yaml:"count"`
	Parts []part            `yaml:"parts"`
	Env   map[string]string `yaml:"env"`
}

type part struct {
	On *bool `yaml:"on"`
}

// TestDecode: what is wrong with a file is told at once, by line, with what would be right.
func TestDecode(t *testing.T) {
	var f file
	if err := yamlfile.Decode([]byte("name: 7\ncount: 3\nparts: [{on: true}]\nenv: {A: 0x10}\n"), 100, &f); err != nil || f.Name != "7" || f.Count != 3 || !*f.Parts[0].On || f.Env["A"] != "0x10" {
		t.Errorf("%+v, %v", f, err)
	}
	const wrong = "nmae: x\ncount: many\nparts:\n  - of: 1\n  - on: 2\n  - [on]\nenv:\ncount: 2\nname: &a x\nzzz: 1\n"
	const want = `line 1: unknown member "nmae", did you mean "name"?; known are name, count, parts, env
line 2: count: want a whole number
line 4: unknown member "of", did you mean "on"?; known are on
line 5: on: want true or false
line 6: an entry of parts: want an object, as in {NAME: VALUE}
line 7: env has no value: want an object, as in {NAME: VALUE}
line 8: "count" is listed twice
line 9: anchors are not taken: write it out
line 10: unknown member "zzz"; known are name, count, parts, env`
	if err := yamlfile.Decode([]byte(wrong), 1000, new(file)); err == nil || err.Error() != want {
		t.Errorf("%v", err)
	}
	err := yamlfile.Decode([]byte("parts: ["+strings.Repeat("1, ", 30)+"]"), 1000, new(file))
	if err == nil || strings.Count(err.Error(), "\n") != 20 || !strings.HasSuffix(err.Error(), "and 10 mistakes more") {
		t.Errorf("%v", err)
	}
}

// TestSyntax: what the library says of a file that is no YAML is told in our words.
func TestSyntax(t *testing.T) {
	for text, want := range map[string]string{
		"":                    "it is empty",
		"a: 1\n---\nb: 2":     "it has more than one document",
		"name: a: b":          `line 1: a ":" stands where no member can begin`,
		"name: x\n\tcount: 1": "line 2: a tab stands",
		"env: {A: b":          `line 1: an object lacks a ","`,
		"parts: [":            "line 1: a value is missing",
		"parts: [a":           `line 1: a list lacks a ","`,
		"name: @x":            "line 1: a value begins with a tab or with",
		"name: 'x":            "line 1: a text in quotes does not end",
		`name: "\q"`:          `line 1: a \ in double quotes`,
		"name: *a":            "aliases are not taken",
		"name: &":             "aliases are not taken",
		"parts:\n- a\n b: c":  "line 3",
		"\x00":                "it is not a text in UTF-8",
		"name: \xff":          "it is not a text in UTF-8",
		"name: longer":        "it has 12 bytes, at most 10 are read",
	} {
		limit := 1000
		if strings.Contains(text, "longer") {
			limit = 10
		}
		if err := yamlfile.Decode([]byte(text), limit, new(file)); err == nil || !strings.Contains(err.Error(), want) || jargon.MatchString(err.Error()) {
			t.Errorf("%q is refused with %v, want %s", text, err, want)
		}
	}
}

// jargon are words of Go and of its YAML library.
var jargon = regexp.MustCompile(`yaml:|unmarshal|struct|!!|node content|token|mapping|stream|octet`)

// FuzzDecode: a file is taken, or refused with a line of ours for each mistake.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{"name: 7\ncount: 3\nparts: [{on: true}]\nenv: {A: 0x10}\n", "- a", "{<<: *a}", "? {a: b}\n: c", "a: !!int x", "count: 1e3"} {
		f.Add([]byte(seed))
	}
	line := regexp.MustCompile(`^(line [0-9]+: |it |and [0-9]+ mistakes)`)
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := yamlfile.Decode(b, 1<<16, new(file)); err != nil {
			for s := range strings.SplitSeq(err.Error(), "\n") {
				if !line.MatchString(s) {
					t.Errorf("%q is refused with %q", b, s)
				}
			}
		}
	})
}
