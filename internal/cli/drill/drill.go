// Package drill is hostler drill: it has a host make a fault that ends by itself, watches
// what the fleet does, and holds that against what was promised.
package drill

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
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

// Command returns hostler drill.
func Command(d *dispatch.Dispatcher) *cobra.Command {
	a := &commands{d}
	return term.Group("drill", "Make a fault that ends by itself, and see what it does",
		a.faultCommand(protocol.FaultPartition, "Cut a host off from its coordinator for a time",
			`Has the agent of a host close its connections to the coordinator, and make none until the
time of --for is over. No packet filter is touched, so the connections of containers stay.`),
		a.faultCommand(protocol.FaultStopAgent, "Stop the agent of a host for a time",
			`Has the agent of a host stop itself by SIGSTOP. Two processes that wait for the end, each
alone enough, let it go on. Where systemd watches the agent (WatchdogSec), it kills the
stopped agent within two minutes and starts another one: a longer drill ends then.`))
}

const common = `

The drill ends by itself, whatever becomes of this command, of the agent and of the
coordinator; an agent that is started again ends it too. Containers that promise to stop
when their host is cut off do stop, and unique ones start on other hosts.

What was promised before is held against what was seen: whether the host came back, which
containers went on or ended, where unique ones were held, and which alerts stay. The exit
code is 1 if something was not as promised. Drills are for admins, and need the approvals
that the policies want. Containers are looked at when the drill is asked for, so one that
starts anew before it is approved counts as not as promised.`

func (a *commands) faultCommand(fault protocol.Fault, short, long string) *cobra.Command {
	var lasts term.DurationFlag
	var yes bool
	cmd := &cobra.Command{
		Use: string(fault) + " HOST --for DURATION", Short: short, Args: term.Exactly(1), Long: long + common,
		Example: fmt.Sprintf("  hostler drill %s edge-01 --for 2m\n  hostler drill %[1]s edge-01 --for 5m --yes -o json", fault), ValidArgsFunction: a.Completing(conn.HostNames),
	}
	cmd.Flags().Var(&lasts, "for", fmt.Sprintf("how long it lasts: %s to %s", "10s", "15m"))
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	change := dispatch.ChangeFlags(cmd)
	change.View.One = false // it prints rows
	cmd.RunE = a.OnCoordinator(func(cmd *cobra.Command, args []string, r *conn.Remote) error {
		host, err := conn.ParseHost(args[0])
		switch {
		case err != nil:
			return term.Usage("hostler host ls", "%s", err)
		case lasts.Value < protocol.MinDrill || lasts.Value > protocol.MaxDrill:
			return term.Usage("hostler drill "+string(fault)+" "+args[0]+" --for 2m", "--for: a drill lasts 10s to 15m")
		}
		d := &drill{commands: a, r: r, host: host, what: fmt.Sprintf("make a drill on %s", host), plan: plan{host: string(host), fault: fault, lasts: lasts.Value}}
		return d.run(cmd.Context(), change, yes)
	})
	return cmd
}

// drill is one of them.
type drill struct {
	*commands
	r     *conn.Remote
	host  protocol.HostID
	what  string // for errors
	plan  plan
	sight sight
	// before are the alerts that were there before.
	before []string
}

func (d *drill) run(ctx context.Context, change *dispatch.Change, yes bool) error {
	spec, err := dispatch.EncodeSpec(protocol.Spec{Kind: protocol.KindHostDrill, Args: &protocol.DrillArgs{Fault: d.plan.fault, ForMS: d.plan.lasts.Milliseconds()}})
	switch {
	case err != nil:
		return err
	case change.DryRun:
		return d.DryRun(ctx, d.r, change.View, dispatch.OnHosts(spec, d.host)...)
	}
	if err := d.lookBefore(ctx); err != nil {
		return term.Cannot(d.what, err)
	}
	d.sayPromises()
	if err := d.Confirm(yes, fmt.Sprintf("Have host %s do that?", d.host)); err != nil {
		return err
	}
	act, err := d.Submit(ctx, d.r, d.host, spec)
	switch {
	case err != nil:
		return term.Cannot(d.what, err)
	case change.NoWait:
		return d.PrintID(change.View, act)
	}
	final, err := (&dispatch.Follower{Dispatcher: d.Dispatcher, Remote: d.r, Label: string(d.host)}).Await(ctx, act)
	if err != nil {
		d.Leave(act.ID)
		return term.Cannot(d.what, err)
	}
	if err := dispatch.Ended(d.what, final); err != nil {
		return err
	}
	d.Say("%s: %s", d.host, term.Printable(final.Detail))
	d.sight.begins = d.Now().Add(protocol.DrillNotice)
	d.sight.ends = d.sight.begins.Add(d.plan.lasts)
	if err := d.follow(ctx); err != nil {
		d.Say("hostler: the drill ends by itself at %s, without this command", d.sight.ends.UTC().Format(time.RFC3339))
		return term.Cannot("watch the drill", err)
	}
	return d.report(change.View)
}

func (d *drill) report(v *show.View) error {
	rows := judge(d.plan, d.sight)
	if err := show.Print(d.UI, v, rowNoun(), rows); err != nil {
		return err
	}
	if n := faults(rows); n > 0 {
		return &term.Failure{Code: term.ExitFailed, What: fmt.Sprintf("%d of %d lines are not as promised", n, len(rows)), Why: "the table says which", Next: "hostler host events " + string(d.host)}
	}
	return nil
}

func rowNoun() show.Noun[Row] { return show.NounOf[Row]("what", "what promised seen verdict", nil) }

// lookBefore notes what there is, while the host can be asked.
func (d *drill) lookBefore(ctx context.Context) error {
	h, err := d.r.Member(ctx, d.host)
	switch {
	case err != nil:
		return err
	case h.Connectivity != "online":
		return &term.Failure{Code: term.ExitUnreachable, What: fmt.Sprintf("host %s is %s", d.host, term.Printable(h.Connectivity)), Why: "a drill shows nothing of a host that is away already", Next: "hostler host show " + string(d.host)}
	}
	if _, err := d.ping(ctx); err != nil { // nor may one wait for approvals later
		return err
	}
	var forecasts []api.OfflineForecast
	path := "/v1/hosts/" + url.PathEscape(string(d.host)) + "/offline-preview"
	if err := d.r.Get(ctx, path, url.Values{"for": {d.plan.lasts.String()}}, &forecasts); err != nil {
		return err
	}
	all, err := d.r.Containers(ctx, d.host)
	if err != nil {
		return err
	}
	leases, err := d.held(ctx)
	if err != nil {
		return err
	}
	d.sight.leases = map[string]time.Duration{}
	for _, f := range forecasts {
		i := slices.IndexFunc(all, func(c api.Container) bool { return c.Name == f.Name && c.CTID != "" })
		if i < 0 {
			continue
		}
		c := container{name: f.Name, ctid: all[i].CTID, forecast: f}
		if c.run, _, err = d.runOf(ctx, c); err != nil {
			return err
		}
		if l, ok := leases[c.ctid]; ok && l.Host == string(d.host) {
			c.lease, d.sight.leases[c.ctid] = &l, time.Duration(l.LeftMS)*time.Millisecond
		}
		d.plan.containers = append(d.plan.containers, c)
	}
	d.before, err = d.alerts(ctx)
	return err
}

func (d *drill) sayPromises() {
	d.Say("%s: %s", d.host, hostPromise(d.plan))
	for _, c := range d.plan.containers {
		d.Say("%s: %s", term.Printable(c.name), promise(d.plan, c, d.sight.leases).text)
	}
}

// held are the leases of unique containers, by their ids.
func (d *drill) held(ctx context.Context) (map[string]api.Lease, error) {
	all, err := d.r.Leases(ctx)
	leases := make(map[string]api.Lease, len(all))
	for _, l := range all {
		leases[l.CTID] = l
	}
	return leases, err
}

// alerts are the ids of those that are raised on the host.
func (d *drill) alerts(ctx context.Context) ([]string, error) {
	all, err := d.r.Alerts(ctx, nil)
	all = slices.DeleteFunc(all, func(a api.RaisedAlert) bool { return a.Host != string(d.host) })
	return conn.Each(all, func(a api.RaisedAlert) string { return a.ID }), err
}

const (
	// maxDetails bounds what a host may tell of one container, in bytes.
	maxDetails = 1 << 20
	// askFor is how long it may take to do so.
	askFor = time.Minute
)

// runOf asks the host which run of a container there is, and how runs have ended.
func (d *drill) runOf(ctx context.Context, c container) (run, []api.ContainerEnd, error) {
	id, err := protocol.ParseCTID(c.ctid)
	if err != nil {
		return run{}, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	b, err := d.Ask(ctx, d.r, d.host, string(d.host)+"/"+c.name, "ask about "+c.name, maxDetails,
		protocol.Spec{Kind: protocol.KindInspect, Target: id, Name: protocol.ContainerName(c.name), Args: new(protocol.ExportArgs)})
	if err != nil {
		return run{}, nil, err
	}
	var details api.ContainerDetails
	if json.Unmarshal(b, &details) != nil {
		return run{}, nil, dispatch.ErrAnswer
	}
	found := run{pid: details.InitPID}
	if len(details.Ends) > 0 {
		found.ended = details.Ends[0].At // the newest first
	}
	return found, details.Ends, nil
}
