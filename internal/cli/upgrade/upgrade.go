// Package upgrade is hostler host upgrade: it brings another release of the agent to
// many hosts, wave by wave, and stops at the first wave in which a host did not take it.
package upgrade

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/internal/cli/batch"
	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/dispatch"
	"github.com/hostler-io/hostler/internal/cli/show"
	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/internal/release"
	"github.com/hostler-io/hostler/protocol"
)

type commands struct{ *batch.Batcher }

// options are what the user has said.
type options struct {
	labels    conn.Selector
	all       bool
	packages  []string
	batch     string
	canaries  []string
	probation term.DurationFlag
	dryRun    bool
	view      *show.View
}

// Command returns hostler host upgrade.
func Command(b *batch.Batcher) *cobra.Command {
	a := &commands{b}
	o := &options{}
	cmd := &cobra.Command{
		Use: "upgrade {HOST… | -l SELECTOR | -A} --package FILE…", Short: "Upgrade the agents of hosts by signed packages",
		Long: `Brings packages to hosts, which verify their signatures against the release keys of
the ring: hostler fleet ring add-release-key. The signature of FILE is FILE.sig or
FILE.asc; gpg --detach-sign and hostler key sign make one. Hosts with LXC need the
package hostler-agent-lxc too. In a fleet of several architectures name the packages
of each, and in one of Debian and Fedora both the deb and the rpm packages: each host
takes its own.

Each host tries the new agent beside the old one. When the coordinator has answered
it, its programs are put in place; else the old one goes on, with its state as it
was. While the coordinator is away the host decides nothing, and tries again when it
is back. Commands and containers run on.

Hosts are upgraded in waves: the canaries, then --batch of the others at a time. A
wave in which a host fails, or stays away, halts the rest. Hosts that are offline
are asked last, and follow when they come, --batch at a time as well: the coordinator
sees to it, and cancels the rest when one fails. To go on after a halt, say the same
again: hosts that have the version are left out.`,
		Example: `  hostler host upgrade edge-01 --package hostler-agent_0.2.0_amd64.deb
  hostler host upgrade -l site=lab --package agent.deb --package agent-lxc.deb \
      --canary edge-01 --batch 10%`,
		ValidArgsFunction: b.Completing(conn.HostNames),
	}
	f := cmd.Flags()
	f.VarP(&o.labels, "selector", "l", "all approved hosts selected by labels")
	f.BoolVarP(&o.all, "all", "A", false, "all approved hosts")
	f.StringArrayVar(&o.packages, "package", nil, "a package (repeat for more)")
	f.StringVar(&o.batch, "batch", "10%", "how many hosts at a time: a number, or a part of all")
	f.StringArrayVar(&o.canaries, "canary", nil, "a host of the first wave (repeat for more)")
	f.Var(&o.probation, "probation", "how long a new agent has to be answered (default 1m)")
	f.BoolVar(&o.dryRun, "dry-run", false, "show the waves and do nothing")
	o.view = show.FormatFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return a.upgrade(cmd.Context(), o, args) }
	return cmd
}

func (a *commands) upgrade(ctx context.Context, o *options, named []string) error {
	s, err := parseSize(o.batch)
	switch {
	case err != nil:
		return term.Usage("hostler host upgrade --batch 10%", "--batch: %s", err)
	case len(o.packages) == 0:
		return term.Usage("hostler host upgrade HOST --package FILE", "no package is named")
	case len(named) > 0 && (o.all || len(o.labels.Terms) > 0) || o.all && len(o.labels.Terms) > 0:
		return term.Usage("", "use host names, -l or -A; they cannot be combined")
	}
	p, err := openPackages(o.packages)
	if err != nil {
		return err
	}
	defer p.close()
	r, err := a.Coordinator()
	if err != nil {
		return err
	}
	hosts, err := a.choose(ctx, r, o, named)
	if err != nil {
		return err
	}
	w := planWaves(hosts, p.version, o.canaries, s)
	if err := a.say(w, p, o.canaries, o.dryRun); err != nil || o.dryRun {
		return err
	}
	return a.roll(ctx, r, o, p, w)
}

// choose returns the hosts that are meant, sorted by their ids. Every canary is one of
// them.
func (a *commands) choose(ctx context.Context, r *conn.Remote, o *options, named []string) ([]api.Host, error) {
	found, err := r.Hosts(ctx)
	if err != nil {
		return nil, term.Cannot("list the hosts", err)
	}
	selected := o.all || len(o.labels.Terms) > 0
	if !selected && len(named) == 0 {
		named = o.canaries
	}
	var all []api.Host
	for _, h := range found {
		if h.State == conn.EnrolmentApproved && (selected && o.labels.Match(h.Labels) || slices.Contains(named, h.ID)) {
			all = append(all, h)
		}
	}
	for _, name := range slices.Concat(named, o.canaries) {
		if !slices.ContainsFunc(all, func(h api.Host) bool { return h.ID == name }) {
			return nil, &term.Failure{Code: term.ExitNotFound, What: fmt.Sprintf("host %q is not among the approved hosts that are selected", name), Next: "hostler host ls"}
		}
	}
	if len(all) == 0 {
		return nil, &term.Failure{Code: term.ExitNotFound, What: "no host is selected", Next: "hostler host ls"}
	}
	slices.SortFunc(all, func(x, y api.Host) int { return strings.Compare(x.ID, y.ID) })
	return all, nil
}

// say tells the plan, and refuses one in which a host would get no package, or a
// canary is not there.
func (a *commands) say(w plan, p *packages, canaries []string, dry bool) error {
	for _, h := range slices.Concat(append(w.waves, w.away)...) {
		if _, ok := p.archOf(h); !ok {
			return &term.Failure{
				Code: term.ExitUsage, What: fmt.Sprintf("host %s is %s, and the packages are for %s", h.ID, term.Printable(h.Arch), strings.Join(slices.Sorted(maps.Keys(p.parts)), ", ")),
				Next: "add --package FILE for that architecture",
			}
		}
	}
	tell := a.Say
	if dry {
		tell = func(format string, args ...any) { fmt.Fprintf(a.Out, format+"\n", args...) }
	}
	for _, h := range w.away {
		if slices.Contains(canaries, h.ID) {
			return &term.Failure{Code: term.ExitUnreachable, What: fmt.Sprintf("canary %s is %s, so nothing would be tried on it", h.ID, term.Printable(h.Connectivity)), Next: "choose another --canary"}
		}
	}
	for i, wave := range w.waves {
		tell("wave %d of %d to version %s: %s", i+1, len(w.waves), p.version, names(wave))
	}
	if len(w.away) > 0 {
		tell("offline, and upgraded when they come, %d at a time: %s", w.together, names(w.away))
	}
	if len(w.have) > 0 {
		tell("at version %s or newer already: %s", p.version, names(w.have))
	}
	return nil
}

// maxNamed is how many hosts are named in a line.
const maxNamed = 10

func names(hosts []api.Host) string {
	ids := conn.Each(hosts, func(h api.Host) string { return term.Printable(h.ID) })
	if more := len(ids) - maxNamed; more > 0 {
		ids = append(ids[:maxNamed], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(ids, ", ")
}

// archOf is the architecture whose packages a host gets. One that has told nothing of
// itself gets the only ones that there are.
func (p *packages) archOf(h api.Host) (string, bool) {
	arch := release.Arch(h.Arch)
	if h.Arch == "" && len(p.parts) == 1 {
		for arch = range p.parts {
			return arch, true
		}
	}
	_, ok := p.parts[arch]
	return arch, ok
}

// Patience of the driver beside the probation: what a host needs to come back.
const comeBack = time.Minute

// verb is what completes "cannot …".
const verb = "upgrade"

// roll sends the packages and asks wave after wave.
func (a *commands) roll(ctx context.Context, r *conn.Remote, o *options, p *packages, w plan) error {
	specs := map[string][]byte{}
	for _, h := range slices.Concat(append(w.waves, w.away)...) {
		arch, _ := p.archOf(h)
		if specs[arch] != nil {
			continue
		}
		spec, err := a.send(ctx, r, o, p, arch)
		if err != nil {
			return err
		}
		specs[arch] = spec
	}
	places := func(hosts []api.Host) []dispatch.Target {
		return conn.Each(hosts, func(h api.Host) dispatch.Target {
			arch, _ := p.archOf(h)
			return dispatch.Target{Label: h.ID, Host: protocol.HostID(h.ID), Spec: specs[arch]}
		})
	}
	probation := protocol.DefaultProbation
	if o.probation.Value > 0 {
		probation = o.probation.Value
	}
	for i, wave := range w.waves {
		err := a.Wave(ctx, r, o.view, verb, 3*probation+comeBack, places(wave))
		if err == nil {
			continue
		}
		if left := len(slices.Concat(w.waves[i+1:]...)) + len(w.away); left > 0 && !errors.Is(err, term.ErrInterrupted) {
			a.Say("hostler: wave %d of %d did not succeed, so %d more hosts were not asked. To go on, say the same again", i+1, len(w.waves), left)
		}
		return err
	}
	if len(w.away) == 0 {
		return nil
	}
	return a.Turns(ctx, r, o.view, verb, w.together, places(w.away))
}

// send brings the packages of an architecture to the coordinator, and returns the spec
// that names them.
func (a *commands) send(ctx context.Context, r *conn.Remote, o *options, p *packages, arch string) ([]byte, error) {
	payload, err := p.bundle(a.UI, arch)
	if err != nil {
		return nil, err
	}
	defer payload.Close()
	s := protocol.Spec{Kind: protocol.KindHostUpgrade, Args: &protocol.UpgradeArgs{Version: p.version, ProbationMS: o.probation.Value.Milliseconds()}}
	payload.Describe(&s)
	spec, err := dispatch.EncodeSpec(s)
	if err != nil {
		return nil, err
	}
	return spec, payload.Send(ctx, a.Dispatcher, r, "send the packages")
}
