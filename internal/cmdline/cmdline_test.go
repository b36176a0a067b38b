package cmdline_test

import (
	"io"
	"testing"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/internal/cmdline"
)

// TestWords: each sort of mistake, in the words that people read.
func TestWords(t *testing.T) {
	run := func(args ...string) string {
		root := &cobra.Command{Use: "prog", SilenceErrors: true, SilenceUsage: true}
		text := ""
		below := &cobra.Command{Use: "show NAME", Args: func(cmd *cobra.Command, args []string) error {
			text = cmdline.Count(cmd, args, 1, 2)
			return nil
		}, Run: func(*cobra.Command, []string) {}}
		below.Flags().Int("limit", 0, "")
		below.Flags().Uint("after", 0, "")
		below.Flags().Bool("all", false, "")
		below.Flags().Duration("since", 0, "")
		group := &cobra.Command{Use: "disk", Args: cobra.ArbitraryArgs, Run: func(cmd *cobra.Command, args []string) {
			var near string
			text, near = cmdline.NoCommand(cmd, args[0])
			text += "; " + near
		}}
		group.AddCommand(&cobra.Command{Use: "rm", SuggestFor: []string{"destroy"}, Run: func(*cobra.Command, []string) {}})
		root.AddCommand(below, group)
		root.Args, root.Run = cobra.ArbitraryArgs, func(cmd *cobra.Command, args []string) {
			var near string
			text, near = cmdline.NoCommand(cmd, args[0])
			text += "; " + near
		}
		root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
			text = cmdline.Flag(cmd, err)
			return err
		})
		root.SetArgs(args)
		root.SetOut(io.Discard)
		_ = root.Execute()
		return text
	}
	for _, c := range []struct {
		want string
		args []string
	}{
		{`prog has no command "shwo"; prog show`, []string{"shwo"}},
		{`prog has no command "nope"; `, []string{"nope"}},
		{`prog disk has no command "show"; prog show`, []string{"disk", "show"}},
		{`prog disk has no command "destroy"; prog disk rm`, []string{"disk", "destroy"}},
		{`prog show takes at least 1 argument, got none; usage: prog show NAME [flags]`, []string{"show"}},
		{`prog show takes at most 2 arguments, got 3: ["a" "b" "c"]; usage: prog show NAME [flags]`, []string{"show", "a", "b", "c"}},
		{"", []string{"show", "a", "b"}},
		{`--limit: "x" is not a whole number`, []string{"show", "--limit", "x"}},
		{`--limit: "99999999999999999999" is out of range`, []string{"show", "--limit", "99999999999999999999"}},
		{`--after: "-1" is not a whole number of 0 or more`, []string{"show", "--after", "-1"}},
		{`--all: "maybe" is not true or false`, []string{"show", "--all=maybe"}},
		{`--since: "5" is not a duration: want a number with a unit, as in 90s, 5m or 8h`, []string{"show", "--since", "5"}},
		{`--since needs a value`, []string{"show", "--since"}},
		{`unknown flag: --limt, did you mean --limit?`, []string{"show", "--limt", "1"}},
		{`unknown flag: --colour`, []string{"show", "--colour"}},
	} {
		if got := run(c.args...); got != c.want {
			t.Errorf("%q is told as %q, want %q", c.args, got, c.want)
		}
	}
}
