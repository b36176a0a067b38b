package containers

import (
	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/dispatch"
	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/data"
)

// cloneCommand is hostler ct clone.
func cloneCommand(a *commands) *cobra.Command {
	var hostname string
	var start bool
	cmd := &cobra.Command{
		Use: "clone HOST/NAME NEW-NAME", Short: "Make a container with the files of another one",
		Long: `Makes a container on the same host with the files of another one, its limits, labels,
variables, checks and contract. It has an identity of its own: host name, address,
hardware address, users of the host and machine id; the keys of its ssh server are left
out, so that it makes new ones. Ports of the host lead to the first one alone.

A container may run meanwhile; what it writes at that time may be there in part. Stop
it first, or freeze it, if that matters. Other actions of it wait until it is copied.`,
		Example: "  hostler ct clone edge-01/web web-2\n  hostler ct clone edge-01/web web-2 --hostname www2 --start",
		Args:    term.Exactly(2), ValidArgsFunction: a.Completing(conn.ContainerNames),
	}
	c := dispatch.ChangeFlags(cmd)
	cmd.Flags().StringVar(&hostname, "hostname", "", "name that it calls itself (default its name)")
	cmd.Flags().BoolVar(&start, "start", false, "also start it")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		to, err := conn.ParseName(args[1])
		if err == nil && hostname != "" {
			_, err = conn.ParseName(hostname)
		}
		if err != nil {
			return err
		}
		ctx, what := cmd.Context(), "clone "+args[0]
		r, from, id, err := a.FindContainer(ctx, args[0])
		if err != nil {
			return term.Cannot(what, err)
		}
		made := conn.Ref{Host: from.Host, Name: args[1]}
		return a.Do(ctx, r, c, made, what, "there", protocol.Spec{
			Kind: protocol.KindClone, Target: newCTID(a), Name: to,
			Args: &protocol.CloneArgs{Clone: data.Clone{Source: id.String(), SourceName: from.Name, Hostname: hostname, Start: start}},
		})
	}
	return cmd
}
