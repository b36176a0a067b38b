// Package daemon is what the programs that serve have in common on the command
// line: how they are asked for help, tell their version and their configuration,
// and end.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/internal/brief"
	"github.com/hostler-io/hostler/internal/buildinfo"
	"github.com/hostler-io/hostler/internal/cmdline"
	"github.com/hostler-io/hostler/internal/manual"
	"github.com/hostler-io/hostler/internal/settings"
)

// Exit codes that every program has.
const (
	ExitFailed = 1
	ExitUsage  = 2
)

// ErrUsage marks errors of the command line.
var ErrUsage = errors.New("usage")

// Usage marks an error as one of the command line; nil stays nil.
func Usage(err error) error {
	if err != nil {
		return usage{err}
	}
	return nil
}

type usage struct{ error }

func (u usage) Unwrap() []error { return []error{ErrUsage, u.error} }

// Args allows at least least arguments and at most most.
func Args(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if text := cmdline.Count(cmd, args, least, most); text != "" {
			return Usage(errors.New(text))
		}
		return nil
	}
}

// noCommand says that a command has no such command below it.
func noCommand(cmd *cobra.Command, name string) error {
	text, near := cmdline.NoCommand(cmd, name)
	if near != "" {
		text += ", did you mean " + near + "?"
	}
	return Usage(errors.New(text))
}

// Command returns a program with commands below it, to which it adds version and
// help.
func Command(name, short string, below ...*cobra.Command) *cobra.Command {
	root := Group(name, short, "a command is missing", below...)
	root.SilenceErrors, root.SilenceUsage = true, true
	root.Version = buildinfo.String() // for --version
	root.AddCommand(manual.Command(8, buildinfo.Version))
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return Usage(errors.New(cmdline.Flag(cmd, err))) })
	root.AddCommand(&cobra.Command{
		Use: "version", Short: "Print the version", Args: Args(0, 0),
		Run: func(cmd *cobra.Command, _ []string) {
			fmt.Fprintln(cmd.OutOrStdout(), name, buildinfo.String())
		},
	})
	root.InitDefaultHelpCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() == "help" {
			cmd.Run, cmd.RunE = nil, help
		}
	}
	return root
}

// Group returns a command that only has others below it, and what it says without
// one of them.
func Group(use, short, missing string, below ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Args: cobra.ArbitraryArgs, RunE: func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return noCommand(cmd, args[0])
		}
		return Usage(errors.New(missing))
	}}
	cmd.AddCommand(below...)
	return cmd
}

// help is cobra's, but of what is not there: of that it prints the help of something
// else, and all is well.
func help(cmd *cobra.Command, args []string) error {
	found, rest, err := cmd.Root().Find(args)
	if err != nil {
		return Usage(err)
	}
	if len(rest) > 0 {
		return noCommand(found, rest[0])
	}
	found.InitDefaultHelpFlag() // it says how it is asked for
	return found.Help()
}

// Loader returns the configuration that is in force, and where each setting came from.
// A command calls it when it needs it: others work where the configuration is broken.
type Loader[C any] func() (C, settings.Origin, error)

// Config returns the commands that look at a configuration. file is where it is read
// from, environ is the environment, and defaults returns it as it is without any.
func Config[C any](file string, environ []string, load Loader[C], defaults func() (C, error)) *cobra.Command {
	var withOrigin bool
	show := &cobra.Command{Use: "show", Short: "Print every setting in force", Args: Args(0, 0), RunE: func(cmd *cobra.Command, _ []string) error {
		c, from, err := load()
		if err != nil {
			return err
		}
		if !withOrigin {
			from = nil
		}
		return settings.Show(cmd.OutOrStdout(), &c, from)
	}}
	show.Flags().BoolVar(&withOrigin, "origin", false, "say where each setting comes from")
	check := &cobra.Command{Use: "check", Short: "Read the configuration and say what is wrong with it", Args: Args(0, 0), RunE: func(cmd *cobra.Command, _ []string) error {
		c, _, err := load()
		if err != nil {
			return err
		}
		for _, line := range settings.Misspelt(environ, &c) {
			fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s\n", cmd.Root().Name(), line)
		}
		return nil
	}}
	var table bool
	example := &cobra.Command{
		Use: "example", Short: "Print a configuration file with every setting, its meaning and its default",
		Long: "Print a file for " + file + " that has every setting with its meaning and its default, each in a\n" +
			"comment. With --table, print them as a table in Markdown.",
		Args: Args(0, 0), RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := defaults()
			if err != nil {
				return err
			}
			all, err := settings.Describe(&c)
			if err != nil {
				return err
			}
			if table {
				return settings.Reference(cmd.OutOrStdout(), all)
			}
			return settings.Example(cmd.OutOrStdout(), configHead(cmd.Root().Name(), file), all)
		},
	}
	example.Flags().BoolVar(&table, "table", false, "print a table in Markdown")
	return Group("config", "Look at the configuration", "config needs check, example or show", show, check, example)
}

// configHead says how a configuration works.
func configHead(program, file string) string {
	return "The configuration of " + program + ". Every setting has a default: each stands here in a comment, with its meaning. " +
		"After this file, each file of " + strings.TrimSuffix(file, ".toml") + ".d/*.toml is read, in the order of their names; the last one that has a setting sets it. " +
		"A variable overrides all files: HOSTLER_HTTP_LISTEN is listen of the section http.\n" +
		program + " config check says what is wrong, config show --origin where each setting comes from. systemctl reload " + program + " takes what a reload can take."
}

// Exit is an exit code of a program's own.
type Exit struct {
	Err    error // what it stands for
	Code   int
	Silent bool // its caller says it
}

// Run runs a program until it ends, or SIGTERM or SIGINT end it, and returns its exit
// code: 0, 2 for a wrong command line, that of the first of own that the error is,
// else 1.
func Run(ctx context.Context, root *cobra.Command, args []string, stdin io.Reader, stdout, stderr io.Writer, own ...Exit) int {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	switch {
	case err == nil:
		return 0
	case errors.Is(err, ErrUsage):
		fmt.Fprintf(stderr, "%s: %s\nSee: %s --help\n", root.Name(), brief.Text(err.Error(), args...), root.Name())
		return ExitUsage
	}
	end := Exit{Code: ExitFailed}
	for _, e := range own {
		if errors.Is(err, e.Err) {
			end = e
			break
		}
	}
	if !end.Silent {
		fmt.Fprintf(stderr, "%s: %s\n", root.Name(), brief.Text(err.Error(), args...))
	}
	return end.Code
}
