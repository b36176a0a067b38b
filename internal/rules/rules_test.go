package rules

import (
	"bytes"
	"fmt"
	"go/ast"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// rule looks at one package at a time.
type rule struct {
	name string
	look func(*check)
}

var rules = []rule{
	{"imports", checkImports},
	{"libraries", checkLibraries},
	{"comment", checkComment},
	{"doc", checkDoc},
	{"init", checkInit},
	{"variables", checkVariables},
	{"programs", checkPrograms},
	{"testing", checkTesting},
	{"skip", checkSkip},
	{"sleep", checkSleep},
	{"shell", checkShell},
	{"clock", checkClock},
	{"interface", checkInterface},
	{"struct", checkStruct},
	{"package", checkPackage},
	{"size", checkSize},
	{"named", checkNamed},
	{"alerts", checkAlerts},
	{"words", checkWords},
	{"written", checkWritten},
}

// check is one rule at work on one package.
type check struct {
	rule  string
	tree  *tree
	pkg   *pkg
	found map[string]string // "file:line" to what is wrong there
}

func (c *check) report(n ast.Node, format string, args ...any) {
	at := c.tree.fset.Position(n.Pos())
	c.found[fmt.Sprintf("%s:%d", at.Filename, at.Line)] = fmt.Sprintf(format, args...)
}

// apply returns what the rule finds in the tree.
func (r rule) apply(t *tree) map[string]string {
	found := make(map[string]string)
	for _, p := range t.packages {
		r.look(&check{rule: r.name, tree: t, pkg: p, found: found})
	}
	return found
}

func TestTree(t *testing.T) {
	tr := mustLoad(t)
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			found := r.apply(tr)
			for _, at := range slices.Sorted(maps.Keys(found)) {
				t.Errorf("%s: %s", at, found[at])
			}
		})
	}
	for _, line := range stale(tr) {
		t.Error(line)
	}
}

// TestRulesCatch holds each rule to the marks in its testdata: it must report
// every line marked "// want", and no other.
func TestRulesCatch(t *testing.T) {
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			dir := filepath.Join("testdata", r.name)
			fsys := os.DirFS(dir)
			switch r.name {
			case "size":
				fsys = inMemory(sizeSamples())
			case "package":
				fsys = inMemory(packageSamples())
			}
			tr, err := loadFS(fsys)
			if err != nil {
				t.Fatal(err)
			}
			tr.pending, tr.records = []exemption{{r.name, "a.Pending", "a sample"}}, []record{{"a.Record", "a sample"}}
			tr.pauses = []string{"a.elapse"}
			want := marks(tr)
			if len(want) == 0 {
				t.Fatalf("%s has no line that breaks the rule", dir)
			}
			found := r.apply(tr)
			for at := range want {
				if found[at] == "" {
					t.Errorf("%s: breaks the rule and was not reported", at)
				}
			}
			for at, what := range found {
				if !want[at] {
					t.Errorf("%s: keeps the rule and was reported: %s", at, what)
				}
			}
		})
	}
}

// TestStale: a line of a table that nothing needs is found.
func TestStale(t *testing.T) {
	tr, err := loadFS(os.DirFS(filepath.Join("testdata", "struct")))
	if err != nil {
		t.Fatal(err)
	}
	tr.pending = []exemption{{"struct", "a.Pending", ""}, {"struct", "a.Full", ""}, {"interface", "a.Pending", ""}}
	tr.records = []record{{"a.Record", ""}, {"a.Over", ""}, {"a.Enough", ""}}
	tr.pauses = []string{"a.pass"}
	for _, r := range rules {
		r.apply(tr)
	}
	if got := stale(tr); len(got) != 4 {
		t.Errorf("found %q, want four", got)
	}
}

// inMemory makes a tree of files whose lines are too many to be kept.
func inMemory(files map[string]string) fs.FS {
	fsys := make(fstest.MapFS)
	for name, text := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return fsys
}

// marks are the lines that carry "// want".
func marks(t *tree) map[string]bool {
	want := make(map[string]bool)
	for _, p := range t.packages {
		for _, f := range p.files {
			for _, group := range f.syntax.Comments {
				for _, comment := range group.List {
					if comment.Text == "// want" {
						at := t.fset.Position(comment.Pos())
						want[fmt.Sprintf("%s:%d", at.Filename, at.Line)] = true
					}
				}
			}
		}
	}
	return want
}

// TestPlanned keeps the tables true to the tree: a line for a package that does
// not exist is a rule that holds nobody.
func TestPlanned(t *testing.T) {
	exists := make(map[string]bool)
	for _, p := range mustLoad(t).packages {
		exists[p.path] = true
	}
	for _, a := range allowed {
		waiting := slices.Contains(planned, a.pkg)
		if !exists[a.pkg] && !waiting {
			t.Errorf("package %s has a line in the table of imports and does not exist", a.pkg)
		}
		if exists[a.pkg] && waiting {
			t.Errorf("package %s exists: strike it from the planned ones", a.pkg)
		}
		if a.why == "" {
			t.Errorf("the line of package %s gives no reason", a.pkg)
		}
	}
	for _, name := range planned {
		if !slices.ContainsFunc(allowed, func(a allowance) bool { return a.pkg == name }) {
			t.Errorf("planned package %s has no line in the table of imports", name)
		}
	}
}

// TestOwnersAreRequired keeps the table of libraries equal to what go.mod
// requires directly.
func TestOwnersAreRequired(t *testing.T) {
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	required := directlyRequired(mod)
	for _, o := range owners {
		if !slices.Contains(required, o.library) {
			t.Errorf("%s has an owner and is not required by go.mod", o.library)
		}
	}
	for _, library := range required {
		if !slices.ContainsFunc(owners, func(o struct {
			library string
			owners  []string
			why     string
		}) bool {
			return o.library == library
		}) {
			t.Errorf("%s is required by go.mod and has no owner", library)
		}
	}
}

// directlyRequired lists the modules of go.mod's require blocks that are not
// marked as indirect.
func directlyRequired(mod []byte) []string {
	var paths []string
	inside := false
	for line := range bytes.Lines(mod) {
		fields := strings.Fields(string(line))
		switch {
		case len(fields) == 2 && fields[0] == "require" && fields[1] == "(":
			inside = true
		case len(fields) == 1 && fields[0] == ")":
			inside = false
		case inside && len(fields) == 2:
			paths = append(paths, fields[0])
		case len(fields) == 3 && fields[0] == "require":
			paths = append(paths, fields[1])
		}
	}
	return paths
}

func TestDirectlyRequired(t *testing.T) {
	mod := "module m\n\ngo 1.26.0\n\nrequire one.example/a v1.0.0\n\nrequire (\n\ttwo.example/b/v2 v2.0.0\n\tthree.example/c v1.0.0 // indirect\n)\n\ntool four.example/d\n"
	if got, want := directlyRequired([]byte(mod)), []string{"one.example/a", "two.example/b/v2"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestLinked looks at everything that a program is made of.
func TestLinked(t *testing.T) {
	exists := make(map[string]bool)
	for _, p := range mustLoad(t).packages {
		exists[p.path] = true
	}
	for _, l := range linked {
		if !exists[l.program] {
			continue // TestPlanned has the say on it
		}
		t.Run(l.program, func(t *testing.T) {
			for _, dep := range linkedBy(t, module+"/"+l.program, l.never) {
				t.Errorf("contains %s: %s", dep, l.why)
			}
		})
	}
}

// TestLinkedCatches runs the check on a program that is known to contain what
// is asked for.
func TestLinkedCatches(t *testing.T) {
	if got, want := linkedBy(t, "net/http", []string{"fmt", "go/ast", "net"}), []string{"fmt", "net"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// linkedBy returns which of the packages are among the dependencies of path.
func linkedBy(t *testing.T, path string, packages []string) []string {
	t.Helper()
	list, err := goList("-json=Deps", path)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, l := range list {
		for _, p := range packages {
			if slices.Contains(l.Deps, p) {
				found = append(found, p)
			}
		}
	}
	return found
}
