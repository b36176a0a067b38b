package rules

import (
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// indefinite are words that leave open who or what is meant. "nobody" is also a user of
// every Linux system: in quotes, behind --as and in paths it is that user.
var indefinite = regexp.MustCompile(`(?i)\b(whoever|whomever|somebody|anybody|everybody)\b|(?:^|[^"/\x60])\b(nobody)\b`)

// theUser are the places where "nobody" is the user.
var theUser = regexp.MustCompile("(?s)```.*?```|`[^`\n]*`|(--as|-u|user) nobody|\"nobody\"")

// vagueWords are the words of a text that leave open who or what is meant.
func vagueWords(text string) (found []string) {
	text = theUser.ReplaceAllStringFunc(text, func(s string) string { return strings.Repeat(" ", len(s)) })
	for _, m := range indefinite.FindAllStringSubmatch(text, -1) {
		found = append(found, m[1]+m[2])
	}
	return found
}

// TestPlainWords holds the pages that users read, and all texts in shipped code (errors,
// help, log lines), to nouns.
func TestPlainWords(t *testing.T) {
	for text, want := range map[string]int{
		"Whoever has the key is root.":                              1,
		"It waits for nobody, and somebody\nasks.":                  2,
		"hostler run edge-01 --as nobody -- id":                     0,
		"in code it is a user: `nobody`\n```\nls /home/nobody\n```": 0,
		"the user nobody runs it":                                   0,
	} {
		if got := vagueWords(text); len(got) != want {
			t.Errorf("%q has the vague words %q, want %d", text, got, want)
		}
	}
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob(filepath.Join(root, "doc", "*.md"))
	if err != nil || len(pages) == 0 {
		t.Fatalf("no pages: %v", err)
	}
	for _, page := range append(pages, filepath.Join(root, "README.md"), filepath.Join(root, "ARCHITECTURE.md"), filepath.Join(root, "CONTRIBUTING.md")) {
		if slices.Contains([]string{"rules.md", "track-record.md"}, filepath.Base(page)) {
			continue // tables that name tests by their names
		}
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range vagueWords(string(text)) {
			t.Errorf("%s says %q: name the person or the thing", strings.TrimPrefix(page, root+"/"), word)
		}
	}
	tr := mustLoad(t)
	for _, p := range tr.packages {
		for _, f := range p.files {
			if f.test || p.support() || p.path == "internal/rules" {
				continue
			}
			ast.Inspect(f.syntax, func(n ast.Node) bool {
				if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
					for _, word := range vagueWords(l.Value) {
						t.Errorf("%s says %q: name the person or the thing", tr.fset.Position(l.Pos()), word)
					}
				}
				return true
			})
		}
	}
}
