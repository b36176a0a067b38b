package containers

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/dispatch"
	"github.com/hostler-io/hostler/internal/cli/show"
	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/limit"
)

func limitNoun() show.Noun[api.ContainerLimit] {
	return show.NounOf[api.ContainerLimit]("resource", "resource set effective", nil)
}

func (a *commands) ctLimitCommand() *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use: "limit HOST/NAME [RESOURCE=VALUE…]", Short: "Limit what a container uses, or show its limits",
		Long: `Limits what a container may use, at once and after every start. Without limits it
shows those that were set and those that the kernel keeps.

  cpu=150%        percent of one processor
  memory=256MiB   bytes with a unit: KiB MiB GiB or kB MB GB
  pids=200        processes and threads
  cpuset=0-1,4    which processors
  net=10Mbit      bits in a second, in each direction: kbit Mbit Gbit
  io=20MiB        bytes in a second, in each direction and at each disk

RESOURCE=none takes a limit away; limits that are not named stay. A limit below what
the container uses now is refused, unless --force is given: the kernel may kill
processes of it then. A limit that a host cannot set is refused as unsupported.`,
		Example: "  hostler ct limit edge-01/web cpu=150% memory=256MiB pids=200\n  hostler ct limit edge-01/web memory=none\n  hostler ct limit edge-01/web",
		Args:    term.AtLeast(1), ValidArgsFunction: a.Completing(conn.ContainerNames),
	}
	c := dispatch.ChangeFlags(cmd)
	cmd.Flags().BoolVar(&force, "force", false, "also below what it uses now")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 {
			c.View.One = false
			return show.Items(cmd.Context(), a.UI, c.View, limitNoun(), func(ctx context.Context) ([]api.ContainerLimit, error) {
				d, err := a.details(ctx, args[0])
				return d.Limits, err
			})
		}
		if _, err := limit.Parse(args[1:]); err != nil {
			return term.Usage(cmd.CommandPath()+" --help", "%s", err)
		}
		return a.changeOne(cmd, c, args[0], "limit", "limited", func(string) (protocol.Spec, error) {
			return protocol.Spec{Kind: protocol.KindLimit, Args: &protocol.LimitArgs{Set: args[1:], Force: force}}, nil
		})
	}
	return cmd
}
