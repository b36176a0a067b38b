package rules

import (
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// TestNamedTests holds ARCHITECTURE.md to the tests that it names as proof: a
// test that was renamed or removed must not go on being quoted.
func TestNamedTests(t *testing.T) {
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`\bTest[A-Z]\w+`).FindAllString(string(text), -1)
	if len(named) < 20 {
		t.Fatalf("only %d tests are named: the crash table is gone", len(named))
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
	for _, name := range named {
		if !declared[name] {
			t.Errorf("ARCHITECTURE.md names %s, which does not exist", name)
		}
	}
}
