package networks

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/dispatch"
	"github.com/hostler-io/hostler/internal/cli/show"
	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/protocol"
)

func noun() show.Noun[api.NetworkPart] {
	return show.NounOf[api.NetworkPart]("name", "kind name network owner detail~ orphan", nil)
}

func (a *commands) listCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "ls [HOST]", Short: "List the network parts of a host's containers", Args: term.AtMost(1),
		Long: `Lists the bridge of a host's containers, the cables that are plugged into it, the
forwarded ports, and the other rules of the packet filter that Hostler has made. A
bridge whose containers find each other by name has a line of the kind names, with
the process that serves them.
OWNER is the container that a part belongs to. A cable without an owner belongs to a
container that Hostler has not made. ORPHAN marks parts whose container is gone;
hostler net cleanup removes them.`,
		Example: "  hostler net ls edge-01\n  hostler --local net ls -o json", ValidArgsFunction: a.Completing(conn.HostNames),
	}
	return a.looking(cmd, 0, func(all []api.NetworkPart, _ protocol.HostID, _ []string) ([]api.NetworkPart, error) { return all, nil })
}

func (a *commands) showCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "show [HOST] NAME", Short: "Show the network parts of a bridge or a container", Args: term.AtMost(2),
		Long:    `Shows the parts of one bridge or one container, as hostler net ls lists them.`,
		Example: "  hostler net show edge-01 hostler0\n  hostler net show edge-01/web", ValidArgsFunction: a.Completing(conn.AnyOf(conn.HostNames, conn.ContainerNames)),
	}
	return a.looking(cmd, 1, named)
}

// named are the parts of a bridge or of a container.
func named(all []api.NetworkPart, host protocol.HostID, args []string) ([]api.NetworkPart, error) {
	parts := slices.DeleteFunc(all, func(p api.NetworkPart) bool { return p.Network != args[0] && p.Owner != args[0] })
	if len(parts) > 0 {
		return parts, nil
	}
	return nil, &term.Failure{
		Code: term.ExitNotFound, What: "cannot show the network parts of " + args[0],
		Why: "the host has no bridge of this name, and no part of a container of this name", Next: strings.TrimSpace("hostler net ls " + string(host)),
	}
}

// looking is a command that lists parts.
func (a *commands) looking(cmd *cobra.Command, names int, choose func(all []api.NetworkPart, host protocol.HostID, args []string) ([]api.NetworkPart, error)) *cobra.Command {
	v := show.ListFlags(cmd)
	look := a.OnHost(names, func(cmd *cobra.Command, r *conn.Remote, host protocol.HostID, rest []string) error {
		return show.Items(cmd.Context(), a.UI, v, noun(), func(ctx context.Context) ([]api.NetworkPart, error) {
			all, err := a.ask(ctx, r, host, "list the networks", protocol.KindNetworkList)
			if err != nil {
				return nil, err
			}
			return choose(all, host, rest)
		})
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if host, name, ok := strings.Cut(strings.Join(args, " "), "/"); ok && len(args) == names { // a container, as other commands take it
			args = []string{host, name}
		}
		return look(cmd, args)
	}
	return cmd
}

func (a *commands) cleanupCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "cleanup [HOST]", Short: "Remove rules of ports whose container is gone", Args: term.AtMost(1),
		Long: `Removes the rules of ports that Hostler has made for containers which are gone, and
prints them. Rules and devices of others are left alone. The agent does the same by
itself; hostler-agent fsck finds the same while the agent is stopped.`,
		Example: "  hostler net cleanup edge-01", ValidArgsFunction: a.Completing(conn.HostNames),
	}
	cmd.RunE = a.OnHost(0, func(cmd *cobra.Command, r *conn.Remote, host protocol.HostID, _ []string) error {
		gone, err := a.ask(cmd.Context(), r, host, "clean up the networks", protocol.KindNetworkCleanup)
		for _, p := range gone {
			fmt.Fprintln(a.Out, strings.TrimSpace(term.Printable(p.Kind+" "+p.Name+" "+p.Detail)))
		}
		return err
	})
	return cmd
}

// ask asks a host, and reads what it prints.
func (a *commands) ask(ctx context.Context, r *conn.Remote, host protocol.HostID, what string, kind protocol.Kind) ([]api.NetworkPart, error) {
	args := &protocol.ExportArgs{OutputOption: protocol.OutputOption{Output: protocol.OutputStream}}
	return dispatch.Listed[api.NetworkPart](ctx, a.Dispatcher, r, host, what, protocol.Spec{Kind: kind, Args: args})
}
