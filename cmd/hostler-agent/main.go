// Hostler-agent looks after one host: it runs commands and containers as its
// people and its coordinator ask, keeps them as they should be while nobody can
// be reached, and reports.
//
// A host becomes a member of a fleet by hostler-agent join with a code that an
// operator got from hostler host invite. Without a fleet it works for its own
// people alone, who speak to it through its socket.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/internal/buildinfo"
	"github.com/hostler-io/hostler/internal/settings"
	"github.com/hostler-io/hostler/protocol"
)

// Exit codes, shared by all programs.
const (
	exitFailed  = 1
	exitUsage   = 2
	exitRefused = 4
)

// errUsage marks errors of the command line.
var errUsage = errors.New("usage")

func main() {
	os.Exit(program(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

func program(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	root := rootCommand()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errUsage):
		fmt.Fprintf(stderr, "hostler-agent: %v\nSee: hostler-agent --help\n", err)
		return exitUsage
	case errors.Is(err, errChanged):
		return protocol.ExitChanged // whoever pulls begins anew, and says so
	}
	fmt.Fprintf(stderr, "hostler-agent: %v\n", err)
	switch {
	case errors.Is(err, errRefused):
		return exitRefused
	case errors.Is(err, errAbsent):
		return protocol.ExitAbsent
	}
	return exitFailed
}

// loader returns the configuration when a command needs it: others work where
// it is broken.
type loader func() (config, settings.Origin, error)

func rootCommand() *cobra.Command {
	var (
		configPath string
		level      slog.LevelVar
	)
	root := &cobra.Command{
		Use:               "hostler-agent",
		Short:             "Look after this host: its commands and its containers",
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		Args:              noArgs,
		RunE: func(*cobra.Command, []string) error {
			return fmt.Errorf("%w: a command is missing", errUsage)
		},
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return fmt.Errorf("%w: %w", errUsage, err) })
	root.PersistentFlags().StringVar(&configPath, "config", "", "configuration file (default "+defaultConfigPath+")")
	root.PersistentFlags().TextVar(&level, "log-level", &level, "debug, info, warn or error")
	configured := func() (config, settings.Origin, error) { return load(configPath, os.Environ()) }
	logger := func(cmd *cobra.Command) *slog.Logger {
		return slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: &level}))
	}
	root.AddCommand(filesCommand(), joinCommand(configured, logger), leaveCommand(configured), configCommand(configured), policyCommand(configured), &cobra.Command{
		Use: "run", Short: "Serve until a signal ends it; commands and containers go on", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, from, err := configured()
			if err != nil {
				return err
			}
			return run(cmd.Context(), c, from, logger(cmd))
		},
	}, &cobra.Command{
		Use: "version", Short: "Print the version", Args: noArgs,
		Run: func(cmd *cobra.Command, _ []string) {
			fmt.Fprintln(cmd.OutOrStdout(), "hostler-agent", buildinfo.String())
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

// help is cobra's, but of what is not there: of that it prints the help of something
// else, and all is well.
func help(cmd *cobra.Command, args []string) error {
	found, rest, err := cmd.Root().Find(args)
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("%s has no command %q", found.CommandPath(), rest[0])
	}
	if err != nil {
		return usage(err)
	}
	found.InitDefaultHelpFlag() // it says how it is asked for
	return found.Help()
}

// noArgs is cobra's, with our exit code.
func noArgs(cmd *cobra.Command, args []string) error { return usage(cobra.NoArgs(cmd, args)) }

func usage(err error) error {
	if err != nil {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	return nil
}

func joinCommand(configured loader, logger func(*cobra.Command) *slog.Logger) *cobra.Command {
	var (
		host   string
		labels []string
	)
	cmd := &cobra.Command{
		Use:   "join [CODE]",
		Short: "Bring this host into a fleet",
		Long: "Make the host's key, make an offer to the coordinator that the code names, show four words, and\n" +
			"wait until an operator has compared them and approved the host. It may be interrupted: without\n" +
			"CODE it goes on where it was.\n\nA member that joins its own fleet again keeps its key, its name and all that it remembers: that is for\n" +
			"a new coordinator in place of one that was lost without a backup. Stop the agent first.",
		Args: func(cmd *cobra.Command, args []string) error { return usage(cobra.MaximumNArgs(1)(cmd, args)) },
		RunE: func(cmd *cobra.Command, args []string) error {
			c, _, err := configured()
			if err != nil {
				return err
			}
			code := ""
			if len(args) > 0 {
				code = args[0]
			} else if host != "" || len(labels) > 0 {
				return fmt.Errorf("%w: --host and --label go with a code", errUsage)
			}
			return joinFleet(cmd.Context(), c, code, host, labels, logger(cmd), cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&host, "host", "", "id of this host (default: as configured, or the short host name)")
	cmd.Flags().StringArrayVar(&labels, "label", nil, "NAME=VALUE that the operator may follow (repeat for more)")
	return cmd
}

func leaveCommand(configured loader) *cobra.Command {
	var sure bool
	cmd := &cobra.Command{
		Use: "leave", Short: "Leave the fleet: delete the host's key; containers are left alone", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, _, err := configured()
			if err != nil {
				return err
			}
			return leaveFleet(cmd.Context(), c, sure, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	cmd.Flags().BoolVar(&sure, "yes", false, "do not ask")
	return cmd
}

func configCommand(configured loader) *cobra.Command {
	cmd := &cobra.Command{Use: "config", Short: "Look at the configuration", Args: noArgs, RunE: func(*cobra.Command, []string) error {
		return fmt.Errorf("%w: config needs check or show", errUsage)
	}}
	var withOrigin bool
	show := &cobra.Command{Use: "show", Short: "Print every setting in force", Args: noArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		c, from, err := configured()
		if err != nil {
			return err
		}
		if !withOrigin {
			from = nil
		}
		return settings.Show(cmd.OutOrStdout(), c.settings(), from)
	}}
	show.Flags().BoolVar(&withOrigin, "origin", false, "say where each setting comes from")
	check := &cobra.Command{Use: "check", Short: "Read the configuration and say what is wrong with it", Args: noArgs, RunE: func(*cobra.Command, []string) error {
		_, _, err := configured()
		return err
	}}
	cmd.AddCommand(show, check)
	return cmd
}
