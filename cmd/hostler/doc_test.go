package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/internal/cli/term"
)

const referencePath = "../../doc/cli.md"

// TestReference holds doc/cli.md to the commands as they are. With -update it
// writes the file.
func TestReference(t *testing.T) {
	var b bytes.Buffer
	b.WriteString("# hostler, the operator's program\n\n")
	b.WriteString("Every command, as `--help` shows it. Written by `go test ./cmd/hostler -run TestReference -update`.\n")
	cmd := root(newDispatcher(&term.UI{Getenv: func(string) string { return "" }}))
	b.WriteString("\n## Contents\n\n")
	listCommands(&b, cmd, "")
	b.WriteString("- [Codes of refused requests](#codes-of-refused-requests)\n")
	describe(t, &b, cmd)
	b.WriteString("\n## Codes of refused requests\n\n")
	b.WriteString("The API answers a request that it refuses with a problem (RFC 9457) whose `code` is one of these; `hostler` ends with the exit code beside it.\n\n")
	b.WriteString("| code | status | exit code | meaning |\n|---|---|---|---|\n")
	for _, c := range api.Codes() {
		fmt.Fprintf(&b, "| `%s` | %d | %d | %s |\n", c.Name, c.Status, term.ExitOf(c.Name), c.Meaning)
	}
	if *update {
		if err := os.WriteFile(referencePath, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	old, err := os.ReadFile(referencePath)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(old, b.Bytes()) {
		t.Errorf("%s is not what the commands say: run go test ./cmd/hostler -run TestReference -update", referencePath)
	}
}

// update is read by TestReference alone.
var update = flag.Bool("update", false, "write doc/cli.md anew")

// describe writes one command and those below it, and refuses one without help.
func describe(t *testing.T, b *bytes.Buffer, cmd *cobra.Command) {
	fmt.Fprintf(b, "\n## %s\n\n", cmd.CommandPath())
	long := cmd.Long
	if long == "" {
		long = cmd.Short + "."
	}
	fmt.Fprintf(b, "%s\n\n```\n%s\n```\n", long, cmd.UseLine())
	if cmd.Example != "" {
		fmt.Fprintf(b, "\n```sh\n%s\n```\n", unindent(cmd.Example))
	}
	if flags := strings.TrimRight(cmd.LocalFlags().FlagUsagesWrapped(term.HelpWidth), "\n"); flags != "" {
		fmt.Fprintf(b, "\n```\n%s\n```\n", flags)
	}
	if !cmd.HasSubCommands() && cmd.Example == "" {
		t.Errorf("%s has no example", cmd.CommandPath())
	}
	for _, c := range documented(cmd) {
		describe(t, b, c)
	}
}

// documented are the commands below one that the page has.
func documented(cmd *cobra.Command) (all []*cobra.Command) {
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() && c.Name() != "help" && c.Name() != "completion" {
			all = append(all, c)
		}
	}
	return all
}

// listCommands writes the contents: each command with what it does, and a link to it.
func listCommands(b *bytes.Buffer, cmd *cobra.Command, indent string) {
	path := cmd.CommandPath()
	fmt.Fprintf(b, "%s- [%s](#%s): %s\n", indent, path, strings.ReplaceAll(path, " ", "-"), cmd.Short)
	for _, c := range documented(cmd) {
		listCommands(b, c, indent+"  ")
	}
}

func unindent(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = strings.TrimPrefix(lines[i], "  ")
	}
	return strings.Join(lines, "\n")
}

// TestHelpFits holds the help of every command to the width of a window.
func TestHelpFits(t *testing.T) {
	cmd := root(newDispatcher(&term.UI{Getenv: func(string) string { return "" }}))
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		var b bytes.Buffer
		cmd.SetOut(&b)
		if err := cmd.Help(); err != nil {
			t.Fatal(err)
		}
		for line := range strings.SplitSeq(b.String(), "\n") {
			if n := utf8.RuneCountInString(line); n > term.HelpWidth {
				t.Errorf("%s --help has a line of %d columns: %s", cmd.CommandPath(), n, line)
			}
		}
		for _, c := range cmd.Commands() {
			walk(c)
		}
	}
	walk(cmd)
}

// TestListsAndShowsAreAlike: each list and each removal has all of its usual names. Each list
// can be filtered, cut and watched; each show can be watched, and each of both takes every
// form of output. What asks for a plan of placement can be watched, too: it changes with the
// fleet.
func TestListsAndShowsAreAlike(t *testing.T) {
	list, one := []string{"output", "no-headers", "watch", "limit"}, []string{"output", "no-headers", "watch"}
	wants := map[string][]string{"ls": list, "pending": list, "mutes": list, "history": list, "exits": list, "stats": list, "top": list, "doctor": list, "show": one, "status": one, "why": one, "explain": one}
	plans := []string{"hostler placement plan", "hostler sim what-if lose", "hostler sim what-if add"}
	paged := []string{"hostler action ls", "hostler audit ls"} // whose options the other end filters by
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, name := range wants[cmd.Name()] {
			if cmd.Flags().Lookup(name) == nil {
				t.Errorf("%s has no --%s", cmd.CommandPath(), name)
			}
		}
		if slices.Contains(plans, cmd.CommandPath()) && (cmd.Flags().Lookup("output") == nil || cmd.Flags().Lookup("watch") == nil) {
			t.Errorf("%s has no --output or no --watch", cmd.CommandPath())
		}
		if cmd.Name() == "ls" && !cmd.HasAlias("list") {
			t.Errorf("%s cannot be asked for as list", cmd.CommandPath())
		}
		if cmd.Name() == "rm" && (!cmd.HasAlias("remove") || !cmd.HasAlias("delete")) {
			t.Errorf("%s cannot be asked for as remove and delete", cmd.CommandPath())
		}
		if cmd.Name() == "ls" && cmd.Flags().Lookup("filter") == nil && !slices.Contains(paged, cmd.CommandPath()) {
			t.Errorf("%s has no --filter", cmd.CommandPath())
		}
		for _, c := range cmd.Commands() {
			walk(c)
		}
	}
	walk(root(newDispatcher(&term.UI{Getenv: func(string) string { return "" }})))
}

// TestCountOfArguments: each command refuses too few and too many arguments as wrong
// usage, with exit code 2 and the command that shows its help.
func TestCountOfArguments(t *testing.T) {
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, c := range cmd.Commands() {
			walk(c)
		}
		// What has commands below it names them; what has no rule looks at its arguments itself.
		if !cmd.Runnable() || cmd.HasSubCommands() || cmd.Hidden || cmd.Args == nil {
			return
		}
		refused := 0
		for _, args := range [][]string{nil, strings.Split(strings.Repeat("x", 100), "")} {
			err := cmd.Args(cmd, args)
			if err == nil {
				continue
			}
			refused++
			if f, ok := errors.AsType[*term.Failure](err); !ok || f.Code != term.ExitUsage || f.Next == "" {
				t.Errorf("%s with %d arguments: %v, want a usage error that names the help", cmd.CommandPath(), len(args), err)
			}
		}
		if refused == 0 && !strings.Contains(cmd.Use, "…") && !strings.Contains(cmd.Use, "--") {
			t.Errorf("%s takes any number of arguments, and its usage is %q", cmd.CommandPath(), cmd.Use)
		}
	}
	walk(root(newDispatcher(&term.UI{Getenv: func(string) string { return "" }})))
}
