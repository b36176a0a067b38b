// Package doctor looks for what keeps a fleet from working: hostler doctor, and hostler
// support-bundle for those who help.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/internal/buildinfo"
	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/dispatch"
	"github.com/hostler-io/hostler/internal/cli/show"
	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/protocol"
)

type commands struct{ *dispatch.Dispatcher }

func noun() show.Noun[finding] {
	return show.NounOf[finding]("check", "object check result cause~~ mend$", nil)
}

// Command returns hostler doctor.
func Command(d *dispatch.Dispatcher) *cobra.Command {
	a := &commands{d}
	var all bool
	cmd := &cobra.Command{
		Use: "doctor [HOST]", Short: "Look for what keeps the fleet or a host from working", Args: term.AtMost(1),
		Long: `Checks what this machine, the coordinator and the hosts tell: whether they can be reached
by certificates of the fleet, and have the same rings, versions and dates; which hosts are
away, quarantined or degraded, lack something (cgroups, LXC, podman), or run out of disk;
which policies are broken and which alerts are raised. The coordinator looks at its own
disk, certificate, database and broker. A host that is named looks for itself
as well, as hostler host check has it do. Of each fault it prints the cause and the command
that mends it; --all prints what is well too. With --local it looks at this host. The exit
code is 1 if a check has failed; warnings do not count.`,
		Example:           "  hostler doctor\n  hostler doctor edge-01 --all\n  hostler --local doctor\n  hostler doctor -o json",
		ValidArgsFunction: d.Completing(conn.HostNames),
	}
	v := show.ListFlags(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "print what is well, too")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var host protocol.HostID
		if len(args) == 1 {
			var err error
			if host, err = conn.ParseHost(args[0]); err != nil {
				return term.Usage("hostler host ls", "%s", err)
			}
		}
		return a.list(cmd.Context(), v, all, func(ctx context.Context) ([]finding, error) { return a.examine(ctx, host) })
	}
	return cmd
}

// list prints what checks have found, with all also what is well, and fails if one has
// failed.
func (a *commands) list(ctx context.Context, v *show.View, all bool, examine func(context.Context) ([]finding, error)) error {
	found := 0
	err := show.Items(ctx, a.UI, v, noun(), func(ctx context.Context) ([]finding, error) {
		defer a.Tick("checking", "").End()
		findings, err := examine(ctx)
		found = 0
		shown := []finding{}
		for _, f := range findings {
			if f.Result == api.FindingFailed {
				found++
			}
			if all || f.Result != api.FindingOK {
				shown = append(shown, f)
			}
		}
		if err == nil || len(findings) > 0 {
			a.Say("%s, %d failed", count(len(findings)), found)
		}
		return shown, err
	})
	if err == nil && found > 0 {
		err = term.Exit(term.ExitFailed)
	}
	return err
}

// count says how many checks there were.
func count(checks int) string {
	if checks == 1 {
		return "1 check"
	}
	return fmt.Sprintf("%d checks", checks)
}

// examine makes all checks, of one host or of all. A host that is named and connected
// looks for itself as well. It fails if it cannot ask for what is to be checked.
func (a *commands) examine(ctx context.Context, host protocol.HostID) ([]finding, error) {
	r, err := a.Connect()
	if err != nil {
		return nil, err
	}
	if r.Local {
		return a.examineThis(ctx, r)
	}
	here := report{object: "this machine"}
	var s api.Status
	asked := time.Now()
	err = term.Cannot("reach the coordinator", r.Get(ctx, "/v1/status", nil, &s))
	if failure, bad := errors.AsType[*term.Failure](err); bad {
		here.check("coordinator", api.FindingFailed, failure.Why, failure.Next)
		return here.all, nil
	} else if err != nil {
		return nil, err
	}
	var offset time.Duration
	if !s.Now.IsZero() { // an older coordinator does not tell
		offset = asked.Add(time.Since(asked) / 2).Sub(s.Now)
	}
	here.check("coordinator", api.FindingFailed, "", "")
	ring, cause := a.ring(s.Fleet)
	here.check("rings", api.FindingFailed, cause, "hostler login CODE    # an admin makes the code: hostler token create NAME --role ROLE")
	found := append(here.all, examineFleet(s, offset, buildinfo.Version, ring)...)
	its, err := askCoordinator(ctx, r)
	if found = append(found, its...); err != nil {
		return found, term.Cannot("have the coordinator look at itself", err)
	}

	hosts, err := r.Hosts(ctx)
	if host != "" {
		one, e := r.Member(ctx, host)
		hosts, err = []api.Host{one.Host}, e
	}
	if err != nil {
		return found, term.Cannot("show the hosts", err)
	}
	for _, h := range hosts {
		found = append(found, examineHost(h, s, time.Now().Add(-offset))...)
		if host != "" && h.Connectivity == "online" && h.Quarantined == "" {
			its, err := a.ask(ctx, r, host)
			if err != nil {
				return found, err
			}
			found = append(found, its...)
		}
	}
	containers, err := r.Containers(ctx, host)
	return append(found, examineContainers(containers)...), term.Cannot("list the containers", err)
}

// askCoordinator has the coordinator look at itself. One of an older release cannot.
func askCoordinator(ctx context.Context, r *conn.Remote) (found []finding, err error) {
	var its []api.Finding
	err = r.Get(ctx, "/v1/check", nil, &its)
	if p, ok := errors.AsType[*api.Problem](err); ok && p.Status == http.StatusNotFound {
		return nil, nil
	}
	for _, f := range its {
		found = append(found, finding{"coordinator", f})
	}
	return found, err
}

// examineThis looks at this host alone.
func (a *commands) examineThis(ctx context.Context, r *conn.Remote) ([]finding, error) {
	var s api.AgentStatus
	if err := r.Get(ctx, "/status", nil, &s); err != nil {
		return nil, term.Cannot("reach the agent", err)
	}
	found := examineAgent(s, buildinfo.Version)
	its, err := a.ask(ctx, r, "")
	if err != nil {
		return found, err
	}
	containers, err := r.Containers(ctx, "")
	return slices.Concat(found, its, examineContainers(containers)), term.Cannot("list the containers", err)
}

// ring is the number of the newest ring that this machine keeps of a fleet, 0 if it keeps
// none, or why its rings are of no use.
func (a *commands) ring(fleet string) (number uint64, cause string) {
	f, err := a.FleetFiles(fleet)
	if err != nil {
		return 0, err.Error()
	}
	chain, err := f.Load()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return 0, ""
	case err != nil:
		return 0, fmt.Sprintf("they cannot be used: %s", err)
	}
	return chain.Ring().Number, ""
}
