package term

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/internal/cmdline"
)

// HelpWidth is how wide help may be: it is read in windows of 80 columns, beside
// what is typed after it.
const HelpWidth = 80

// fitHelp breaks the paragraphs of a command's help, and of those below it, that are
// wider than they may be; those that are indented stay as they are.
func fitHelp(cmd *cobra.Command) {
	paragraphs := strings.Split(cmd.Long, "\n\n")
	for i, p := range paragraphs {
		lines := strings.Split(p, "\n")
		if strings.HasPrefix(p, " ") {
			continue
		}
		if slices.ContainsFunc(lines, func(l string) bool { return utf8.RuneCountInString(l) > HelpWidth }) {
			paragraphs[i] = fill(p, HelpWidth)
		}
	}
	cmd.Long = strings.Join(paragraphs, "\n\n")
	for _, c := range cmd.Commands() {
		fitHelp(c)
	}
}

// fill breaks a text into lines of at most width characters, between words.
func fill(text string, width int) string {
	var b strings.Builder
	at := 0
	for word := range strings.FieldsSeq(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case at == 0:
		case at+1+n > width:
			b.WriteByte('\n')
			at = 0
		default:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(word)
		at += n
	}
	return b.String()
}

// Group returns a command that only has others below it.
func Group(use, short string, below ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Args: cobra.ArbitraryArgs, RunE: onlyBelow,
	}
	cmd.AddCommand(below...)
	return cmd
}

// onlyBelow runs a command that only has others below it.
func onlyBelow(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	text, next := cmdline.NoCommand(cmd, args[0])
	return Usage(cmp.Or(next, cmd.CommandPath()+" --help"), "%s", text)
}

// help prints the help of a command, if there is one.
func help(cmd *cobra.Command, args []string) error {
	found, rest, err := cmd.Root().Find(args)
	if err != nil {
		return Usage("hostler --help", "%s", err)
	}
	if len(rest) > 0 {
		return onlyBelow(found, rest)
	}
	found.InitDefaultHelpFlag() // it says how it is asked for
	return found.Help()
}

// FlagError says what is wrong with an option.
func FlagError(cmd *cobra.Command, err error) error {
	return Usage(cmd.CommandPath()+" --help", "%s: %s", cmd.CommandPath(), cmdline.Flag(cmd, err))
}

// noneEmpty refuses arguments that hold nothing: such come from variables that
// were never set.
func noneEmpty(cmd *cobra.Command, args []string) error {
	if slices.Contains(args, "") {
		return Usage(cmd.CommandPath()+" --help", "an argument of %s is empty; usage: %s", cmd.CommandPath(), cmd.UseLine())
	}
	return nil
}

// NoArgs refuses arguments.
func NoArgs(cmd *cobra.Command, args []string) error { return between(0, 0)(cmd, args) }

// AtLeast asks for n arguments or more.
func AtLeast(n int) cobra.PositionalArgs { return between(n, -1) }

// Exactly asks for as many arguments as the use line names.
func Exactly(n int) cobra.PositionalArgs { return between(n, n) }

// AtMost allows up to n arguments.
func AtMost(n int) cobra.PositionalArgs { return between(0, n) }

func between(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if text := cmdline.Count(cmd, args, least, most); text != "" {
			return Usage(cmd.CommandPath()+" --help", "%s", text)
		}
		return noneEmpty(cmd, args)
	}
}

// Prepare gives the root of a tree of commands the manners that all of it has: how
// errors are told, how wide help is, and what completion and help refuse.
func (a *UI) Prepare(root *cobra.Command) {
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		// An unknown command has unknown options too: the command is named first.
		if _, rest, _ := root.Find(a.Args); cmd.HasSubCommands() && len(rest) > 0 && !strings.HasPrefix(rest[0], "-") {
			return onlyBelow(cmd, rest)
		}
		return FlagError(cmd, err)
	})
	root.CompletionOptions.HiddenDefaultCmd = false
	root.SetUsageTemplate(strings.NewReplacer(
		".FlagUsages ", fmt.Sprintf(".FlagUsagesWrapped %d ", HelpWidth),
		" for more information about a command.", " for more about a command.",
	).Replace(root.UsageTemplate()))
	root.InitDefaultCompletionCmd() // cobra's own prints its help, and 0, whatever shell is named
	root.InitDefaultHelpCmd()       // cobra's own prints the help of something else, and 0
	for _, cmd := range root.Commands() {
		switch cmd.Name() {
		case "completion":
			cmd.Args, cmd.RunE = cobra.ArbitraryArgs, onlyBelow
			for _, shell := range cmd.Commands() {
				shell.Args = NoArgs
			}
		case "help":
			cmd.Run, cmd.RunE = nil, help
		}
	}
	fitHelp(root)
	alias(root)
}

// aliases are the other usual names of commands.
var aliases = map[string][]string{"ls": {"list"}, "rm": {"remove", "delete"}, "ct": {"container"}}

// alias lets the commands of a tree be asked for by all of their usual names.
func alias(cmd *cobra.Command) {
	cmd.Aliases = append(cmd.Aliases, aliases[cmd.Name()]...)
	for _, c := range cmd.Commands() {
		alias(c)
	}
}
