// Package auditlog verifies what was signed: hostler audit, the log of a fleet,
// hostler verify, single messages, and hostler watch, messages as they come.
package auditlog

import (
	"context"
	"errors"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/dispatch"
	"github.com/hostler-io/hostler/internal/cli/show"
	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/protocol"
)

type commands struct{ *dispatch.Dispatcher }

// Commands returns hostler audit, verify and watch.
func Commands(d *dispatch.Dispatcher) []*cobra.Command {
	a := &commands{d}
	return []*cobra.Command{a.auditCommand(), a.verifyCommand(), a.watchCommand()}
}

func auditNoun() show.Noun[api.AuditRecord] {
	return show.NounOf[api.AuditRecord]("n", "n at actor from+ verb host object digest+ detail~", nil)
}

func (a *commands) auditCommand() *cobra.Command {
	return term.Group("audit", "Who did what, and proof that the log is unchanged", a.auditListCommand(), a.auditVerifyCommand(), a.auditExportCommand())
}

// auditPage is how many records one request asks for.
const auditPage = 1000

func (a *commands) auditListCommand() *cobra.Command {
	var since, until term.DurationFlag
	var after uint64
	query := make(map[string]*string)
	cmd := &cobra.Command{
		Use: "ls", Short: "List what was done and decided, the newest last", Args: term.NoArgs,
		Long: `Lists the newest records of the coordinator's audit log: each says who did what,
from where, about which host and object, and the digest of the bytes that it was
decided over. Whether they are as they were written, hostler audit verify tells.`,
		Example: "  hostler audit ls --since 2h\n  hostler audit ls --since 2d --until 1d\n  hostler audit ls --host edge-07 --verb action.request -o json\n  hostler audit ls --watch",
	}
	v := show.LimitedFlags(cmd, 100)
	cmd.Flags().Var(&since, "since", "only what happened no longer ago than this")
	cmd.Flags().Var(&until, "until", "only what happened longer ago than this")
	cmd.Flags().Uint64Var(&after, "after", 0, "begin behind the record with this number")
	for name, usage := range map[string]string{
		"host": "only what is about this host", "actor": "only what this one did: token:NAME, host:HOST or coordinator",
		"verb": "only records with this verb, such as host.approve", "object": "only what is about the object of this id",
	} {
		query[name] = cmd.Flags().String(name, "", usage)
	}
	cmd.RunE = a.OnCoordinator(func(cmd *cobra.Command, _ []string, r *conn.Remote) error {
		return show.Items(cmd.Context(), a.UI, v, auditNoun(), func(ctx context.Context) ([]api.AuditRecord, error) {
			q := url.Values{}
			for name, value := range query {
				if *value != "" {
					q.Set(name, *value)
				}
			}
			if since.Value > 0 {
				q.Set("since", a.Now().Add(-since.Value).UTC().Format(time.RFC3339))
			}
			if until.Value > 0 {
				q.Set("until", a.Now().Add(-until.Value).UTC().Format(time.RFC3339))
			}
			all, err := searchAudit(ctx, r, q, after, v.Limit)
			return all, term.Cannot("list the audit log", err)
		})
	})
	return cmd
}

// searchAudit asks until there are enough records, or no more.
func searchAudit(ctx context.Context, r *conn.Remote, q url.Values, after uint64, limit int) ([]api.AuditRecord, error) {
	var all []api.AuditRecord
	before := uint64(0)
	for limit == 0 || len(all) < limit {
		want := auditPage
		if limit > 0 {
			want = min(want, limit-len(all))
		}
		q.Set("limit", strconv.Itoa(want))
		if after > 0 {
			q.Set("after", strconv.FormatUint(after, 10))
		} else if before > 0 {
			q.Set("before", strconv.FormatUint(before, 10))
		}
		var page api.AuditPage
		if err := r.Get(ctx, "/v1/audit", q, &page); err != nil {
			return nil, err
		}
		rest := page.Rest
		switch n := len(page.Records); {
		case after > 0:
			all = append(all, page.Records...)
			if rest == 0 && n == want {
				rest = page.Records[n-1].N
			}
			after = rest
		default:
			all = append(page.Records, all...)
			if rest == 0 && n == want {
				rest = page.Records[0].N
			}
			before = rest
		}
		if rest == 0 {
			break
		}
	}
	return all, nil
}

func (a *commands) auditExportCommand() *cobra.Command {
	var since term.DurationFlag
	var host string
	cmd := &cobra.Command{
		Use: "export [FILE]", Short: "Write the audit log with its checkpoints, to be kept and verified", Args: term.AtMost(1),
		Long: `Writes the coordinator's audit log to a file, or to standard output: records as
they were written and checkpoints as they were signed, one to a line. Such a file
can be verified anywhere, by hostler audit verify or with sha256sum and gpg; the
protocol's documentation tells how.

With --host it is the host's own log, which the host signs when it is asked.`,
		Example: "  hostler audit export audit.jsonl\n  hostler audit export --since 30d | zstd > audit.jsonl.zst\n  hostler audit export --host edge-07 edge-07.jsonl",
	}
	cmd.Flags().Var(&since, "since", "begin with the checkpoint before what happened this long ago")
	cmd.Flags().StringVar(&host, "host", "", "the log of this host")
	cmd.RunE = a.OnCoordinator(func(cmd *cobra.Command, args []string, r *conn.Remote) error {
		if host != "" && since.Value > 0 {
			return term.Usage("", "--host and --since cannot be combined: a host exports all of its log")
		}
		export := func(ctx context.Context, w io.Writer) error {
			q := url.Values{}
			if since.Value > 0 {
				q.Set("since", a.Now().Add(-since.Value).UTC().Format(time.RFC3339))
			}
			return r.Lines(ctx, "/v1/audit/export", q, w)
		}
		what := "export the audit log"
		if host != "" {
			what += " of " + host
			export = func(ctx context.Context, w io.Writer) error { return a.exportHost(ctx, r, host, what, w) }
		}
		if !a.OutTTY || len(args) > 0 && args[0] != "-" {
			defer a.Tick(what, "").End()
		}
		if len(args) == 0 || args[0] == "-" {
			return term.Cannot(what, export(cmd.Context(), a.Out))
		}
		return term.Cannot(what+" to "+args[0], exportTo(cmd.Context(), args[0], export))
	})
	return cmd
}

// exportHost asks a host for its log, and passes it on.
func (a *commands) exportHost(ctx context.Context, r *conn.Remote, host, what string, w io.Writer) error {
	spec, err := dispatch.EncodeSpec(protocol.Spec{Kind: protocol.KindHostAudit, Args: &protocol.ExportArgs{OutputOption: protocol.OutputOption{Output: protocol.OutputStream}}})
	if err != nil {
		return err
	}
	act, err := a.Submit(ctx, r, protocol.HostID(host), spec)
	if err != nil {
		return term.Cannot(what, err)
	}
	final, err := (&dispatch.Follower{Dispatcher: a.Dispatcher, Remote: r, Label: host, Stdout: w, Stderr: a.Err, Hold: true, Whole: true}).Wait(ctx, act)
	if err != nil {
		a.Leave(act.ID)
		return err
	}
	return dispatch.Ended(what, final)
}

// exportTo writes an export to a file that is whole or not there.
func exportTo(ctx context.Context, path string, export func(context.Context, io.Writer) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".audit-*")
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, f.Close())
		if err == nil {
			err = os.Rename(f.Name(), path)
		}
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	if err := export(ctx, f); err != nil {
		return err
	}
	return f.Sync()
}
