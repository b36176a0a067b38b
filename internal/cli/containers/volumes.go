package containers

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/internal/cli/batch"
	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/dispatch"
	"github.com/hostler-io/hostler/internal/cli/show"
	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/mount"
)

// volumes has the commands about volumes.
type volumes struct{ *commands }

// Volumes returns hostler volume.
func Volumes(b *batch.Batcher) *cobra.Command {
	a := &volumes{&commands{b}}
	cmd := term.Group("volume", "Volumes: what stays when a container goes")
	cmd.AddCommand(a.volumeListCommand(), a.volumeRemoveCommand())
	return cmd
}

func volumeNoun() show.Noun[api.Volume] {
	return show.NounOf("name", "name containers made path+", show.Cells[api.Volume]{
		"containers": func(v api.Volume) any { return strings.Join(v.Containers, " ") },
	})
}

// watchVolumes is the pause between two questions with --watch, each of which is an action.
const watchVolumes = 15 * time.Second

func (a *volumes) volumeListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "ls [HOST]", Short: "List the volumes of a host", Args: term.AtMost(1),
		Long:    "Lists the volumes of a host, and the containers that have them.",
		Example: "  hostler volume ls edge-01\n  hostler --local volume ls -o json", ValidArgsFunction: a.Completing(conn.HostNames),
	}
	v := show.ListFlags(cmd)
	cmd.RunE = a.OnHost(0, func(cmd *cobra.Command, r *conn.Remote, host protocol.HostID, _ []string) error {
		first := true
		return show.Items(cmd.Context(), a.UI, v, volumeNoun(), func(ctx context.Context) ([]api.Volume, error) {
			if !first {
				if err := term.Pause(ctx, watchVolumes); err != nil {
					return nil, err
				}
			}
			first = false
			return dispatch.Listed[api.Volume](ctx, a.Dispatcher, r, host, "list the volumes", protocol.Spec{
				Kind: protocol.KindVolumeList, Args: &protocol.ExportArgs{OutputOption: protocol.OutputOption{Output: protocol.OutputStream}},
			})
		})
	})
	return cmd
}

func (a *volumes) volumeRemoveCommand() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use: "rm [HOST] NAME", Short: "Remove a volume with everything in it", Args: term.AtMost(2),
		Long:    "Removes a volume that no container has, with everything in it. This cannot be undone.",
		Example: "  hostler volume rm edge-01 data --yes", ValidArgsFunction: a.Completing(conn.HostNames),
	}
	c := dispatch.ChangeFlags(cmd)
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	cmd.RunE = a.OnHost(1, func(cmd *cobra.Command, r *conn.Remote, host protocol.HostID, rest []string) error {
		if err := mount.CheckName(rest[0]); err != nil {
			return term.Usage("hostler volume ls "+string(host), "%s", err)
		}
		if err := a.Confirm(yes || c.DryRun, "Remove volume "+rest[0]+" with everything in it?"); err != nil {
			return err
		}
		return a.Do(cmd.Context(), r, c, conn.Ref{Host: host, Name: rest[0]}, "remove volume "+rest[0], "gone", protocol.Spec{
			Kind: protocol.KindVolumeRemove, Args: &protocol.VolumeArgs{Volume: rest[0]},
		})
	})
	return cmd
}
