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

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/internal/daemon"
	"github.com/hostler-io/hostler/internal/settings"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return daemon.Run(ctx, rootCommand(), args, os.Stdin, stdout, stderr)
}

// loader reads the configuration.
type loader = daemon.Loader[config]

func rootCommand() *cobra.Command {
	var configPath string
	configured := loader(func() (config, settings.Origin, error) { return load(configPath, os.Environ()) })
	root := daemon.Command("hostler-coordinator", "Track hosts, approvals and actions; serve the API and the broker",
		initCommand(configured), runCommand(configured), backupCommand(configured), restoreCommand(configured), recoverCommand(configured), daemon.Config(defaultConfigPath, os.Environ(), configured, func() (config, error) { return defaults(), nil }))
	root.PersistentFlags().StringVar(&configPath, "config", "", "configuration file (default "+defaultConfigPath+")")
	return root
}

// noArgs and oneArg refuse other arguments.
var noArgs, oneArg = daemon.Args(0, 0), daemon.Args(1, 1)

func initCommand(configured loader) *cobra.Command {
	var fleet, ring string
	cmd := &cobra.Command{
		Use:   "init --fleet CODE | --ring FILE",
		Short: "Make this coordinator's key and database, or let it into the fleet",
		Long: "With --fleet CODE (printed by hostler fleet init): make the key, the TLS authority and the\n" +
			"database, and print a request for hostler fleet ring add-coordinator and the first API token,\n" +
			"which is not shown again. The addresses that hosts will be told are tried, and it says which\n" +
			"do not lead here.\n" +
			"With --ring FILE (written by hostler fleet ring add-coordinator): take the ring that lets this\n" +
			"coordinator in, or a newer one. A coordinator that runs takes it on SIGHUP, or at once by\n" +
			"hostler fleet ring publish.",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, _, err := configured()
			if err != nil {
				return err
			}
			s := state(c.StateDir)
			if err := s.usable(); err != nil {
				return err
			}
			if (fleet == "") == (ring == "") {
				return daemon.Usage(errors.New("init needs either --fleet or --ring"))
			}
			err = s.handingOver(func() error {
				if fleet != "" {
					if err := initialize(cmd.Context(), s, fleet, cmd.OutOrStdout()); err != nil {
						return err
					}
					tryAddresses(cmd.Context(), "http", c.HTTP.Listen, c.HTTP.Addresses, cmd.ErrOrStderr())
					tryAddresses(cmd.Context(), "mqtt", c.MQTT.Listen, c.MQTT.Addresses, cmd.ErrOrStderr())
					return nil
				}
				chain, err := takeRings(s, ring)
				if err == nil {
					fmt.Fprintf(cmd.OutOrStdout(), "ring: %d of fleet %s\n", chain.Ring().Number, chain.Ring().Name)
				}
				return err
			})
			if err == nil && ring != "" {
				s.noticed(cmd.Context())
			}
			return err
		},
	}
	cmd.Flags().StringVar(&fleet, "fleet", "", "fleet code")
	cmd.Flags().StringVar(&ring, "ring", "", "file with the rings of the fleet")
	return cmd
}

func runCommand(configured loader) *cobra.Command {
	var level slog.LevelVar
	cmd := &cobra.Command{
		Use: "run", Short: "Serve until a signal ends it; SIGHUP takes new rings and policies, and ends no connection", Args: noArgs,
		Long: "Serve the API and the broker until a signal ends it. Without a fleet it waits for one, answers\n" +
			"/healthz, and says which command to type; owners' keys never come here. On SIGHUP it takes new\n" +
			"rings and policies, and ends no connection.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, _, err := configured()
			if err != nil {
				return err
			}
			log := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: &level}))
			return state(c.StateDir).handingOver(func() error {
				return serve(cmd.Context(), c, configured, log, cmd.OutOrStdout())
			})
		},
	}
	cmd.Flags().TextVar(&level, "log-level", &level, "debug, info, warn or error")
	return cmd
}
