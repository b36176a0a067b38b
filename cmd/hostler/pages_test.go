package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/hostler-io/hostler/internal/cli/term"
)

// inCode are commands in the text of a page.
var inCode = regexp.MustCompile("`(hostler [^`]+)`")

// TestPagesShowCommandsThatThereAre: each command line of a page names a command, and
// options of it. Those of transcripts are run, beside.
func TestPagesShowCommandsThatThereAre(t *testing.T) {
	pages, err := filepath.Glob("../../doc/*.md")
	if err != nil {
		t.Fatal(err)
	}
	tree := root(newDispatcher(&term.UI{Getenv: func(string) string { return "" }}))
	found := 0
	for _, page := range append(pages, "../../README.md") {
		b, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		block := false
		for line := range strings.SplitSeq(strings.ReplaceAll(string(b), "\\\n", " "), "\n") {
			if strings.HasPrefix(line, "```") {
				block = !block
				continue
			}
			var lines []string
			if block {
				line = regexp.MustCompile(`^(\$|[a-z0-9-]+#) `).ReplaceAllString(line, "")
				if strings.HasPrefix(line, "hostler ") {
					lines = append(lines, line)
				}
			} else {
				for _, m := range inCode.FindAllStringSubmatch(line, -1) {
					lines = append(lines, m[1])
				}
			}
			for _, line := range lines {
				found++
				if err := wellTyped(tree, line); err != nil {
					t.Errorf("%s: %s: %v", filepath.Base(page), line, err)
				}
			}
		}
	}
	if found < 300 {
		t.Errorf("only %d command lines were looked at", found)
	}
}

// wellTyped returns what is wrong with the name of a command and with its options. What
// stands in for values is as good as they are.
func wellTyped(root *cobra.Command, line string) error {
	line = regexp.MustCompile(`\$\([^)]*\)`).ReplaceAllString(line, "ID")
	line = regexp.MustCompile(` #.*|[|>;<].*|&&.*| 2$`).ReplaceAllString(line, "")
	line = strings.NewReplacer("[", "", "]", "", "'", "", `"`, "").Replace(line)
	cmd, rest, err := root.Find(strings.Fields(line)[1:])
	if err != nil {
		return err
	}
	cmd.InitDefaultHelpFlag()
	for i, word := range rest {
		if word == "--" {
			break
		}
		name, _, _ := strings.Cut(strings.TrimRight(word, ",.…)"), "=")
		var f *pflag.Flag
		switch long, short := strings.CutPrefix(name, "--"); {
		case short && long != "":
			if f = cmd.Flags().Lookup(long); f == nil {
				f = cmd.InheritedFlags().Lookup(long)
			}
		case strings.HasPrefix(name, "-") && len(name) == 2 && name != "--" && (i == 0 || rest[i-1] != "--since"):
			if f = cmd.Flags().ShorthandLookup(name[1:]); f == nil {
				f = cmd.InheritedFlags().ShorthandLookup(name[1:])
			}
		default:
			continue
		}
		if f == nil {
			return &term.Failure{What: cmd.CommandPath() + " has no option " + name}
		}
	}
	return nil
}
