package rules

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
)

// TestDecisions keeps the decision records numbered without gaps, in the parts
// that the first of them asks for, and listed in their index.
func TestDecisions(t *testing.T) {
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	faults, err := decisionFaults(os.DirFS(filepath.Join(root, "doc", "adr")))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range faults {
		t.Error(f)
	}
}

func decisionFaults(fsys fs.FS) ([]string, error) {
	index, err := fs.ReadFile(fsys, "README.md")
	if err != nil {
		return nil, err
	}
	names, err := fs.Glob(fsys, "[0-9]*.md")
	if err != nil {
		return nil, err
	}
	var faults []string
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	for i, name := range names {
		text, err := fs.ReadFile(fsys, name)
		if err != nil {
			return nil, err
		}
		if !strings.HasPrefix(name, fmt.Sprintf("%04d-", i+1)) {
			fault("%s: the number %04d is missing or given twice", name, i+1)
		}
		if !strings.HasPrefix(string(text), fmt.Sprintf("# %s: ", name[:4])) {
			fault("%s: the title does not begin with its number", name)
		}
		for _, part := range []string{"\nStatus: ", "\n## Context\n", "\n## Decision\n", "\n## Consequences\n", "\n## What would change our mind\n"} {
			if !strings.Contains(string(text), part) {
				fault("%s: has no %q", name, strings.TrimSpace(part))
			}
		}
		if !strings.Contains(string(index), "("+name+")") {
			fault("%s: is not in the index", name)
		}
	}
	return faults, nil
}

func TestDecisionFaults(t *testing.T) {
	const parts = "\nStatus: accepted\n## Context\n## Decision\n## Consequences\n## What would change our mind\n"
	const lacking = "\nStatus: accepted\n## Context\n## Decision\n## What would change our mind\n"
	for name, tc := range map[string]struct {
		index, file, text string
		want              int
	}{
		"good":       {"[1](0001-a.md)", "0001-a.md", "# 0001: A\n" + parts, 0},
		"gap":        {"[2](0002-a.md)", "0002-a.md", "# 0002: A\n" + parts, 1},
		"title":      {"[1](0001-a.md)", "0001-a.md", "# 0002: A\n" + parts, 1},
		"parts":      {"[1](0001-a.md)", "0001-a.md", "# 0001: A\n" + lacking, 1},
		"not listed": {"", "0001-a.md", "# 0001: A\n" + parts, 1},
	} {
		t.Run(name, func(t *testing.T) {
			faults, err := decisionFaults(fstest.MapFS{"README.md": {Data: []byte(tc.index)}, tc.file: {Data: []byte(tc.text)}})
			if err != nil || len(faults) != tc.want {
				t.Errorf("got %q, %v; want %d faults", faults, err, tc.want)
			}
		})
	}
}
