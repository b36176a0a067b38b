package rules

import (
	"fmt"
	"go/ast"
	"go/build/constraint"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A step is one call of go test by the Makefile.
type step struct {
	tags, packages []string
	run, skip      *regexp.Regexp // nil: none
}

// A test is what a step may run.
type testFunc struct {
	pkg, name string
	when      constraint.Expr // nil: always
}

// TestEveryTestRuns holds the Makefile to the tests: `make test` runs each of them, but
// for those behind the tag heavy, which `make nightly` runs; and what a step names exists.
func TestEveryTestRuns(t *testing.T) {
	tests := allTestFuncs(t)
	daily, nightly := stepsOf(t, "test"), stepsOf(t, "nightly")
	if len(daily) < 8 || len(nightly) < 3 {
		t.Fatalf("make test has %d steps and make nightly %d: they are not understood", len(daily), len(nightly))
	}
	for _, f := range tests {
		steps, target := daily, "test"
		if f.when != nil && !f.when.Eval(func(tag string) bool { return tag != "heavy" }) {
			steps, target = nightly, "nightly"
		}
		if !slices.ContainsFunc(steps, func(s step) bool { return s.runs(f) }) {
			t.Errorf("%s of %s runs in no step of make %s", f.name, f.pkg, target)
		}
	}
	for _, s := range slices.Concat(daily, nightly) {
		for _, name := range s.idle(tests) {
			t.Errorf("a step with the tags %q runs %s in %q, which has no such test", s.tags, name, s.packages)
		}
	}
}

// allTestFuncs are the tests and fuzz targets of the tree.
func allTestFuncs(t *testing.T) []testFunc {
	var tests []testFunc
	for _, p := range mustLoad(t).packages {
		for _, f := range p.files {
			if !f.test {
				continue
			}
			when := buildConstraint(f.syntax)
			for _, decl := range f.syntax.Decls {
				if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name != "TestMain" && regexp.MustCompile(`^(Test|Fuzz)[A-Z]`).MatchString(fn.Name.Name) {
					tests = append(tests, testFunc{p.path, fn.Name.Name, when})
				}
			}
		}
	}
	return tests
}

func buildConstraint(f *ast.File) constraint.Expr {
	for _, group := range f.Comments {
		for _, c := range group.List {
			if expr, err := constraint.Parse(c.Text); err == nil && c.Pos() < f.Package {
				return expr
			}
		}
	}
	return nil
}

// stepsOf asks make what it would do.
func stepsOf(t *testing.T, target string) []step {
	t.Helper()
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("make", "-n", "--no-print-directory", target)
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("make -n %s: %v", target, err)
	}
	var steps []step
	for line := range strings.Lines(string(out)) {
		assigned, rest, ok := strings.Cut(line, "go test ")
		if !ok || strings.Trim(regexp.MustCompile(`\w+=\S*`).ReplaceAllString(assigned, ""), " ") != "" {
			continue // part of something larger
		}
		// The shell knows best what the words are.
		echo := exec.Command("bash", "-c", `printf '%s\n' `+rest)
		echo.Dir = root
		words, err := echo.Output()
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		s, err := parseStep(strings.Split(strings.TrimSpace(string(words)), "\n"))
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		steps = append(steps, s)
	}
	return steps
}

// parseStep reads the arguments of go test.
func parseStep(words []string) (s step, err error) {
	for i := 0; i < len(words) && err == nil; i++ {
		flag, value, given := strings.Cut(words[i], "=")
		if slices.Contains([]string{"-tags", "-run", "-skip", "-timeout", "-parallel", "-p", "-seed", "-seeds", "-chaos", "-faults"}, flag) && !given {
			if i++; i == len(words) {
				return s, fmt.Errorf("%s has no value", flag)
			}
			value = words[i]
		}
		switch {
		case flag == "-tags":
			s.tags = strings.Split(value, ",")
		case flag == "-run":
			s.run, err = regexp.Compile(value)
		case flag == "-skip":
			s.skip, err = regexp.Compile(value)
		case strings.HasPrefix(flag, "./"):
			s.packages = append(s.packages, strings.TrimPrefix(words[i], "./"))
		case !strings.HasPrefix(flag, "-"):
			err = fmt.Errorf("%q is not understood", words[i])
		}
	}
	return s, err
}

// sees reports whether the step looks into the file of the test.
func (s step) sees(f testFunc) bool {
	in := slices.ContainsFunc(s.packages, func(p string) bool { return p == "..." || match(p, f.pkg) })
	return in && (f.when == nil || f.when.Eval(func(tag string) bool { return slices.Contains(s.tags, tag) || tag == "cgo" || tag == "linux" }))
}

func (s step) runs(f testFunc) bool {
	return s.sees(f) && (s.run == nil || s.run.MatchString(f.name)) && (s.skip == nil || !s.skip.MatchString(f.name))
}

// idle are the names of the step's pattern that no test has.
func (s step) idle(tests []testFunc) []string {
	var names []string
	if s.run == nil {
		return nil
	}
	for name := range strings.SplitSeq(strings.Trim(s.run.String(), "^()$"), "|") {
		pattern := regexp.MustCompile(name)
		if !slices.ContainsFunc(tests, func(f testFunc) bool { return s.sees(f) && pattern.MatchString(f.name) }) {
			names = append(names, name)
		}
	}
	return names
}

func TestStepsCatch(t *testing.T) {
	s, err := parseStep(strings.Fields("-tags a,b -race -count=1 -timeout 9m -run ^(TestA|TestB|TestX)$ -skip ^TestB$ ./x/... ./y"))
	if err != nil {
		t.Fatal(err)
	}
	when := func(text string) constraint.Expr {
		expr, err := constraint.Parse("//go:build " + text)
		if err != nil {
			t.Fatal(err)
		}
		return expr
	}
	tests := []testFunc{
		{"x", "TestA", nil},
		{path.Join("x", "z"), "TestA", when("a && linux")},
		{"x", "TestB", nil}, // skipped
		{"y", "TestA", when("c")},
		{"y", "TestC", nil},
		{"z", "TestA", nil},
	}
	for i, f := range tests {
		if got, want := s.runs(f), i < 2; got != want {
			t.Errorf("%v runs: %t, want %t", f, got, want)
		}
	}
	if got := s.idle(tests); !slices.Equal(got, []string{"TestX"}) {
		t.Errorf("idle are %q", got)
	}
}
