package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/internal/warnings"
)

// TestRunbooks: the commands that a runbook tells people to type exist, with their
// options.
func TestRunbooks(t *testing.T) {
	cmd := root(newDispatcher(&term.UI{Getenv: func(string) string { return "" }}))
	typed := regexp.MustCompile("`hostler ([^`]*)`")
	found := 0
	for _, w := range warnings.All() {
		for _, line := range typed.FindAllStringSubmatch(strings.Join(w.Runbook, "\n"), -1) {
			for part := range strings.SplitSeq(line[1], " | hostler ") {
				found++
				args, _, _ := strings.Cut(part, " -- ")
				c, rest, err := cmd.Find(strings.Fields(args))
				if err == nil && !c.Runnable() && c.HasSubCommands() {
					t.Errorf("%s: there is no command hostler %s", w.Code, part)
					continue
				}
				if err == nil {
					err = c.ParseFlags(rest)
				}
				if err == nil && c.Args != nil && !strings.Contains(part, "VALUE") {
					err = c.Args(c, c.Flags().Args())
				}
				if err != nil {
					t.Errorf("%s: hostler %s: %v", w.Code, part, err)
				}
			}
		}
	}
	if found < 20 {
		t.Errorf("only %d commands are found", found)
	}
}
