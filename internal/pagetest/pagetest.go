// Package pagetest holds the command lines that pages show to the commands that there are,
// for the tests of each program.
package pagetest

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Check looks at every command line of a program in README.md and the pages of doc, seen from
// the directory of a test two below the root of the tree. Each names a command, and options
// of it. The command also takes the values and the number of arguments of each line in a block;
// least is how many such lines there are at least. root makes the commands anew.
func Check(t *testing.T, program string, root func() *cobra.Command, least int) {
	t.Helper()
	pages, err := filepath.Glob("../../doc/*.md")
	if err != nil {
		t.Fatal(err)
	}
	tree, typed := root(), 0
	for _, page := range append(pages, "../../README.md") {
		b, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range linesOf(program, string(b)) {
			err := wellTyped(tree, l.text)
			if err == nil && l.block && !strings.HasSuffix(l.text, " [flags]") && !strings.Contains(l.text, "…") {
				typed++
				err = Taken(root(), l.text)
			}
			if err != nil {
				t.Errorf("%s: %s: %v", filepath.Base(page), l.text, err)
			}
		}
	}
	if typed < least {
		t.Errorf("only %d command lines of %s were parsed, want %d at the least", typed, program, least)
	}
}

// line is a command line of a page.
type line struct {
	text  string
	block bool // it stands in a block, where it is typed, and not in a sentence
}

var (
	prompt = regexp.MustCompile(`^(\$|[a-z0-9-]+#) `)
	inCode = regexp.MustCompile("`([^`]+)`")
)

func linesOf(program, page string) (all []line) {
	block := false
	for text := range strings.SplitSeq(strings.ReplaceAll(page, "\\\n", " "), "\n") {
		switch {
		case strings.HasPrefix(text, "```"):
			block = !block
		case block:
			if text = prompt.ReplaceAllString(text, ""); strings.HasPrefix(text, program+" ") {
				all = append(all, line{text, true})
			}
		default:
			for _, m := range inCode.FindAllStringSubmatch(text, -1) {
				if strings.HasPrefix(m[1], program+" ") {
					all = append(all, line{m[1], false})
				}
			}
		}
	}
	return all
}

// Taken returns why a command of a fresh tree does not take a line as it stands in a block: the
// values of its options, or how many arguments it has.
func Taken(root *cobra.Command, line string) error {
	words, err := shellWords(line)
	if err != nil {
		return err
	}
	cmd, rest, err := root.Find(words[1:])
	if err != nil {
		return err
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return err
	}
	if cmd.HasSubCommands() && !cmd.Runnable() || cmd.Args == nil {
		return nil
	}
	return cmd.Args(cmd, cmd.Flags().Args())
}

// shellWords are the words of the first command of a line, as a shell takes them.
func shellWords(line string) (words []string, err error) {
	line = regexp.MustCompile(`\$\([^)]*\)`).ReplaceAllString(line, "ID")
	word, inside, quote := "", false, rune(0)
	end := func() {
		if inside {
			words = append(words, word)
		}
		word, inside = "", false
	}
	for i, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word += string(r)
		case r == '\'' || r == '"':
			quote, inside = r, true
		case strings.ContainsRune("|;&<>", r), r == '#' && line[i-1] == ' ':
			end()
			return words, nil
		case r == ' ':
			end()
		default:
			word, inside = word+string(r), true
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("a %c has no end", quote)
	}
	end()
	return words, nil
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
			return fmt.Errorf("%s has no option %s", cmd.CommandPath(), name)
		}
	}
	return nil
}
