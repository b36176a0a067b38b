package containers

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/internal/cli/batch"
	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/dispatch"
	"github.com/hostler-io/hostler/internal/cli/show"
	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/data"
)

// Snapshots returns hostler snapshot.
func Snapshots(b *batch.Batcher) *cobra.Command {
	a := &commands{b}
	return term.Group("snapshot", "Earlier states of the files of containers",
		a.snapshotListCommand(), a.snapshotCreateCommand(), a.snapshotRollbackCommand(), a.snapshotRemoveCommand(), snapshotScheduleCommand(a), a.snapshotPruneCommand())
}

func snapshotNoun() show.Noun[api.ContainerSnapshot] {
	return show.NounOf("name", "name made size entries paused shared+ damaged+", show.Cells[api.ContainerSnapshot]{
		"size":    func(s api.ContainerSnapshot) any { return term.Size(s.Bytes) },
		"paused":  func(s api.ContainerSnapshot) any { return word(s.Paused) },
		"shared":  func(s api.ContainerSnapshot) any { return word(s.Shared) },
		"damaged": func(s api.ContainerSnapshot) any { return word(s.Damaged) },
	})
}

func (a *commands) snapshotListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "ls HOST/NAME", Short: "List the snapshots of a container", Args: term.Exactly(1),
		Long: `Lists the snapshots of a container, the newest first. SIZE is that of its files. A
snapshot that is shared took no room when it was made: the file system shares the data
with the container until one of them changes.`,
		Example:           "  hostler snapshot ls edge-01/web\n  hostler snapshot ls edge-01/web -o json",
		ValidArgsFunction: a.Completing(conn.ContainerNames),
	}
	v := show.ListFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return show.Items(cmd.Context(), a.UI, v, snapshotNoun(), func(ctx context.Context) ([]api.ContainerSnapshot, error) {
			d, err := a.details(ctx, args[0])
			return d.Snapshots, err
		})
	}
	return cmd
}

// nowName is the name of a snapshot that was given no name.
const nowName = "20060102-150405"

func (a *commands) snapshotCreateCommand() *cobra.Command {
	var pause bool
	cmd := &cobra.Command{
		Use: "create HOST/NAME [SNAPSHOT]", Short: "Keep the files of a container as they are now", Args: cobra.MatchAll(term.AtLeast(1), term.AtMost(2)),
		Long: `Makes a snapshot: a copy of all files of a container, on its host. Without a name it
is called after the time (UTC). Where the file system can share data between files, it
takes no room until files change; elsewhere it takes as much as the container.

A container may run meanwhile. Its files are read one after the other, so what it
writes at that time may be there in part; with --pause it is frozen until the snapshot
is made. Snapshots go with their container; a backup stays.`,
		Example:           "  hostler snapshot create edge-01/web before-update\n  hostler snapshot create edge-01/db --pause",
		ValidArgsFunction: a.Completing(conn.ContainerNames),
	}
	c := dispatch.ChangeFlags(cmd)
	cmd.Flags().BoolVar(&pause, "pause", false, "freeze the container meanwhile")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		name := a.Now().UTC().Format(nowName)
		if len(args) == 2 {
			name = args[1]
		}
		s := data.NewSnapshot{SnapshotName: data.SnapshotName{Snapshot: name}, Pause: pause}
		return a.onSnapshot(cmd, c, args[0], "make snapshot "+name+" of", "kept as "+name, &s.SnapshotName, protocol.Spec{Kind: protocol.KindSnapshot, Args: &protocol.SnapshotArgs{NewSnapshot: s}})
	}
	return cmd
}

// onSnapshot asks for something about a snapshot of a container.
func (a *commands) onSnapshot(cmd *cobra.Command, c *dispatch.Change, where, verb, done string, n *data.SnapshotName, s protocol.Spec) error {
	if err := n.Check(); err != nil {
		return term.Usage(cmd.CommandPath()+" --help", "%s", err)
	}
	return a.changeOne(cmd, c, where, verb, done, func(string) (protocol.Spec, error) { return s, nil })
}

func (a *commands) snapshotRollbackCommand() *cobra.Command {
	var restart, yes bool
	cmd := &cobra.Command{
		Use: "rollback HOST/NAME SNAPSHOT", Short: "Give a container the files of a snapshot", Args: term.Exactly(2),
		Long: `Exchanges the files of a container for those of a snapshot, in one step. What it has
now is lost, unless another snapshot has it. The snapshot stays, and so do all others.

The container must be stopped. With --restart it is stopped first, and runs again
afterwards if it is meant to.`,
		Example:           "  hostler snapshot rollback edge-01/web before-update --restart --yes",
		ValidArgsFunction: a.Completing(conn.ContainerNames),
	}
	c := dispatch.ChangeFlags(cmd)
	cmd.Flags().BoolVar(&restart, "restart", false, "stop the container first, and start it again")
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s := data.Rollback{SnapshotName: data.SnapshotName{Snapshot: args[1]}, Restart: restart}
		if err := a.Confirm(yes || c.DryRun, "Replace the files of "+args[0]+" by those of "+args[1]+"?"); err != nil {
			return err
		}
		return a.onSnapshot(cmd, c, args[0], "roll back", "as in "+args[1], &s.SnapshotName, protocol.Spec{Kind: protocol.KindRollback, Args: &protocol.RollbackArgs{Rollback: s}})
	}
	return cmd
}

func (a *commands) snapshotRemoveCommand() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use: "rm HOST/NAME SNAPSHOT", Short: "Remove a snapshot", Args: term.Exactly(2),
		Long: "Removes a snapshot of a container. The container and its other snapshots stay. This cannot be undone.", Example: "  hostler snapshot rm edge-01/web before-update --yes",
		ValidArgsFunction: a.Completing(conn.ContainerNames),
	}
	c := dispatch.ChangeFlags(cmd)
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		n := data.SnapshotName{Snapshot: args[1]}
		if err := a.Confirm(yes || c.DryRun, "Remove snapshot "+args[1]+" of "+args[0]+"?"); err != nil {
			return err
		}
		return a.onSnapshot(cmd, c, args[0], "remove snapshot "+args[1]+" of", "rid of "+args[1], &n, protocol.Spec{Kind: protocol.KindSnapshotRemove, Args: &protocol.SnapshotRemoveArgs{SnapshotName: n}})
	}
	return cmd
}

func (a *commands) snapshotPruneCommand() *cobra.Command {
	var r data.Retention
	var yes bool
	cmd := &cobra.Command{
		Use: "prune HOST/NAME", Short: "Remove the snapshots that need not be kept", Args: term.Exactly(1),
		Long: `Removes the snapshots of a container, but the newest of each of the last --keep-daily
days and of the last --keep-weekly weeks (UTC, from Monday) that have one. The newest
of all always stays.

Days and weeks are counted, so that a host that was off for long loses nothing. A
snapshot that is dated in the future, or before one that was made earlier, stays: the
clock has jumped then.`,
		Example:           "  hostler snapshot prune edge-01/web --keep-daily 7 --keep-weekly 4 --yes",
		ValidArgsFunction: a.Completing(conn.ContainerNames),
	}
	c := dispatch.ChangeFlags(cmd)
	cmd.Flags().Int64Var(&r.KeepDaily, "keep-daily", 7, "of how many days the newest stays")
	cmd.Flags().Int64Var(&r.KeepWeekly, "keep-weekly", 4, "of how many weeks the newest stays")
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if r.KeepDaily < 0 || r.KeepWeekly < 0 || r.KeepDaily+r.KeepWeekly == 0 {
			return term.Usage(cmd.CommandPath()+" --help", "nothing would stay but the newest: give --keep-daily or --keep-weekly a number above 0")
		}
		if err := a.Confirm(yes || c.DryRun, "Remove older snapshots of "+args[0]+"?"); err != nil {
			return err
		}
		return a.changeOne(cmd, c, args[0], "prune the snapshots of", "pruned", func(string) (protocol.Spec, error) {
			return protocol.Spec{Kind: protocol.KindSnapshotPrune, Args: &protocol.SnapshotPruneArgs{Retention: r}}, nil
		})
	}
	return cmd
}
