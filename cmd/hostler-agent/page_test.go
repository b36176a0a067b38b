package main

import (
	"bytes"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/internal/pagetest"
)

var update = flag.Bool("update", false, "write this program's part of doc/configuration.md anew")

// TestConfigurationPage holds the page about configuration to the settings, and the
// example of a file to what the program reads. With -update it writes the page.
func TestConfigurationPage(t *testing.T) {
	const path, begin, end = "../../doc/configuration.md", "<!-- hostler-agent -->\n", "<!-- end -->"
	output := func(args ...string) string {
		t.Helper()
		var out, talk bytes.Buffer
		if code := program(t.Context(), args, nil, &out, &talk); code != 0 {
			t.Fatalf("%q: exit %d\n%s", args, code, talk.String())
		}
		return out.String()
	}
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(page), begin)
	was, tail, there := strings.Cut(rest, end)
	if !ok || !there {
		t.Fatalf("%s has no part for this program", path)
	}
	table := output("config", "example", "--table")
	switch {
	case *update:
		if err := os.WriteFile(path, []byte(head+begin+table+end+tail), 0o644); err != nil {
			t.Fatal(err)
		}
	case was != table:
		t.Errorf("%s is not what the settings say: run this test with -update", path)
	}
	file := t.TempDir() + "/example.toml"
	if err := os.WriteFile(file, []byte(output("config", "example")), 0o600); err != nil {
		t.Fatal(err)
	}
	output("--config", file, "config", "check")
	if shown := output("--config", file, "config", "show", "--origin"); strings.Contains(shown, file) || strings.Count(shown, "\n") != strings.Count(table, "\n")-2 {
		t.Errorf("the example sets something, or settings are missing:\n%s", shown)
	}
}

// TestPagesShowCommandsThatThereAre parses what pages show of this program.
func TestPagesShowCommandsThatThereAre(t *testing.T) {
	pagetest.Check(t, "hostler-agent", rootCommand, 8)
}
