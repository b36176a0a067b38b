package backups

import (
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"

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

With an increment come all backups that it needs, under their own names, down to the full
one. All of them are verified before the first one is written. The increment has its name
there as the last one; if the copy is cut short, the backups that have come stay, each is
whole, and the next copy goes on behind them. What a host has already is not sent again.

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
		all, err := a.copyTo(cmd.Context(), r, name, hosts[0], hosts[1:])
		return errors.Join(err, show.Print(a.UI, v, noun(), all))
	})
	return cmd
}

// copyTo brings a backup to hosts, each time without what they have.
func (a *commands) copyTo(ctx context.Context, r *conn.Remote, name data.BackupName, from protocol.HostID, to []protocol.HostID) (all []api.Backup, err error) {
	chain := a.chain(ctx, r, name, from)
	lacking := make(map[string][]protocol.HostID) // by the names of what they have
	for _, host := range to {
		has := strings.Join(a.has(ctx, r, host, chain), " ")
		lacking[has] = append(lacking[has], host)
	}
	for _, has := range slices.Sorted(maps.Keys(lacking)) {
		came, bad := bring(ctx, a.Dispatcher, r, data.BackupExport{BackupName: name, LeftOut: strings.Fields(has)}, from, lacking[has]...)
		all, err = append(all, came...), errors.Join(err, bad)
	}
	return all, err
}

// chain is a backup of a host, and those that it needs, from the full one on. It is empty if the
// host does not tell, as one of before that left nothing out, or may not be asked: then all is
// sent.
func (a *commands) chain(ctx context.Context, r *conn.Remote, name data.BackupName, from protocol.HostID) (chain []api.Backup) {
	all, err := listed(ctx, a.Dispatcher, r, from)
	if err != nil {
		return nil // what is wrong with the host shows when it is to send
	}
	for next := name.Backup; next != ""; {
		i := slices.IndexFunc(all, func(b api.Backup) bool { return b.Name == next && b.Target == name.Target })
		if i < 0 || all[i].SHA256 == "" || len(chain) == data.MaxChain {
			return nil
		}
		chain, next = slices.Insert(chain, 0, all[i]), all[i].Parent
	}
	return chain
}

// has are those of a chain that a host has, too, and nothing is known against. It verifies them
// before it lays others over them.
func (a *commands) has(ctx context.Context, r *conn.Remote, host protocol.HostID, chain []api.Backup) (names []string) {
	if len(chain) == 0 {
		return nil
	}
	all, err := listed(ctx, a.Dispatcher, r, host)
	if err != nil {
		return nil
	}
	for _, b := range chain {
		if slices.ContainsFunc(all, func(o api.Backup) bool {
			return o.Name == b.Name && o.Target == "" && o.Problem == "" && o.SHA256 == b.SHA256 && o.CTID == b.CTID && o.Parent == b.Parent
		}) {
			names = append(names, b.Name)
		}
	}
	return names
}

func listed(ctx context.Context, d *dispatch.Dispatcher, r *conn.Remote, host protocol.HostID) ([]api.Backup, error) {
	return dispatch.Listed[api.Backup](ctx, d, r, host, "list the backups", protocol.Spec{Kind: protocol.KindBackupList, Args: &protocol.ExportArgs{}})
}

// Copy brings a backup of a host, with the backups that it needs, to another host, which keeps it
// in its own directory.
func Copy(ctx context.Context, d *dispatch.Dispatcher, r *conn.Remote, name data.BackupName, from, to protocol.HostID) error {
	_, err := bring(ctx, d, r, data.BackupExport{BackupName: name}, from, to)
	return err
}

// bring copies a backup to hosts which all have the same of it, and returns those that have come.
// That one host refuses it keeps it from no other.
func bring(ctx context.Context, d *dispatch.Dispatcher, r *conn.Remote, what data.BackupExport, from protocol.HostID, to ...protocol.HostID) (all []api.Backup, err error) {
	doing := "copy backup " + what.Backup
	f, err := os.CreateTemp("", "hostler-backup-")
	if err == nil {
		err = os.Remove(f.Name()) // no other program is to open it
	}
	if err != nil {
		return nil, &term.Failure{Code: term.ExitFailed, What: "cannot " + doing, Why: err.Error(), Next: "set TMPDIR to a directory with more room"}
	}
	if err := export(ctx, d, r, doing, what, from, f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	p, err := dispatch.NewPayload(d.UI, f, "the archive")
	if err != nil {
		return nil, err
	}
	defer p.Close()
	s := protocol.Spec{Kind: protocol.KindBackupImport, Args: &protocol.BackupImportArgs{BackupName: data.BackupName{Backup: what.Backup}, OutputOption: protocol.OutputOption{Output: protocol.OutputStream}}}
	p.Describe(&s)
	if err := p.Send(ctx, d, r, doing); err != nil {
		return nil, err
	}
	for _, host := range to {
		came, bad := dispatch.Listed[api.Backup](ctx, d, r, host, "take backup "+what.Backup+" on "+string(host), s)
		all, err = append(all, came...), errors.Join(err, bad)
	}
	return all, err
}

// export has a host write a backup. It returns an error unless the whole backup comes.
func export(ctx context.Context, d *dispatch.Dispatcher, r *conn.Remote, doing string, what data.BackupExport, host protocol.HostID, to *os.File) error {
	spec, err := dispatch.EncodeSpec(protocol.Spec{Kind: protocol.KindBackupExport, Args: &protocol.BackupExportArgs{BackupExport: what, OutputOption: protocol.OutputOption{Output: protocol.OutputStream}}})
	if err != nil {
		return err
	}
	act, err := d.Submit(ctx, r, host, spec)
	if err != nil {
		return term.Cannot(doing, err)
	}
	bar := d.Progress("receiving "+term.Printable(what.Backup), 0)
	defer bar.End()
	final, err := (&dispatch.Follower{Dispatcher: d, Remote: r, Label: what.Backup, Stdout: bar.Writer(to), Stderr: d.Err, Hold: true, Whole: true}).Wait(ctx, act)
	if err != nil {
		return errors.Join(term.Cannot(doing, err), d.Abandon(ctx, r, act.ID))
	}
	return dispatch.Ended(doing, final)
}
