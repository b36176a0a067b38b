package containers

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/dispatch"
	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/hostcmd"
)

func (a *commands) ctLogsCommand() *cobra.Command {
	q := protocol.LogsArgs{OutputOption: protocol.OutputOption{Output: protocol.OutputStream}}
	var since term.DurationFlag
	var runtime bool
	cmd := &cobra.Command{
		Use: "logs HOST/NAME", Short: "Print what a container has printed", Args: term.Exactly(1),
		Long: `Prints the log of a container: of podman what its first process printed, of LXC
what was printed on its console, of which the host keeps the last 1 to 2 MiB.

With --follow it goes on with what comes: of podman until the container ends, of
LXC over restarts. Ctrl-C ends it. --since asks for what was printed in that time;
LXC does not note when a line was printed, and refuses it. --runtime shows what
LXC said at the last start of the container, which tells why one does not start.`,
		Example:           "  hostler ct logs edge-01/web --tail 100\n  hostler ct logs edge-01/db --since 1h --follow\n  hostler ct logs edge-01/web --runtime",
		ValidArgsFunction: a.Completing(conn.ContainerNames),
	}
	f := cmd.Flags()
	f.Int64Var(&q.Tail, "tail", 0, "how many lines of the end (default 10000)")
	f.Var(&since, "since", "only what was printed no longer ago than this")
	f.BoolVarP(&q.Follow, "follow", "f", false, "go on with what comes")
	f.BoolVar(&runtime, "runtime", false, "what the runtime said at the last start")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if q.Tail < 0 || q.Tail > hostcmd.MaxTail {
			return term.Usage("", "--tail %d is not between 0 and %d lines", q.Tail, hostcmd.MaxTail)
		}
		if runtime {
			if q.Follow || since.Value > 0 {
				return term.Usage("", "--runtime cannot be combined with --follow or --since: what the runtime said ends with the start")
			}
			q.Source = hostcmd.LogRuntime
		}
		q.SinceMS = since.Value.Milliseconds()
		if q.Follow {
			q.TimeoutMS = protocol.NoTimeout
		}
		return a.logs(cmd.Context(), args[0], &q)
	}
	return cmd
}

// logs asks the host for a log, and prints it. A log that is followed is not followed by
// the host any longer when nobody reads it here.
func (a *commands) logs(ctx context.Context, where string, q *protocol.LogsArgs) error {
	what := "print the log of " + where
	r, name, id, err := a.FindContainer(ctx, where)
	if err != nil {
		return term.Cannot(what, err)
	}
	spec, err := dispatch.EncodeSpec(protocol.Spec{Kind: protocol.KindLogs, Target: id, Name: protocol.ContainerName(name.Name), Args: q})
	if err != nil {
		return err
	}
	act, err := a.Submit(ctx, r, name.Host, spec)
	if err != nil {
		return err
	}
	final, err := (&dispatch.Follower{Dispatcher: a.Dispatcher, Remote: r, Label: name.String(), Stdout: a.Out, Stderr: a.Err, Hold: true}).Wait(ctx, act)
	switch {
	case err != nil && ctx.Err() != nil && q.Follow:
		return a.Abandon(ctx, r, act.ID)
	case err != nil:
		a.Leave(act.ID)
		return err
	}
	return dispatch.Ended(what, final)
}
