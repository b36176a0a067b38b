// Hostler is the program of the operators: it makes the keys of a fleet, lets
// hosts in, runs commands on hosts and in containers, and shows what there is.
// It speaks to a coordinator over HTTPS, or to the agent of this host over its
// unix socket.
//
// Data goes to standard output, everything else to standard error. The exit
// codes are those of [term.ExitFailed] and its neighbours; run and exec pass on the
// code of the command that they ran.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/internal/buildinfo"
	"github.com/hostler-io/hostler/internal/cli/access"
	"github.com/hostler-io/hostler/internal/cli/actions"
	"github.com/hostler-io/hostler/internal/cli/auditlog"
	"github.com/hostler-io/hostler/internal/cli/backups"
	"github.com/hostler-io/hostler/internal/cli/batch"
	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/containers"
	"github.com/hostler-io/hostler/internal/cli/devfleet"
	"github.com/hostler-io/hostler/internal/cli/dispatch"
	"github.com/hostler-io/hostler/internal/cli/doctor"
	"github.com/hostler-io/hostler/internal/cli/drill"
	"github.com/hostler-io/hostler/internal/cli/fences"
	"github.com/hostler-io/hostler/internal/cli/fleet"
	"github.com/hostler-io/hostler/internal/cli/hosts"
	"github.com/hostler-io/hostler/internal/cli/images"
	"github.com/hostler-io/hostler/internal/cli/keyring"
	"github.com/hostler-io/hostler/internal/cli/measure"
	"github.com/hostler-io/hostler/internal/cli/move"
	"github.com/hostler-io/hostler/internal/cli/networks"
	"github.com/hostler-io/hostler/internal/cli/placements"
	"github.com/hostler-io/hostler/internal/cli/policies"
	"github.com/hostler-io/hostler/internal/cli/run"
	"github.com/hostler-io/hostler/internal/cli/simulate"
	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/internal/cli/transfer"
	"github.com/hostler-io/hostler/internal/cli/upgrade"
	"github.com/hostler-io/hostler/internal/manual"
)

func main() { os.Exit(untilSignal()) }

// untilSignal runs the command line, which a signal ends.
func untilSignal() int {
	terminated, stopTerm := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stopTerm()
	ctx, stopInt := signal.NotifyContext(terminated, os.Interrupt)
	defer stopInt()
	// What is asked for a second time is done at once.
	context.AfterFunc(ctx, func() {
		stopInt()
		stopTerm()
	})
	ui := term.OfProcess(os.Getenv, os.Environ)
	code := ui.Run(ctx, root(newDispatcher(ui)), os.Args[1:])
	// stopTerm ends it too, with another cause than a signal.
	if code == term.ExitInterrupted && terminated.Err() != nil && context.Cause(terminated) != context.Canceled {
		return term.ExitTerminated
	}
	return code
}

func newDispatcher(ui *term.UI) *dispatch.Dispatcher {
	return dispatch.New(&conn.Env{UI: ui})
}

// root returns the tree of all commands.
func root(d *dispatch.Dispatcher) *cobra.Command {
	keys := keyring.New(d.Env)
	files := transfer.New(d)
	many := batch.New(d, files)
	root := term.Group("hostler", "Run commands and containers on hosts anywhere, and know how each ended",
		fleet.Command(d.Env, keys), keys.Command(), policies.Command(many, keys), containers.Command(many, append(measure.ContainerCommands(d), move.Command(d))...), containers.Snapshots(many), containers.Volumes(many), images.Command(d), backups.Command(d, containers.BackupSchedule(many)), networks.Command(d), many.Command(),
		files.Push(), files.Pull(), actions.Command(d, keys, run.OfActions(many)...), actions.Why(d), doctor.Command(d), doctor.Bundle(d), version(), manual.Command(1, buildinfo.Version))
	for _, more := range [][]*cobra.Command{actions.Kinds(d.UI), access.Commands(d.Env), hosts.Commands(d.Env, append(fences.HostCommands(d.Env, keys), doctor.HostCheck(d), upgrade.Command(many), containers.ExplainHost(d.Env))...), measure.Commands(d), run.Commands(many), auditlog.Commands(d), devfleet.Commands(d.UI), {simulate.Command(d.UI, placements.WhatIf(d.Env)), drill.Command(d), placements.Command(d.Env), fences.Command(d.Env, keys)}} {
		root.AddCommand(more...)
	}
	root.Long = `Hostler runs commands and containers on hosts behind any network.

A HOST is named by its id, a container by HOST/NAME, an action by its id or the
first or last characters of it (at least 4). On a host, with --local or when
there is only the agent's socket, the HOST part is left out. Every ls may be
written list, every rm remove or delete, and ct container.

Data goes to standard output, everything else to standard error.
Exit codes: 0 ok, 1 failed, 2 wrong usage, 3 not found, 4 refused, 5 timeout,
6 unreachable. run, exec and attach pass on the code of the command (128 and the number
for a signal) and use 125 for whatever else goes wrong.

The environment: HOSTLER_CONTEXT, HOSTLER_ADDRESS, HOSTLER_TOKEN and
HOSTLER_SOCKET stand for the options, which override them. NO_COLOR=1 turns
colours off. The configuration is $XDG_CONFIG_HOME/hostler/config.toml.`
	root.Example = `  hostler fleet init demo
  hostler login https://coordinator:8443 --token-file token
  hostler host ls
  hostler run edge-01 -- uname -a
  hostler ct create edge-01/web --template busybox`
	root.Version = buildinfo.String() // for --version
	d.Options(root)
	d.Prepare(root)
	return root
}

func version() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: term.NoArgs,
		Example: "  hostler version",
		RunE: func(cmd *cobra.Command, _ []string) error {
			fmt.Fprintln(cmd.OutOrStdout(), "hostler", buildinfo.String())
			return nil
		},
	}
}
