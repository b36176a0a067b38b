package backups

import (
	"context"
	"errors"
	"os"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/dispatch"
	"github.com/hostler-io/hostler/internal/cli/show"
	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/data"
)

func (a *commands) copyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "copy HOST BACKUP TO-HOST…", Short: "Bring a backup of a host to other hosts of the fleet", Args: term.AtLeast(3),
		Long: `Brings a backup from a host to others, through the coordinator. The first host signs
what it sends. The others verify that a host of the fleet has signed it, and all of its
bytes, before they write anything; then the backup is one of their own, under the same
name, which they restore as any other. The first host keeps the backup.

A backup holds all files of its container. So policies count host.backup-export as root
of the host.`,
		Example: "  hostler backup copy edge-01 web-20261124-170929 edge-02", ValidArgsFunction: a.CompletingAll(conn.HostNames),
	}
	v, target := show.ListFlags(cmd), targetFlag(cmd)
	cmd.RunE = a.OnCoordinator(func(cmd *cobra.Command, args []string, r *conn.Remote) error {
		var hosts []protocol.HostID
		for _, arg := range append(args[:1:1], args[2:]...) {
			host, err := conn.ParseHost(arg)
			if err != nil {
				return term.Usage("hostler host ls", "%s", err)
			}
			hosts = append(hosts, host)
		}
		name := data.BackupName{Backup: args[1], Target: *target}
		if err := name.Check(); err != nil || name.Backup == "" {
			return term.Usage("hostler backup ls "+args[0], "%q is no name of a backup", args[1])
		}
		all, err := Copy(cmd.Context(), a.Dispatcher, r, name, hosts[0], hosts[1:]...)
		return errors.Join(err, show.Print(a.UI, v, noun(), all))
	})
	return cmd
}

// Copy brings a backup of a host to others, which keep it in their own directories, and
// returns those that have come. That one host refuses it keeps it from no other.
func Copy(ctx context.Context, d *dispatch.Dispatcher, r *conn.Remote, name data.BackupName, from protocol.HostID, to ...protocol.HostID) (all []api.Backup, err error) {
	what := "copy backup " + name.Backup
	f, err := os.CreateTemp("", "hostler-backup-")
	if err == nil {
		err = os.Remove(f.Name()) // no other program is to open it
	}
	if err != nil {
		return nil, &term.Failure{Code: term.ExitFailed, What: "cannot " + what, Why: err.Error(), Next: "set TMPDIR to a directory with more room"}
	}
	if err := export(ctx, d, r, what, name, from, f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	p, err := dispatch.NewPayload(d.UI, f, "the archive")
	if err != nil {
		return nil, err
	}
	defer p.Close()
	s := protocol.Spec{Kind: protocol.KindBackupImport, Args: &protocol.BackupImportArgs{BackupName: data.BackupName{Backup: name.Backup}, OutputOption: protocol.OutputOption{Output: protocol.OutputStream}}}
	p.Describe(&s)
	if err := p.Send(ctx, d, r, what); err != nil {
		return nil, err
	}
	for _, host := range to {
		came, bad := dispatch.Listed[api.Backup](ctx, d, r, host, "take backup "+name.Backup+" on "+string(host), s)
		all, err = append(all, came...), errors.Join(err, bad)
	}
	return all, err
}

// export has a host write a backup. It returns an error unless the whole backup comes.
func export(ctx context.Context, d *dispatch.Dispatcher, r *conn.Remote, what string, name data.BackupName, host protocol.HostID, to *os.File) error {
	spec, err := dispatch.EncodeSpec(protocol.Spec{Kind: protocol.KindBackupExport, Args: &protocol.BackupArgs{BackupName: name, OutputOption: protocol.OutputOption{Output: protocol.OutputStream}}})
	if err != nil {
		return err
	}
	act, err := d.Submit(ctx, r, host, spec)
	if err != nil {
		return term.Cannot(what, err)
	}
	bar := d.Progress("receiving "+term.Printable(name.Backup), 0)
	defer bar.End()
	final, err := (&dispatch.Follower{Dispatcher: d, Remote: r, Label: name.Backup, Stdout: bar.Writer(to), Stderr: d.Err, Hold: true, Whole: true}).Wait(ctx, act)
	if err != nil {
		return errors.Join(term.Cannot(what, err), d.Abandon(ctx, r, act.ID))
	}
	return dispatch.Ended(what, final)
}
