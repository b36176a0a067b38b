package rules

import (
	"go/constant"
	"go/types"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/internal/failpoint"
)

// TestCrashTable holds the crash table, the failpoints and the code to one
// another: each step is a row that says what a kill leaves and names the tests
// that kill there, each row is a step, and shipped code passes each step.
func TestCrashTable(t *testing.T) {
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	var rows []failpoint.Step
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) != 7 || !regexp.MustCompile(`^ [ASCF]\d+ $`).MatchString(cells[1]) {
			continue
		}
		row := failpoint.Step(strings.TrimSpace(cells[1]))
		rows = append(rows, row)
		for i, name := range []string{"what is durable", "killed before it", "killed after it", "test"} {
			if strings.TrimSpace(cells[i+2]) == "" {
				t.Errorf("row %s does not say %q", row, name)
			}
		}
		if !strings.Contains(cells[5], "Test") {
			t.Errorf("row %s names no test", row)
		}
	}
	steps, passed := failpoint.Steps(), stepsPassed(t)
	for _, s := range steps {
		if !slices.Contains(rows, s) {
			t.Errorf("step %s has no row in the crash table", s)
		}
		if !passed[s] {
			t.Errorf("step %s is declared and nobody takes it", s)
		}
	}
	for i, row := range rows {
		if !slices.Contains(steps, row) {
			t.Errorf("row %s of the crash table has no failpoint", row)
		}
		if slices.Contains(rows[:i], row) {
			t.Errorf("the crash table has two rows %s", row)
		}
	}
	if len(passed) != len(steps) {
		t.Errorf("%d steps are taken and %d are listed by failpoint.Steps", len(passed), len(steps))
	}
}

// stepsPassed are the steps that shipped code names.
func stepsPassed(t *testing.T) map[failpoint.Step]bool {
	t.Helper()
	tr := mustLoad(t)
	passed := make(map[failpoint.Step]bool)
	for id, obj := range tr.info.Uses {
		c, ok := obj.(*types.Const)
		if !ok || c.Type().String() != module+"/internal/failpoint.Step" {
			continue
		}
		at := tr.fset.Position(id.Pos()).Filename
		if !strings.HasPrefix(at, "internal/failpoint/") && !strings.HasSuffix(at, "_test.go") {
			passed[failpoint.Step(constant.StringVal(c.Val()))] = true
		}
	}
	return passed
}
