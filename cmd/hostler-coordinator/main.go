// Hostler-coordinator tracks which hosts of a fleet are approved, what was
// asked of them and what became of it. It serves the HTTP API and, in the same
// process, the MQTT broker through which hosts and coordinator exchange signed
// messages.
//
// Its first start takes three steps, because the keys of owners never come
// here: the owner makes a fleet (hostler fleet init), init makes this
// coordinator's own key and prints a request, and the owner answers with a ring
// (hostler fleet ring add-coordinator) that init --ring takes.
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
)

// Exit codes, shared by all programs.
const (
	exitFailed = 1
	exitUsage  = 2
)

// errUsage marks errors of the command line.
var errUsage = errors.New("usage")

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	root := rootCommand()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errUsage):
		fmt.Fprintf(stderr, "hostler-coordinator: %v\nSee: hostler-coordinator --help\n", err)
		return exitUsage
	}
	fmt.Fprintf(stderr, "hostler-coordinator: %v\n", err)
	return exitFailed
}

// loader returns the configuration when a command needs it: others work where
// it is broken.
type loader func() (config, settings.Origin, error)

func rootCommand() *cobra.Command {
	var configPath string
	root := &cobra.Command{
		Use:               "hostler-coordinator",
		Short:             "Track hosts, approvals and actions; serve the API and the broker",
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		Args:              noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return fmt.Errorf("%w: a command is missing", errUsage)
		},
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return fmt.Errorf("%w: %w", errUsage, err) })
	root.PersistentFlags().StringVar(&configPath, "config", "", "configuration file (default "+defaultConfigPath+")")
	configured := func() (config, settings.Origin, error) { return load(configPath, os.Environ()) }
	root.AddCommand(initCommand(configured), runCommand(configured), backupCommand(configured), restoreCommand(configured), recoverCommand(configured), configCommand(configured), &cobra.Command{
		Use: "version", Short: "Print the version", Args: noArgs,
		Run: func(cmd *cobra.Command, _ []string) {
			fmt.Fprintln(cmd.OutOrStdout(), "hostler-coordinator", buildinfo.String())
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

// oneArg is cobra's, with our exit code.
func oneArg(cmd *cobra.Command, args []string) error { return usage(cobra.ExactArgs(1)(cmd, args)) }

func usage(err error) error {
	if err != nil {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	return nil
}

func initCommand(configured loader) *cobra.Command {
	var fleet, ring string
	cmd := &cobra.Command{
		Use:   "init --fleet CODE | --ring FILE",
		Short: "Make this coordinator's key and database, or let it into the fleet",
		Long: "With --fleet CODE (printed by hostler fleet init): make the key, the TLS authority and the\n" +
			"database, and print a request for hostler fleet ring add-coordinator and the first API token,\n" +
			"which is not shown again.\n" +
			"With --ring FILE (written by hostler fleet ring add-coordinator): take the ring that lets this\n" +
			"coordinator in, or a newer one. A coordinator that runs takes it on SIGHUP, or at once by\n" +
			"hostler fleet ring publish.",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, _, err := configured()
			if err != nil {
				return err
			}
			if err := state(c.StateDir).usable(); err != nil {
				return err
			}
			switch {
			case (fleet == "") == (ring == ""):
				return fmt.Errorf("%w: init needs either --fleet or --ring", errUsage)
			case fleet != "":
				return initialize(cmd.Context(), state(c.StateDir), fleet, cmd.OutOrStdout())
			}
			chain, err := takeRings(state(c.StateDir), ring)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "ring: %d of fleet %s\n", chain.Ring().Number, chain.Ring().Name)
			return nil
		},
	}
	cmd.Flags().StringVar(&fleet, "fleet", "", "fleet code")
	cmd.Flags().StringVar(&ring, "ring", "", "file with the rings of the fleet")
	return cmd
}

func runCommand(configured loader) *cobra.Command {
	var level slog.LevelVar
	cmd := &cobra.Command{
		Use: "run", Short: "Serve until a signal ends it; SIGHUP takes new rings and policies, and restarts the broker", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, _, err := configured()
			if err != nil {
				return err
			}
			log := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: &level}))
			return serve(cmd.Context(), c, configured, log, cmd.OutOrStdout())
		},
	}
	cmd.Flags().TextVar(&level, "log-level", &level, "debug, info, warn or error")
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
	check := &cobra.Command{Use: "check", Short: "Read the configuration and say what is wrong with it", Args: noArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		_, _, err := configured()
		return err
	}}
	cmd.AddCommand(show, check)
	return cmd
}
