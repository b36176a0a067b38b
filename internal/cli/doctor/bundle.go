package doctor

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/internal/buildinfo"
	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/dispatch"
	"github.com/hostler-io/hostler/internal/cli/term"
)

// bundleFile is a file of a bundle.
type bundleFile struct {
	name, holds string
	asks        bool // it needs an answer of the other end
	read        func(context.Context, *conn.Remote) (any, error)
}

// parts are those of a bundle of a fleet. Only what is named here is in it.
func (a *commands) parts() []bundleFile {
	return []bundleFile{
		ofProgram,
		{"machine.json", "the contexts of this machine, without tokens, and its rings", false, func(context.Context, *conn.Remote) (any, error) { return a.machine() }},
		{"findings.json", "what hostler doctor finds", false, func(ctx context.Context, _ *conn.Remote) (any, error) { return a.examine(ctx, "") }},
		{"status.json", "counts of the fleet", true, get("/v1/status")},
		{"hosts.json", "all hosts, with addresses, labels and alerts", true, func(ctx context.Context, r *conn.Remote) (any, error) { return r.Hosts(ctx) }},
		{"enrolments.json", "hosts that wait for approval, and those that were denied", true, func(ctx context.Context, r *conn.Remote) (any, error) { return r.Enrolments(ctx) }},
		{"containers.json", "all containers, with addresses and labels", true, func(ctx context.Context, r *conn.Remote) (any, error) { return r.Containers(ctx, "") }},
		{"actions.json", "the newest 1000 actions, without arguments, details and output", true, readActions},
		{"audit.json", "the newest 1000 records of the audit log, without details", true, readAudit},
		{"metrics.txt", "the metrics of the coordinator", true, text("/metrics")},
	}
}

// ofHost are those of a bundle of this host.
func (a *commands) ofHost() []bundleFile {
	return []bundleFile{
		ofProgram,
		{"status.json", "what the agent tells of itself", true, get("/status")},
		{"check.json", "what hostler-agent check finds", true, get("/v1/check")},
		{"config.txt", "the settings in force, and where each comes from", true, support("config")},
		{"fsck.txt", "what hostler-agent fsck finds", true, support("fsck")},
		{"containers.json", "the containers of this host", true, func(ctx context.Context, r *conn.Remote) (any, error) { return r.Containers(ctx, "") }},
		{"actions.json", "the actions of this host, without arguments, details and output", true, readActions},
		{"metrics.txt", "the metrics of the agent", true, text("/metrics")},
		{"log.txt", "the last 2000 lines that systemd keeps of the agent", false, func(ctx context.Context, _ *conn.Remote) (any, error) {
			return exec.CommandContext(ctx, "journalctl", "--unit", "hostler-agent", "--lines", "2000", "--no-pager", "--output", "short-iso").Output()
		}},
	}
}

var ofProgram = bundleFile{"version.json", "the version of this program", false, func(context.Context, *conn.Remote) (any, error) {
	return map[string]string{"version": buildinfo.String()}, nil
}}

// get reads JSON of the other end.
func get(path string) func(context.Context, *conn.Remote) (any, error) {
	return func(ctx context.Context, r *conn.Remote) (any, error) {
		var v any
		return &v, r.Get(ctx, path, nil, &v)
	}
}

// text reads a text of the other end.
func text(path string) func(context.Context, *conn.Remote) (any, error) {
	return func(ctx context.Context, r *conn.Remote) (any, error) {
		var b []byte
		err := r.Get(ctx, path, nil, &b)
		return b, err
	}
}

// support reads one of the agent's texts for those who help.
func support(name string) func(context.Context, *conn.Remote) (any, error) {
	return func(ctx context.Context, r *conn.Remote) (any, error) {
		var v api.SupportText
		err := r.Get(ctx, "/v1/support/"+name, nil, &v)
		return v.Text, err
	}
}

// machine is what this machine keeps of its fleets.
func (a *commands) machine() (any, error) {
	type place struct {
		Address string `json:"address"`
		Fleet   string `json:"fleet,omitempty"`
		Ring    uint64 `json:"ring,omitempty"`
		Problem string `json:"problem,omitempty"`
	}
	c, err := a.LoadConfig()
	if err != nil {
		return nil, err
	}
	all := make(map[string]place)
	for name, t := range c.Contexts {
		p := place{Address: t.Address, Fleet: t.Fleet}
		if t.Fleet != "" {
			p.Ring, p.Problem = a.ring(t.Fleet)
		}
		all[name] = p
	}
	return all, nil
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

// Bundle returns hostler support-bundle.
func Bundle(d *dispatch.Dispatcher) *cobra.Command {
	a := &commands{d}
	var yes bool
	cmd := &cobra.Command{
		Use: "support-bundle FILE", Short: "Collect what support needs to see, without secrets", Args: term.Exactly(1),
		Long: `Writes a .tar.gz of what this program can read of the fleet, or with --local of this
host: its agent's settings with where each comes from, what hostler-agent check and fsck
find, and its log. It lists what the file will hold, and asks before it writes. Arguments,
details and output of actions are left out. What has the form of a token, a code or a
private key, what is named a password, token or secret, and what stands before the @ of an
address is taken out. If the coordinator or the agent does not answer, the bundle holds what
can be had without it, and says so.`,
		Example: "  hostler support-bundle fleet.tar.gz\n  hostler --local support-bundle edge-01.tar.gz",
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	cmd.RunE = a.OnRemote(func(cmd *cobra.Command, args []string, r *conn.Remote) error {
		parts := a.parts()
		if r.Local {
			parts = a.ofHost()
		}
		lines := conn.Each(parts, func(p bundleFile) string { return fmt.Sprintf("  %-16s %s", p.name, p.holds) })
		a.Say("%s will hold\n%s", args[0], strings.Join(lines, "\n"))
		if err := a.Confirm(yes, "Write it?"); err != nil {
			return err
		}
		b, err := a.collect(cmd.Context(), r, parts)
		if err != nil {
			return term.Cannot("collect what the bundle holds", err)
		}
		f, err := os.OpenFile(args[0], os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return term.Cannot("write the bundle", err)
		}
		_, err = f.Write(b)
		if err = errors.Join(err, f.Close()); err != nil {
			err = errors.Join(err, os.Remove(args[0])) // half a bundle would pass for one
		}
		return term.Cannot("write the bundle", err)
	})
	return cmd
}

// collect reads all parts. Of one that cannot be read it holds the reason. An end that
// does not answer is asked once.
func (a *commands) collect(ctx context.Context, r *conn.Remote, parts []bundleFile) ([]byte, error) {
	tick := a.Tick("collecting", "")
	defer tick.End()
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	archive := tar.NewWriter(zip)
	whose, first := "the coordinator", "/v1/status"
	if r.Local {
		whose, first = "the agent", "/status"
	}
	away := r.Get(ctx, first, nil, new(any))
	if away != nil && ctx.Err() == nil {
		a.Say("%s does not answer: %s; the bundle holds what can be had without it", whose, redact(away.Error()))
	}
	for _, p := range parts {
		tick.Tell(p.name)
		var v any
		err := away
		if !p.asks || away == nil {
			v, err = p.read(ctx, r)
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			v = map[string]string{"error": err.Error()}
		}
		b, err := encode(v)
		if err != nil {
			return nil, err
		}
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
