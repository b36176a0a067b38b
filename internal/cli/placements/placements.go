// Package placements has the commands about where unique containers run: hostler
// placement, and hostler sim what-if.
package placements

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/show"
	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/protocol/limit"
)

type commands struct{ *conn.Env }

// Command returns hostler placement.
func Command(e *conn.Env) *cobra.Command {
	a := &commands{e}
	return term.Group("placement", "Where unique containers run: plan, show, set", a.planCommand(), a.showCommand(), a.setCommand())
}

// PlaceFlags adds the flags that say on which hosts a container may be.
func PlaceFlags(cmd *cobra.Command, p *api.Wishes) {
	cmd.Flags().StringVarP(&p.Selector, "selector", "l", "", "labels that its host must have, k=v, or must not have, k!=v; host=NAME names a host")
	cmd.Flags().StringArrayVar(&p.Prefer, "prefer", nil, "label that its host had better have, k=v or k=v:SCORE; may be repeated (score 100 if none is given)")
	cmd.Flags().StringArrayVar(&p.Avoid, "avoid", nil, "label that its host had better not have, k=v or k=v:SCORE; may be repeated")
	cmd.Flags().StringArrayVar(&p.Near, "near", nil, "unique container that must be on its host; with :SCORE, had better be; may be repeated")
	cmd.Flags().StringArrayVar(&p.Apart, "apart", nil, "unique container that must not be on its host; with :SCORE, had better not be; may be repeated")
	cmd.Flags().StringArrayVar(&p.Discover, "discover", nil, "whether it counts that a host runs a copy: always, exclusive or never, a colon, and k=v or host=NAME, as never:rack=7; exclusive also binds its host; may be repeated")
	cmd.Flags().StringArrayVar(&p.After, "after", nil, "unique container that is to run before the coordinator starts it; may be repeated")
	cmd.Flags().IntVar(&p.Priority, "priority", 0, "where there is no room for all, those with a higher priority run")
}

// NameFlags has an error about wishes name the flag of [PlaceFlags] that is wrong. The
// coordinator names the field of the API, and the user has typed a flag.
func NameFlags(err error) error {
	if f, ok := errors.AsType[*term.Failure](err); ok {
		if field, ok := strings.CutPrefix(f.Why, "invalid request: place."); ok {
			f.Why = "--" + field
		}
	}
	return err
}

func stepNoun() show.Noun[api.PlacementStep] {
	n := show.NounOf("ctid", "name from to why for+ stays+ ctid+", show.Cells[api.PlacementStep]{
		"to": func(s api.PlacementStep) any {
			if s.To == "" {
				return map[bool]string{true: "stays", false: "nowhere"}[s.Stays]
			}
			return s.To
		},
	})
	n.None = "Every unique container is where it should be."
	return n
}

// plan asks what placement would change, prints it, and ends with [term.ExitChanges] if
// something would change. With --watch it goes on with what changes of that.
func (a *commands) plan(ctx context.Context, r *conn.Remote, v *show.View, q api.WhatIf) error {
	changes := false
	err := show.Items(ctx, a.UI, v, stepNoun(), func(ctx context.Context) (steps []api.PlacementStep, err error) {
		err = r.Post(ctx, "/v1/placement/plan", nil, q, &steps)
		changes = len(steps) > 0
		return steps, term.Cannot("plan the placement", err)
	})
	if err == nil && changes {
		return term.Exit(term.ExitChanges)
	}
	return err
}

func (a *commands) planCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "plan", Short: "Say which unique containers would move, and why", Args: term.NoArgs,
		Long: `Says which unique containers would be elsewhere, by what the coordinator knows now, and
which ones no host can take. It changes nothing: the coordinator carries a plan out by
itself when a host is lost or drained, or when a container fails where it is. The exit code
is 10 if something would change.`,
		Example: "  hostler placement plan\n  hostler placement plan -o json\n  hostler placement plan --watch",
	}
	v := show.ShowFlags(cmd)
	cmd.RunE = a.OnCoordinator(func(cmd *cobra.Command, _ []string, r *conn.Remote) error {
		return a.plan(cmd.Context(), r, v, api.WhatIf{})
	})
	return cmd
}

func placementNoun() show.Noun[api.Placement] {
	n := show.NounOf("ctid", "name phase host epoch why restored move moved place verdicts history data self_fence copies+ keeps+ banned+ left_ms++ changed_at+ ctid+", show.Cells[api.Placement]{
		"place":    func(p api.Placement) any { return sayPlace(p.Place) },
		"move":     func(p api.Placement) any { return sayMove(p.Move) },
		"moved":    func(p api.Placement) any { return sayMoved(p.Moved) },
		"verdicts": func(p api.Placement) any { return conn.Each(p.Verdicts, sayVerdict) },
		"history": func(p api.Placement) any {
			return conn.Each(p.History, func(h api.PlacementPast) string {
				return strings.TrimSpace(fmt.Sprintf("%s %s on %s, epoch %s  %s", h.At.UTC().Format("2006-01-02 15:04:05"), h.Phase, h.Host, h.Epoch, h.Why))
			})
		},
	})
	return n
}

func sayPlace(p api.Wishes) (all []string) {
	for _, part := range []struct {
		word string
		what []string
	}{{"must be on", split(p.Selector)}, {"prefers", p.Prefer}, {"avoids", p.Avoid}, {"near", p.Near}, {"apart from", p.Apart}, {"discovery", p.Discover}, {"starts after", p.After}} {
		if len(part.what) > 0 {
			all = append(all, part.word+" "+strings.Join(part.what, ", "))
		}
	}
	if p.Priority != 0 {
		all = append(all, fmt.Sprintf("priority %d", p.Priority))
	}
	return all
}

func split(selector string) []string {
	if selector == "" {
		return nil
	}
	return strings.Split(selector, ",")
}

func sayVerdict(v api.Verdict) string {
	if v.Reason != "" {
		return v.Host + ": no, " + v.Reason
	}
	return fmt.Sprintf("%s: yes, score %d", v.Host, v.Score)
}

func (a *commands) showCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "show NAME", Short: "Show what each host says to a unique container", Args: term.Exactly(1),
		Long: `Shows where a unique container runs, on which hosts it may be, what each host says to it,
and what became of it. A host that says yes can take it; the highest score is taken.`,
		Example: "  hostler placement show db\n  hostler placement show db -o json | jq .verdicts", ValidArgsFunction: a.Completing(uniqueNames),
	}
	v := show.ShowFlags(cmd)
	cmd.RunE = a.OnCoordinator(func(cmd *cobra.Command, args []string, r *conn.Remote) error {
		return show.Item(cmd.Context(), a.UI, v, placementNoun(), func(ctx context.Context) (p api.Placement, err error) {
			err = r.Get(ctx, path(args[0]), nil, &p)
			return p, term.Cannot("show the placement of "+args[0], err)
		})
	})
	return cmd
}

func path(name string) string { return "/v1/placement/" + url.PathEscape(name) }

func uniqueNames(ctx context.Context, r *conn.Remote) ([]string, error) {
	all, err := r.Leases(ctx)
	return conn.Each(all, func(l api.Lease) string { return l.Name }), err
}

func (a *commands) setCommand() *cobra.Command {
	var place api.Wishes
	cmd := &cobra.Command{
		Use: "set NAME", Short: "Say on which hosts a unique container may be, and when it starts", Args: term.Exactly(1),
		Long: `Gives a unique container these wishes and no others. Without flags it may be on every
host. If it must leave its host by them, it moves when another host can take it.

With --after the coordinator places and starts it when the named unique containers run. One
that runs goes on when these stop.`,
		Example: "  hostler placement set db -l site=lab --prefer disk=ssd --apart db-replica\n  hostler placement set web --after db --after cache\n  hostler placement set db", ValidArgsFunction: a.Completing(uniqueNames),
	}
	PlaceFlags(cmd, &place)
	cmd.RunE = a.OnCoordinator(func(cmd *cobra.Command, args []string, r *conn.Remote) error {
		if err := r.Put(cmd.Context(), path(args[0]), place, nil); err != nil {
			return NameFlags(term.Cannot("set the placement of "+args[0], err))
		}
		a.Say("The placement of %s is set.", args[0])
		return nil
	})
	return cmd
}

// WhatIf returns hostler sim what-if.
func WhatIf(e *conn.Env) *cobra.Command {
	a := &commands{e}
	lose := &cobra.Command{
		Use: "lose HOST[,HOST…]", Short: "Say where unique containers would go if hosts were lost", Args: term.Exactly(1),
		Long: `Says what would become of the unique containers if these hosts were lost, once their
leases have ended. It asks the coordinator, which decides as it would, and changes nothing.
The exit code is 10 if something would change.`,
		Example: "  hostler sim what-if lose edge-01\n  hostler sim what-if lose edge-01,edge-02 -o json\n  hostler sim what-if lose edge-01 --watch", ValidArgsFunction: a.Completing(conn.HostNames),
	}
	v := show.ShowFlags(lose)
	lose.RunE = a.OnCoordinator(func(cmd *cobra.Command, args []string, r *conn.Remote) error {
		return a.plan(cmd.Context(), r, v, api.WhatIf{Lose: strings.Split(args[0], ",")})
	})
	var host api.HostPlan
	var limits []string
	add := &cobra.Command{
		Use: "add HOST", Short: "Say what would run on a host if it were there", Args: term.Exactly(1),
		Long: `Says what would become of the unique containers if there were another host. It changes
nothing. The exit code is 10 if something would change.`,
		Example: "  hostler sim what-if add edge-99 --has cpu=400% --has memory=8GiB",
	}
	w := show.ShowFlags(add)
	add.Flags().StringArrayVar(&limits, "has", nil, "what it has: cpu=400%, memory=8GiB or disk=100GiB; may be repeated")
	add.Flags().StringArrayVar(&host.Labels, "label", nil, "its label, k=v; may be repeated")
	add.RunE = a.OnCoordinator(func(cmd *cobra.Command, args []string, r *conn.Remote) error {
		has, err := limit.Parse(limits)
		if err != nil {
			return term.Usage("", "--has: %s", err)
		}
		of := func(r limit.Resource) int64 {
			n, err := limit.Number(r, has[r])
			if err != nil {
				return 0 // it is not said
			}
			return n
		}
		host.Name, host.CPUs, host.Memory, host.Disk = args[0], float64(of(limit.CPU))/100, of(limit.Memory), of(limit.Disk)
		return a.plan(cmd.Context(), r, w, api.WhatIf{Add: []api.HostPlan{host}})
	})
	return term.Group("what-if", "Ask what placement would do if hosts were lost or added", lose, add)
}
