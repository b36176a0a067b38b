// Hostler-agent looks after one host: it runs commands and containers as its
// people and its coordinator ask, keeps them as they should be while no one can
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
	"strings"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/agent/hostcmd"
	"github.com/hostler-io/hostler/internal/daemon"
	"github.com/hostler-io/hostler/internal/settings"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/runner/rundir"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == supervisePodman {
		os.Exit(superviseInPodman(os.Args[2:]))
	}
	if len(os.Args) > 1 && os.Args[1] == epochPodman {
		os.Exit(epochForPodman(os.Args[2:]))
	}
	os.Exit(program(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// exitRefused is the exit code of what an authorised person has refused.
const exitRefused = 4

func program(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return daemon.Run(ctx, rootCommand(), args, stdin, stdout, stderr,
		daemon.Exit{Err: hostcmd.ErrChanged, Code: protocol.ExitChanged, Silent: true}, // the puller begins anew, and says so
		daemon.Exit{Err: errLeft, Code: daemon.ExitFailed, Silent: true},               // it was printed
		daemon.Exit{Err: hostcmd.ErrUnwell, Code: daemon.ExitFailed, Silent: true},     // likewise
		daemon.Exit{Err: errRefused, Code: exitRefused},
		daemon.Exit{Err: hostcmd.ErrAbsent, Code: protocol.ExitAbsent})
}

// loader reads the configuration.
type loader = daemon.Loader[config]

func rootCommand() *cobra.Command {
	var (
		configPath string
		level      slog.LevelVar
	)
	configured := loader(func() (config, settings.Origin, error) { return load(configPath, os.Environ()) })
	logger := func(cmd *cobra.Command) *slog.Logger {
		return slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: &level}))
	}
	root := daemon.Command("hostler-agent", "Look after this host: its commands and its containers",
		joinCommand(&configPath, configured, logger), leaveCommand(configured), daemon.Config(defaultConfigPath, os.Environ(), configured, defaults), policyCommand(configured), fsckCommand(configured, logger), guardCommand(logger), wakeCommand(logger), trialCommand(configured, logger), &cobra.Command{
			Use: "run", Short: "Serve until a signal ends it, and read the configuration again on SIGHUP; commands and containers go on", Args: noArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				if err := rundir.SealFiles(); err != nil {
					return fmt.Errorf("closing inherited files: %w", err)
				}
				return run(cmd.Context(), configured, configFlag(configPath), logger(cmd))
			},
		})
	root.AddCommand(ownCommands(configured).Commands()...)
	root.PersistentFlags().StringVar(&configPath, "config", "", "configuration file (default "+defaultConfigPath+")")
	root.PersistentFlags().TextVar(&level, "log-level", &level, "debug, info, warn or error")
	return root
}

// configFlag is the option that names a configuration file.
func configFlag(path string) []string {
	if path == "" {
		return nil
	}
	return []string{"--config", path}
}

// noArgs refuses arguments.
var noArgs = daemon.Args(0, 0)

// maxCode bounds a join code on standard input, in bytes.
const maxCode = 16 << 10

// codeOf is the join code that an argument is, or that it says to read.
func codeOf(arg string, in io.Reader) (string, error) {
	if arg != "-" {
		return arg, nil
	}
	b, err := io.ReadAll(io.LimitReader(in, maxCode))
	code := strings.TrimSpace(string(b))
	if err == nil && code == "" {
		err = errors.New("there is none; hostler host invite prints one")
	}
	if err != nil {
		return "", fmt.Errorf("read the code from standard input: %w", err)
	}
	return code, nil
}

func joinCommand(configPath *string, configured loader, logger func(*cobra.Command) *slog.Logger) *cobra.Command {
	var (
		host   string
		labels []string
	)
	cmd := &cobra.Command{
		Use:   "join [CODE]",
		Short: "Bring this host into a fleet",
		Long: "Make the host's key, make an offer to the coordinator that the code names, show four words, and\n" +
			"wait until an operator has compared them and approved the host. It may be interrupted: without\n" +
			"CODE it goes on where it was. A CODE of - is read from standard input, so that no list of processes\n" +
			"shows it. Then systemd starts the agent, now and at each boot, if its package has\n" +
			"brought a service.\n\nA member that joins its own fleet again keeps its key, its name and all that it remembers: that is for\n" +
			"a new coordinator in place of one that was lost without a backup. Stop the agent first.",
		Args: daemon.Args(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, _, err := configured()
			if err != nil {
				return err
			}
			code := ""
			if len(args) > 0 {
				if code, err = codeOf(args[0], cmd.InOrStdin()); err != nil {
					return daemon.Usage(err)
				}
			} else if host != "" || len(labels) > 0 {
				return daemon.Usage(errors.New("--host and --label go with a code"))
			}
			if err := joinFleet(cmd.Context(), c, code, host, labels, logger(cmd), cmd.OutOrStdout()); err != nil || !ofService(*configPath, c) {
				return err
			}
			return startService(cmd.Context(), systemdRuns, cmd.OutOrStdout())
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
