package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/internal/cli/term"
)

// typed is a command of the operator's program in a text.
var typed = regexp.MustCompile(`\bhostler((?: [a-z][a-z-]*)+)`)

// prose goes on after the name of a fleet's key, or of the group of the socket.
var prose = regexp.MustCompile(`^hostler (coordinator of|person|if)\b`)

// TestHintsNameCommands: whatever any program tells people to type is a command that
// there is.
func TestHintsNameCommands(t *testing.T) {
	tree := root(newDispatcher(&term.UI{Getenv: func(string) string { return "" }}))
	tree.InitDefaultCompletionCmd()
	found := 0
	for _, dir := range []string{"agent", "api", "client", "cmd", "coordinator", "internal/cli", "internal/webapi", "policy"} {
		err := filepath.WalkDir("../../"+dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				lit, ok := n.(*ast.BasicLit)
				if !ok || lit.Kind != token.STRING {
					return true
				}
				text, err := strconv.Unquote(lit.Value)
				if err != nil {
					t.Fatal(err)
				}
				for _, m := range typed.FindAllStringSubmatch(text, -1) {
					if prose.MatchString(m[0]) {
						continue
					}
					found++
					if why := untyped(tree, strings.Fields(m[1])); why != "" {
						t.Errorf("%s: %q: %s", path, m[0], why)
					}
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if found < 100 {
		t.Errorf("%d commands found: the pattern fits too little", found)
	}
}

// untyped says why words that may go on as prose are no command.
func untyped(tree *cobra.Command, words []string) string {
	cmd, rest, err := tree.Find(words)
	switch {
	case err != nil:
		return err.Error()
	case cmd == tree:
		return "there is no such command"
	case cmd.HasSubCommands() && len(rest) > 0:
		return cmd.CommandPath() + " has no command " + rest[0]
	}
	return ""
}

// TestUpgradeWaitIsBounded: a wait that is too long is told by its flag, before anything is
// asked for.
func TestUpgradeWaitIsBounded(t *testing.T) {
	for _, wait := range []string{"2h", "51m"} {
		tree := root(newDispatcher(&term.UI{Getenv: func(string) string { return "" }, Out: io.Discard, Err: io.Discard}))
		tree.SetArgs([]string{"ct", "upgrade", "edge-01/web", "--wait", wait})
		if err := tree.Execute(); err == nil || !strings.Contains(err.Error(), "--wait: it can be up to 50m") {
			t.Errorf("--wait %s: %v", wait, err)
		}
	}
}
