package warnings_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/alerts"
	"github.com/hostler-io/hostler/internal/warnings"
)

var update = flag.Bool("update", false, "write the table of doc/alerts.md anew")

// TestDeclared: every code and every quantity of a rule has a warning that says all
// that people need, once, in order.
func TestDeclared(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "warnings.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var codes []string
	ast.Inspect(f, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok && len(v.Values) == 1 {
			if id, ok := v.Type.(*ast.Ident); ok && id.Name == "Code" {
				code, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
				if err != nil {
					t.Fatal(err)
				}
				codes = append(codes, code)
			}
		}
		return true
	})
	if len(codes) < 5 {
		t.Fatalf("only %q are found", codes)
	}
	for _, q := range alerts.Quantities() {
		if r, err := alerts.Parse("host " + q + "=1h"); err == nil && r[0].OfCoordinator() {
			codes = append(codes, "coordinator."+q) // no host raises it
			continue
		}
		codes = append(codes, "measured."+q)
	}
	var declared []string
	for _, w := range warnings.All() {
		declared = append(declared, string(w.Code))
		if w.Title == "" || w.Text == "" || len(w.Runbook) == 0 || !slices.Contains([]string{warnings.Critical, warnings.Minor, warnings.ByRule}, w.Severity) {
			t.Errorf("%s is not explained: %+v", w.Code, w)
		}
	}
	slices.Sort(codes)
	if !slices.Equal(codes, declared) {
		t.Errorf("declared are\n%q, want\n%q", declared, codes)
	}
}

func TestOf(t *testing.T) {
	for id, want := range map[string]warnings.Code{
		"container.broken/0190": warnings.ContainerBroken, "host.degraded": warnings.HostDegraded, "measured.ram": "measured.ram",
		"measured.ram.critical/web/": "measured.ram", "measured.psi-io.warning//": "measured.psi-io", "measured.": "", "nothing": "", "": "", "/": "",
	} {
		if w, ok := warnings.Of(id); w.Code != want || ok != (want != "") {
			t.Errorf("%q is of %q", id, w.Code)
		}
	}
	a := warnings.New(warnings.ContainerBroken, "c", "why", 7)
	if a.ID != "container.broken/c" || a.Severity != warnings.Critical || a.Text != "why" || a.SinceMS != 7 {
		t.Errorf("%+v", a)
	}
}

// TestPage holds doc/alerts.md to the table. With -update it writes the page.
func TestPage(t *testing.T) {
	const path, begin, end = "../../doc/alerts.md", "<!-- alerts -->\n", "<!-- end -->"
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(page), begin)
	was, tail, there := strings.Cut(rest, end)
	if !ok || !there {
		t.Fatalf("%s has no place for the table", path)
	}
	var b strings.Builder
	b.WriteString("\n| code | severity | what it is |\n|---|---|---|\n")
	for _, w := range warnings.All() {
		fmt.Fprintf(&b, "| [`%s`](#%s) | %s | %s |\n", w.Code, strings.ReplaceAll(string(w.Code), ".", ""), w.Severity, w.Title)
	}
	for _, w := range warnings.All() {
		fmt.Fprintf(&b, "\n### %s\n\n**%s.** %s\n\n", w.Code, w.Title, w.Text)
		for i, step := range w.Runbook {
			fmt.Fprintf(&b, "%d. %s\n", i+1, step)
		}
	}
	b.WriteString("\n")
	switch {
	case *update:
		if err := os.WriteFile(path, []byte(head+begin+b.String()+end+tail), 0o644); err != nil {
			t.Fatal(err)
		}
	case was != b.String():
		t.Errorf("%s is not what the table says: run this test with -update", path)
	}
}
