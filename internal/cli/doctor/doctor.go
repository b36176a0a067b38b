// Package doctor looks for what keeps a fleet from working: hostler doctor, and hostler
// support-bundle for those who help.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/internal/buildinfo"
	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/show"
	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/protocol"
)

type commands struct{ *conn.Env }

func noun() show.Noun[finding] {
	return show.NounOf[finding]("check", "object check result cause mend", nil)
}

// Command returns hostler doctor.
func Command(env *conn.Env) *cobra.Command {
	a := &commands{env}
	var all bool
	cmd := &cobra.Command{
		Use: "doctor [HOST]", Short: "Look for what keeps the fleet or a host from working", Args: term.AtMost(1),
		Long: `Checks what this machine, the coordinator and the hosts tell: whether they can be reached
by certificates of the fleet, and have the same rings, versions and dates; which hosts are
away, quarantined or degraded, lack something (cgroups, LXC, podman), or run out of disk;
which policies are broken and which alerts are raised. Of each fault it prints the cause and
the command that mends it; --all prints what is well too. With --local it looks at the agent
of this host; hostler-agent fsck, on the host, looks for what a crash has left. The exit
code is 1 if a check has failed; warnings do not count.`,
		Example:           "  hostler doctor\n  hostler doctor edge-01 --all\n  hostler --local doctor\n  hostler doctor -o json",
		ValidArgsFunction: env.Completing(conn.HostNames),
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
		found := 0
		err := show.Items(cmd.Context(), a.UI, v, noun(), func(ctx context.Context) ([]finding, error) {
			findings, err := a.examine(ctx, host)
			found = 0
			shown := []finding{}
			for _, f := range findings {
				if f.Result == failed {
					found++
				}
				if all || f.Result != ok {
					shown = append(shown, f)
				}
			}
			if err == nil || len(findings) > 0 {
				a.Say("%d checks, %d failed", len(findings), found)
			}
			return shown, err
		})
		if err == nil && found > 0 {
			err = term.Exit(term.ExitFailed)
		}
		return err
	}
	return cmd
}

// examine makes all checks, of one host or of all. It fails if it cannot ask for what
// is to be checked.
func (a *commands) examine(ctx context.Context, host protocol.HostID) ([]finding, error) {
	r, err := a.Connect()
	if err != nil {
		return nil, err
	}
	if r.Local {
		return examineThis(ctx, r)
	}
	here := report{object: "this machine"}
	var s api.Status
	asked := time.Now()
	err = term.Cannot("reach the coordinator", r.Get(ctx, "/v1/status", nil, &s))
	if failure, bad := errors.AsType[*term.Failure](err); bad {
		here.check("coordinator", failed, failure.Why, failure.Next)
		return here.all, nil
	} else if err != nil {
		return nil, err
	}
	var offset time.Duration
	if !s.Now.IsZero() { // an older coordinator does not tell
		offset = asked.Add(time.Since(asked) / 2).Sub(s.Now)
	}
	here.check("coordinator", failed, "", "")
	ring, cause := a.ring(s.Fleet)
	here.check("rings", failed, cause, "hostler login CODE    # an admin makes the code: hostler token create NAME --role ROLE")
	found := append(here.all, examineFleet(s, offset, buildinfo.Version, ring)...)

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
	}
	containers, err := r.Containers(ctx, host)
	return append(found, examineContainers(containers)...), term.Cannot("list the containers", err)
}

// examineThis looks at this host alone.
func examineThis(ctx context.Context, r *conn.Remote) ([]finding, error) {
	var s api.AgentStatus
	if err := r.Get(ctx, "/status", nil, &s); err != nil {
		return nil, term.Cannot("reach the agent", err)
	}
	containers, err := r.Containers(ctx, "")
	return append(examineAgent(s, buildinfo.Version), examineContainers(containers)...), term.Cannot("list the containers", err)
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
