package rules

import (
	"fmt"
	"go/ast"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
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

// TestNamedFiles holds the pages to the files of code that they name with a folder.
func TestNamedFiles(t *testing.T) {
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	pages := []string{"ARCHITECTURE.md", "CONTRIBUTING.md", "README.md"}
	more, err := filepath.Glob(filepath.Join(root, "doc", "*.md"))
	if err != nil || len(more) == 0 {
		t.Fatalf("no pages: %v", err)
	}
	for _, path := range more {
		pages = append(pages, filepath.Join("doc", filepath.Base(path)))
	}
	for _, page := range pages {
		text, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range regexp.MustCompile(`\b[a-z][\w-]*(?:/[\w-]+)*/[\w-]+\.go\b`).FindAllString(string(text), -1) {
			if _, err := os.Stat(filepath.Join(root, name)); err != nil {
				t.Errorf("%s names %s, which does not exist", page, name)
			}
		}
	}
}

// TestNamedCommits holds the track record to the commits that it names by their
// subjects. It needs the whole history, as a clone has it.
func TestNamedCommits(t *testing.T) {
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "doc", "track-record.md"))
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("git", "-C", root, "log", "--format=%s").Output()
	if err != nil {
		t.Fatalf("the history is needed: git log: %v", err)
	}
	subjects := make(map[string]bool)
	for line := range strings.Lines(string(out)) {
		subjects[strings.TrimSuffix(line, "\n")] = true
	}
	named, faults := namedCommits(string(page), subjects)
	if named < 100 {
		t.Errorf("the track record names only %d commits: its tables are gone", named)
	}
	for _, f := range faults {
		t.Error(f)
	}
}

// namedCommits reads the last column of the tables whose last column is headed
// "fixed in": subjects, separated by semicolons, or that of the row above.
func namedCommits(page string, subjects map[string]bool) (named int, faults []string) {
	inside, number := false, 0
	for line := range strings.Lines(page) {
		number++
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		last := strings.TrimSpace(cells[len(cells)-1])
		switch {
		case !strings.HasPrefix(line, "|"):
			inside = false
		case last == "fixed in":
			inside = true
		case inside && !strings.HasPrefix(line, "|---"):
			for subject := range strings.SplitSeq(last, "; ") {
				if subject == "the same" {
					continue
				}
				named++
				if !subjects[subject] {
					faults = append(faults, fmt.Sprintf("line %d names the commit %q, which is not in the history", number, subject))
				}
			}
		}
	}
	return named, faults
}

func TestNamedCommitsCatch(t *testing.T) {
	page := "| bug | fixed in |\n|---|---|\n| a | x: y |\n| b \\| c | the same |\n| d | x: y; x: z |\n\n| a | note |\n|---|---|\n| b | x: n |\n"
	if named, faults := namedCommits(page, map[string]bool{"x: y": true}); named != 3 || len(faults) != 1 || !strings.Contains(faults[0], `line 5 names the commit "x: z"`) {
		t.Errorf("%d commits, %q", named, faults)
	}
}

// TestMappedPackages holds the map of the tree in ARCHITECTURE.md to the packages.
func TestMappedPackages(t *testing.T) {
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, p := range mustLoad(t).packages {
		paths = append(paths, p.path)
	}
	for _, path := range unmapped(string(page), paths) {
		t.Errorf("ARCHITECTURE.md does not say what package %s is for: add it to the map or to the table under Packages", path)
	}
}

// unmapped returns the packages that the page does not name: in the drawing by the end
// of a line's branch, or elsewhere in backquotes. `x/…` names everything below x.
func unmapped(page string, paths []string) (missing []string) {
	for _, path := range paths {
		name := regexp.QuoteMeta(path)
		below := regexp.QuoteMeta(filepath.Dir(path))
		if !regexp.MustCompile("`" + name + "`|`" + below + "/…`|[├└] +" + regexp.QuoteMeta(filepath.Base(path)) + `\b|(?m:(^|\s)` + name + `($|\s))`).MatchString(page) {
			missing = append(missing, path)
		}
	}
	return missing
}

func TestUnmapped(t *testing.T) {
	const page = " ├ queue  the memory\n| `protocol/port`, `mqtt` | ports |\n| `internal/cli/…` | commands |\ncmd/hostler\n"
	got := unmapped(page, []string{"agent/queue", "protocol/port", "mqtt", "internal/cli/run", "cmd/hostler", "protocol", "agent/checkup"})
	if want := []string{"protocol", "agent/checkup"}; !slices.Equal(got, want) {
		t.Errorf("%q are not on the page, want %q", got, want)
	}
}
