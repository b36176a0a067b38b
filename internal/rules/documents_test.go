package rules

import (
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// TestNamedTests holds documents to the tests that they name as proof: a test
// that was renamed or removed must not go on being quoted.
func TestNamedTests(t *testing.T) {
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	declared := make(map[string]bool)
	for _, p := range mustLoad(t).packages {
		for _, f := range p.files {
			for _, d := range f.syntax.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok {
					declared[fn.Name.Name] = true
				}
			}
		}
	}
	for _, page := range []string{"ARCHITECTURE.md", "doc/track-record.md", "doc/rules.md"} {
		text, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			t.Fatal(err)
		}
		named := regexp.MustCompile(`\b(Test|Fuzz)[A-Z]\w+`).FindAllString(string(text), -1)
		if len(named) < 20 {
			t.Errorf("%s names only %d tests: its tables are gone", page, len(named))
		}
		for _, name := range named {
			if !declared[name] {
				t.Errorf("%s names %s, which does not exist", page, name)
			}
		}
	}
}
