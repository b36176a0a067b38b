package policy

import (
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// TestPage: the page about policies has a row for each member of a rule.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("../doc/policy.md")
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	for line := range strings.Lines(string(page)) {
		if cells := strings.Split(line, " | "); len(cells) > 1 {
			rows = append(rows, strings.Split(strings.Trim(cells[0], "| "), ", ")...)
		}
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[rule]()) {
		if name := f.Tag.Get("toml"); name != "" && !slices.Contains(rows, "`"+name+"`") {
			t.Errorf("doc/policy.md has no row for %s", name)
		}
	}
}
