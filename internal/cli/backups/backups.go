// Package backups has hostler backup: archives of containers on their hosts.
package backups

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/dispatch"
	"github.com/hostler-io/hostler/internal/cli/show"
	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/data"
)

type commands struct{ *dispatch.Dispatcher }

// Command returns hostler backup, with commands of other areas.
func Command(d *dispatch.Dispatcher, more ...*cobra.Command) *cobra.Command {
	a := &commands{d}
	return term.Group("backup", "Archives of containers on their hosts", append(more, a.listCommand(), a.createCommand(), a.verifyCommand(), a.restoreCommand(), a.copyCommand(), a.removeCommand())...)
}

func noun() show.Noun[api.Backup] {
	return show.NounOf("name", "name target container runtime kind made verified size problem~ parent+ chain+ chain-size+ from+ scheduled+ volumes+ encrypted+ entries+", show.Cells[api.Backup]{
		"size":       func(b api.Backup) any { return term.Size(b.Bytes) },
		"kind":       func(b api.Backup) any { return kindOf(b) },
		"chain-size": func(b api.Backup) any { return term.Size(b.ChainBytes) },
		"scheduled":  func(b api.Backup) any { return word(b.Scheduled) },
		"encrypted":  func(b api.Backup) any { return word(len(b.EncryptedTo) > 0) },
	})
}

// kindOf is empty where a host tells of no backup, or does not know of increments.
func kindOf(b api.Backup) string {
	switch {
	case b.Parent != "":
		return "incr"
	case b.Chain > 0:
		return "full"
	}
	return ""
}

func word(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}

// targetFlag is where a backup is kept.
func targetFlag(cmd *cobra.Command) *string {
	return cmd.Flags().String("target", "", "where it is kept, as the host's configuration calls it")
}

// named are the arguments about a backup.
func named(c *dispatch.Change, name, target string) *protocol.BackupArgs {
	return &protocol.BackupArgs{BackupName: data.BackupName{Backup: name, Target: target}, OutputOption: c.AnswerMode()}
}

func (a *commands) listCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "ls [HOST]", Short: "List the backups of a host", Args: term.AtMost(1),
		Long: `Lists the backups that a host has. A backup with a PROBLEM cannot be used: it is cut
short, was changed, or was not signed by the key of the host. The archives themselves
are read by verify; VERIFIED says when that found one good last. TARGET is where it is
kept; without one it is on the host itself. KIND is full or incr: an increment needs its
PARENT and all before that, up to a full backup. With -o wide CHAIN is how many backups
a restore of it reads, itself among them, and CHAIN-SIZE how long they are.`,
		Example: "  hostler backup ls edge-01\n  hostler --local backup ls -o json", ValidArgsFunction: a.Completing(conn.HostNames),
	}
	v := show.ListFlags(cmd)
	cmd.RunE = a.OnHost(0, func(cmd *cobra.Command, r *conn.Remote, host protocol.HostID, _ []string) error {
		return show.Items(cmd.Context(), a.UI, v, noun(), func(ctx context.Context) ([]api.Backup, error) {
			return listed(ctx, a.Dispatcher, r, host)
		})
	})
	return cmd
}

func (a *commands) createCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "create HOST/NAME [BACKUP]", Short: "Write all files of a container into a signed archive", Args: cobra.MatchAll(term.AtLeast(1), term.AtMost(2)),
		Long: `Makes a backup: one file on the host of the container, with all of its files and a
manifest that the key of the host signs, which is read again when it is written. With
--target it is kept in a directory or bucket that backups.targets of the host's agent.toml names,
such as a file system of another machine. It is called after the container and the time
(UTC), unless a name is given. It stays when the container goes.

With --incremental it holds only what has changed since the backup before it at the same
target, and is restored over that one. Each seventh backup is a full one again, or another
with --incremental=N. It is also a full one where the host knows no whole chain that it
could go on: when there is no backup before it, that one is damaged or was removed, or the
keys of the encryption are others.

A container may run meanwhile; what it writes at that time may be there in part. Stop
it first, or freeze it, if that matters. Devices and mounts are left out, and volumes
unless --volumes is given; hostler ct move is what uses them.`,
		Example: "  hostler backup create edge-01/web\n  hostler backup create edge-01/web before-move\n  hostler backup create edge-01/web --incremental", ValidArgsFunction: a.Completing(conn.ContainerNames),
	}
	c, target := dispatch.ChangeFlags(cmd), targetFlag(cmd)
	volumes := cmd.Flags().Bool("volumes", false, "the files of its volumes, too")
	incremental := cmd.Flags().Int64("incremental", 0, "only what has changed since the backup before, with one full backup in so many")
	cmd.Flags().Lookup("incremental").NoOptDefVal = "7"
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		what := "back up " + args[0]
		r, ref, id, err := a.FindContainer(cmd.Context(), args[0])
		if err != nil {
			return term.Cannot(what, err)
		}
		wanted := data.NewBackup{BackupName: data.BackupName{Target: *target}, WithVolumes: *volumes, Incremental: *incremental}
		if err := wanted.Check(); err != nil {
			return term.Usage(cmd.CommandPath()+" --help", "%s", err)
		}
		name := data.BackupOf(ref.Name, a.Now())
		if len(args) == 2 {
			name = args[1]
		}
		wanted.Backup = name
		return a.change(cmd, c, r, ref.Host, what, name, protocol.Spec{Kind: protocol.KindBackup, Target: id, Name: protocol.ContainerName(ref.Name), Args: &protocol.NewBackupArgs{NewBackup: wanted, OutputOption: c.AnswerMode()}})
	}
	return cmd
}

func (a *commands) verifyCommand() *cobra.Command {
	return a.about(&cobra.Command{
		Use: "verify [HOST] BACKUP", Short: "Read all of a backup, and say whether it is whole",
		Long: `Reads all of a backup and holds it against its manifest, and the manifest against the
key of the host. One that is cut short, changed or foreign fails. Of an increment all
backups that it needs are read, too: it is whole if its chain is.`,
		Example: "  hostler backup verify edge-01 before-move",
	}, protocol.KindBackupVerify, "verify", "")
}

func (a *commands) removeCommand() *cobra.Command {
	return a.about(&cobra.Command{
		Use: "rm [HOST] BACKUP", Short: "Remove a backup from a host",
		Long: "Removes a backup. The container that it was made of stays. This cannot be undone.\nA backup with an increment is not removed: remove the increment first.", Example: "  hostler backup rm edge-01 before-move --yes",
	}, protocol.KindBackupRemove, "remove", "Remove backup ")
}

// about is a command about a backup. Confirm is what is asked before; empty is nothing.
func (a *commands) about(cmd *cobra.Command, kind protocol.Kind, verb, confirm string) *cobra.Command {
	cmd.Args, cmd.ValidArgsFunction = term.AtMost(2), a.Completing(conn.HostNames)
	c, target := dispatch.ChangeFlags(cmd), targetFlag(cmd)
	var yes bool
	if confirm != "" {
		cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	}
	cmd.RunE = a.OnHost(1, func(cmd *cobra.Command, r *conn.Remote, host protocol.HostID, rest []string) error {
		if confirm != "" {
			if err := a.Confirm(yes || c.DryRun, confirm+rest[0]+"?"); err != nil {
				return err
			}
		}
		return a.change(cmd, c, r, host, verb+" backup "+rest[0], rest[0], protocol.Spec{Kind: kind, Args: named(c, rest[0], *target)})
	})
	return cmd
}

func (a *commands) restoreCommand() *cobra.Command {
	var start bool
	var from string
	cmd := &cobra.Command{
		Use: "restore HOST/NEW-NAME --from BACKUP", Short: "Make a container from a backup", Args: term.Exactly(1),
		Long: `Makes a container of another name from a backup of its host. All of the backup is
verified before anything is written. The container has an identity of its own: host
name, address, hardware address, users of the host, machine id; the keys of its ssh
server are left out, so that it makes new ones. It is kept as the first one was: its
limits, labels, check and contract, and ports of the host that lead nowhere else now.`,
		Example: "  hostler backup restore edge-01/web-2 --from before-move --start", ValidArgsFunction: a.CompletingNew,
	}
	c, target := dispatch.ChangeFlags(cmd), targetFlag(cmd)
	cmd.Flags().StringVar(&from, "from", "", "the backup, as ls calls it")
	cmd.Flags().BoolVar(&start, "start", false, "also start it")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		n := data.BackupName{Backup: from, Target: *target}
		if err := n.Check(); err != nil || from == "" {
			return term.Usage("hostler backup ls", "--from names no backup")
		}
		r, err := a.Connect()
		if err != nil {
			return err
		}
		ref, err := conn.ParseRef(args[0], r.Local)
		if err != nil {
			return term.Usage("hostler host ls", "%s", err)
		}
		name, err := conn.ParseName(ref.Name)
		if err != nil {
			return err
		}
		var random [10]byte
		a.Random(random[:])
		return a.Do(cmd.Context(), r, c, ref, "restore "+ref.String(), "there", protocol.Spec{
			Kind: protocol.KindRestore, Target: protocol.NewCTID(a.Now().UnixMilli(), random), Name: name,
			Args: &protocol.RestoreArgs{Restore: data.Restore{BackupName: n, Start: start}},
		})
	}
	return cmd
}

// change asks for something about a backup, and prints its name.
func (a *commands) change(cmd *cobra.Command, c *dispatch.Change, r *conn.Remote, host protocol.HostID, what, name string, s protocol.Spec) error {
	if err := (&data.BackupName{Backup: name}).Check(); err != nil || name == "" {
		return term.Usage("hostler backup ls", "%q is no name of a backup: want letters, digits and, not at the beginning, any of ._-", name)
	}
	return dispatch.PrintChanged(cmd.Context(), a.Dispatcher, c, r, host, what, s, noun(), func(b api.Backup) string { return b.Name })
}
