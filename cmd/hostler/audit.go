package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/internal/durable"
)

func auditNoun() noun[api.AuditRecord] {
	return noun[api.AuditRecord]{
		name: func(r api.AuditRecord) string { return strconv.FormatUint(r.N, 10) },
		columns: []column[api.AuditRecord]{
			{"n", inTable, func(r api.AuditRecord) any { return r.N }},
			{"at", inTable, func(r api.AuditRecord) any { return r.At }},
			{"actor", inTable, func(r api.AuditRecord) any { return r.Actor }},
			{"from", inWide, func(r api.AuditRecord) any { return r.From }},
			{"verb", inTable, func(r api.AuditRecord) any { return r.Verb }},
			{"host", inTable, func(r api.AuditRecord) any { return r.Host }},
			{"object", inTable, func(r api.AuditRecord) any { return r.Object }},
			{"digest", inWide, func(r api.AuditRecord) any { return r.Digest }},
			{"detail", inTable, func(r api.AuditRecord) any {
				if len(r.Detail) == 0 {
					return ""
				}
				b, err := encode(r.Detail, false)
				if err != nil {
					return err.Error()
				}
				return string(b[:len(b)-1])
			}},
		},
	}
}

func (a *app) auditCommand() *cobra.Command {
	return group("audit", "Who did what, and proof that nobody changed it", a.auditListCommand(), a.auditVerifyCommand(), a.auditExportCommand())
}

// auditPage is how many records one request asks for.
const auditPage = 1000

func (a *app) auditListCommand() *cobra.Command {
	var since durationFlag
	var after uint64
	query := make(map[string]*string)
	cmd := &cobra.Command{
		Use: "ls", Short: "List what was done and decided, the newest last", Args: noArgs,
		Long: `Lists the newest records of the coordinator's audit log: each says who did what,
from where, about which host and object, and the digest of the bytes that it was
decided over. Whether they are as they were written, hostler audit verify tells.`,
		Example: "  hostler audit ls --since 2h\n  hostler audit ls --host edge-07 --verb action.request -o json\n  hostler audit ls --watch",
	}
	v := limitedFlags(cmd, 100)
	cmd.Flags().Var(&since, "since", "only what happened no longer ago than this")
	cmd.Flags().Uint64Var(&after, "after", 0, "begin behind the record with this number")
	for name, usage := range map[string]string{
		"host": "only what is about this host", "actor": "only what this one did: token:NAME, host:HOST or coordinator",
		"verb": "only records with this verb, such as host.approve", "object": "only what is about the object of this id",
	} {
		query[name] = cmd.Flags().String(name, "", usage)
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		r, err := a.coordinator()
		if err != nil {
			return err
		}
		return show(cmd.Context(), a, v, auditNoun(), func(ctx context.Context) ([]api.AuditRecord, error) {
			q := url.Values{}
			for name, value := range query {
				if *value != "" {
					q.Set(name, *value)
				}
			}
			if since.d > 0 {
				q.Set("since", a.now().Add(-since.d).UTC().Format(time.RFC3339))
			}
			all, err := searchAudit(ctx, r, q, after, v.limit)
			return all, cannot("list the audit log", err)
		})
	}
	return cmd
}

// searchAudit asks until there are enough records, or no more.
func searchAudit(ctx context.Context, r *remote, q url.Values, after uint64, limit int) ([]api.AuditRecord, error) {
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

func (a *app) auditExportCommand() *cobra.Command {
	var since durationFlag
	cmd := &cobra.Command{
		Use: "export [FILE]", Short: "Write the audit log with its checkpoints, to be kept and verified", Args: atMost(1),
		Long: `Writes the coordinator's audit log to a file, or to standard output: records as
they were written and checkpoints as they were signed, one to a line. Such a file
can be verified anywhere, by hostler audit verify or with sha256sum and gpg; the
protocol's documentation tells how.`,
		Example: "  hostler audit export audit.jsonl\n  hostler audit export --since 30d | zstd > audit.jsonl.zst",
	}
	cmd.Flags().Var(&since, "since", "begin with the checkpoint before what happened this long ago")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		r, err := a.coordinator()
		if err != nil {
			return err
		}
		q := url.Values{}
		if since.d > 0 {
			q.Set("since", a.now().Add(-since.d).UTC().Format(time.RFC3339))
		}
		if len(args) == 0 || args[0] == "-" {
			return cannot("export the audit log", r.Lines(cmd.Context(), "/v1/audit/export", q, a.out))
		}
		return cannot("export the audit log to "+args[0], exportTo(cmd.Context(), r, q, args[0]))
	}
	return cmd
}

// exportTo writes an export to a file that is whole or not there.
func exportTo(ctx context.Context, r *remote, q url.Values, path string) (err error) {
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
	if err := r.Lines(ctx, "/v1/audit/export", q, f); err != nil {
		return err
	}
	return f.Sync()
}

// lastCheckpoint is the path of the newest checkpoint that this machine has
// verified of the coordinator's log.
func (f fleetFiles) lastCheckpoint() string { return filepath.Join(f.dir, "checkpoint") }

// keptCheckpoint returns that checkpoint; empty before the first.
func (f fleetFiles) keptCheckpoint() ([]byte, error) {
	b, err := readSmall(f.lastCheckpoint())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return bytes.TrimSpace(b), err
}

func (f fleetFiles) keepCheckpoint(envelope []byte) error {
	return durable.WriteFile(f.lastCheckpoint(), append(bytes.Clone(envelope), '\n'), 0o600)
}

// firstLine copies what is read on and keeps its first line.
type firstLine struct {
	r    io.Reader
	line []byte
	done bool
}

func (f *firstLine) Read(p []byte) (int, error) {
	n, err := f.r.Read(p)
	if !f.done {
		line, _, found := bytes.Cut(p[:n], []byte("\n"))
		f.line = append(f.line, line...)
		f.done = found || len(f.line) > maxFile
	}
	return n, err
}
