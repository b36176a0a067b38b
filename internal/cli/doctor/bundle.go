package doctor

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/internal/buildinfo"
	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/dispatch"
	"github.com/hostler-io/hostler/internal/cli/term"
)

// part is a file of a bundle.
type part struct {
	name, holds string
	read        func(context.Context, *conn.Remote) (any, error)
}

// parts are all of them. Only what is named here is in a bundle.
func (a *commands) parts() []part {
	return []part{
		{"version.json", "the version of this program", func(context.Context, *conn.Remote) (any, error) { return buildinfo.String(), nil }},
		{"findings.json", "what hostler doctor finds", func(ctx context.Context, _ *conn.Remote) (any, error) { return a.examine(ctx, "") }},
		{"status.json", "counts of the fleet", func(ctx context.Context, r *conn.Remote) (any, error) {
			var s api.Status
			return &s, r.Get(ctx, "/v1/status", nil, &s)
		}},
		{"hosts.json", "all hosts, with addresses, labels and alerts", func(ctx context.Context, r *conn.Remote) (any, error) { return r.Hosts(ctx) }},
		{"containers.json", "all containers, with addresses and labels", func(ctx context.Context, r *conn.Remote) (any, error) { return r.Containers(ctx, "") }},
		{"actions.json", "the newest 1000 actions, without arguments, details and output", readActions},
		{"audit.json", "the newest 1000 records of the audit log, without details", readAudit},
		{"metrics.txt", "the metrics of the coordinator", func(ctx context.Context, r *conn.Remote) (any, error) {
			var b []byte
			err := r.Get(ctx, "/metrics", nil, &b)
			return b, err
		}},
	}
}

// readActions returns of actions what no person has typed.
func readActions(ctx context.Context, r *conn.Remote) (any, error) {
	var all []api.Action
	err := r.Get(ctx, "/v1/actions", url.Values{"limit": {"1000"}}, &all)
	return conn.Each(all, bare), err
}

// bare is an action without what may hold a secret.
func bare(a api.Action) api.Action {
	out := api.Action{
		ID: a.ID, Host: a.Host, Kind: a.Kind, Target: a.Target, State: a.State, Reason: a.Reason, Shown: a.Shown, Requester: a.Requester, Digest: a.Digest,
		Attempt: a.Attempt, AcceptSeq: a.AcceptSeq, Batch: a.Batch, Cancelling: a.Cancelling, Conflict: a.Conflict, Corrected: a.Corrected,
		CreatedAt: a.CreatedAt, UpdatedAt: a.UpdatedAt, EndedAt: a.EndedAt, ExpiresAt: a.ExpiresAt, SentAt: a.SentAt, ReceiptedAt: a.ReceiptedAt,
		HostAcceptedAt: a.HostAcceptedAt, HostStartedAt: a.HostStartedAt, HostEndedAt: a.HostEndedAt, Waits: a.Waits,
	}
	if x := a.Exit; x != nil {
		out.Exit = &api.Exit{Code: x.Code, Signal: x.Signal, OOM: x.OOM, TimedOut: x.TimedOut, Cancelled: x.Cancelled, HungUp: x.HungUp, Unrecorded: x.Unrecorded, Run: x.Run}
	}
	return out
}

func readAudit(ctx context.Context, r *conn.Remote) (any, error) {
	var page api.AuditPage
	err := r.Get(ctx, "/v1/audit", url.Values{"limit": {"1000"}}, &page)
	for i := range page.Records {
		page.Records[i].Detail = nil
	}
	return page, err
}

// secrets are forms of what must not leave: tokens, codes to join, log in and found a
// fleet with, and private keys. Names of people and machines are not secret.
var secrets = regexp.MustCompile(`\b(?:hst_[0-9A-Z]{8,}|h[a-z][0-9]_[0-9a-z]{20,})|-----BEGIN [A-Z ]*PRIVATE KEY[A-Z ]*-----[^-]*-----END [A-Z ]*PRIVATE KEY[A-Z ]*-----`)

// redact takes out whatever has the form of a secret, wherever it came from.
func redact(b []byte) []byte { return secrets.ReplaceAll(b, []byte("[redacted]")) }

// Bundle returns hostler support-bundle.
func Bundle(d *dispatch.Dispatcher) *cobra.Command {
	a := &commands{d}
	var yes bool
	cmd := &cobra.Command{
		Use: "support-bundle FILE", Short: "Collect what somebody who helps needs to see, without secrets", Args: term.Exactly(1),
		Long: `Writes a .tar.gz of what this program can read of the fleet. It lists what the file
will hold, and asks before it writes. Arguments, details and output of actions are left
out, and whatever has the form of a token, a code or a private key is taken out.`,
		Example: "  hostler support-bundle fleet.tar.gz",
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	cmd.RunE = a.OnCoordinator(func(cmd *cobra.Command, args []string, r *conn.Remote) error {
		lines := conn.Each(a.parts(), func(p part) string { return fmt.Sprintf("  %-16s %s", p.name, p.holds) })
		a.Say("%s will hold\n%s", args[0], strings.Join(lines, "\n"))
		if err := a.Confirm(yes, "Write it?"); err != nil {
			return err
		}
		b, err := a.collect(cmd.Context(), r)
		if err != nil {
			return term.Cannot("collect what the bundle holds", err)
		}
		f, err := os.OpenFile(args[0], os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return term.Cannot("write the bundle", err)
		}
		_, err = f.Write(b)
		if e := f.Close(); err == nil {
			err = e
		}
		return term.Cannot("write the bundle", err)
	})
	return cmd
}

// collect reads all parts. Of one that cannot be read it holds the reason.
func (a *commands) collect(ctx context.Context, r *conn.Remote) ([]byte, error) {
	tick := a.Tick("collecting", "")
	defer tick.End()
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	archive := tar.NewWriter(zip)
	for _, p := range a.parts() {
		tick.Tell(p.name)
		v, err := p.read(ctx, r)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			v = map[string]string{"error": err.Error()}
		}
		b, raw := v.([]byte)
		if !raw {
			if b, err = json.MarshalIndent(v, "", "  "); err != nil {
				return nil, err
			}
		}
		b = redact(b)
		if err := archive.WriteHeader(&tar.Header{Name: p.name, Mode: 0o600, Size: int64(len(b)), ModTime: time.Now()}); err != nil {
			return nil, err
		}
		if _, err := archive.Write(b); err != nil {
			return nil, err
		}
	}
	if err := archive.Close(); err != nil {
		return nil, err
	}
	err := zip.Close()
	return out.Bytes(), err
}
