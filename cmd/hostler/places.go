package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/protocol"
)

// selection is where something is done that may be done in many places.
type selection struct {
	labels selector
	all    bool
	many   many
	wait   durationFlag
}

// selectionFlags adds -l and -A, and how to wait for many. what is what is
// selected.
func selectionFlags(cmd *cobra.Command, what string) *selection {
	s := &selection{}
	f := cmd.Flags()
	f.VarP(&s.labels, "selector", "l", "on all "+what+" with these labels")
	f.BoolVarP(&s.all, "all", "A", false, "on all "+what)
	f.IntVar(&s.many.parallel, "parallel", 0, "do at most this many at a time (default all)")
	f.Var(&s.wait, "wait", "wait no longer than this; what was begun goes on")
	f.BoolVar(&s.many.leaveOffline, "no-wait-offline", false, "do not wait for hosts that are away: it is done there when they are back")
	return s
}

// given reports whether places are selected rather than named.
func (s *selection) given() bool { return s.all || len(s.labels.terms) > 0 }

// check looks at the options together with what was named.
func (s *selection) check(named int) error {
	switch {
	case s.given() && named > 0 || s.all && len(s.labels.terms) > 0:
		return usage("", "there are places by name, by -l or by -A, and not by two of them")
	case s.many.parallel < 0:
		return usage("", "--parallel %d: want a number of places, or 0 for all", s.many.parallel)
	}
	s.many.wait = s.wait.d
	return nil
}

// single reports whether one place is dealt with as if it were the only one that
// there could be: what was selected, or is to be printed, is told as that of many.
func (s *selection) single(n int, v *view) bool {
	return n == 1 && !s.bounded() && (v.format.word == "table" || v.format.word == "wide")
}

// bounded reports whether there is a bound to the waiting.
func (s *selection) bounded() bool { return s.wait.d > 0 || s.many.leaveOffline }

// fits refuses what the host itself, or a session, cannot have.
func (s *selection) fits(local, tty bool) error {
	switch {
	case local && s.bounded():
		return usage("", "--wait and --no-wait-offline are about hosts that may be away, and this is the host itself")
	case tty && s.bounded():
		return usage("", "-t and --wait or --no-wait-offline do not go together: a session begins within a minute, or not at all")
	}
	return nil
}

// containers returns the containers that are selected. Foreign ones are left
// alone.
func (a *app) selectContainers(ctx context.Context, s *selection) (*remote, []ref, []api.Container, error) {
	r, err := a.connect()
	if err != nil {
		return nil, nil, nil, err
	}
	if err := s.check(0); err != nil {
		return nil, nil, nil, err
	}
	if s.all && len(s.labels.terms) == 0 && !r.local {
		a.say("hostler: this is about all containers of all hosts")
	}
	found, err := r.containers(ctx, "")
	if err != nil {
		return nil, nil, nil, cannot("list the containers", err)
	}
	var names []ref
	var all []api.Container
	for _, c := range found {
		if c.CTID != "" && s.labels.match(c.Labels) {
			name := ref{host: protocol.HostID(c.Host), name: c.Name}
			if r.local {
				name.host = ""
			}
			names, all = append(names, name), append(all, c)
		}
	}
	if len(all) == 0 {
		return nil, nil, nil, &failure{code: exitNotFound, what: "no container is selected", next: "hostler ct ls"}
	}
	if r.local && len(all) > 1 {
		return nil, nil, nil, usage("hostler ct ls --local", "%d containers are selected: on the host itself they are named one by one", len(all))
	}
	return r, names, all, nil
}

// onContainers makes the places of containers, each with its own spec.
func onContainers(names []ref, all []api.Container, spec func(protocol.CTID, protocol.ContainerName) ([]byte, error)) ([]place, error) {
	var places []place
	for i, c := range all {
		id, err := protocol.ParseCTID(c.CTID)
		if err != nil {
			return nil, fmt.Errorf("id of %s: %w", names[i], err)
		}
		b, err := spec(id, protocol.ContainerName(c.Name))
		if err != nil {
			return nil, err
		}
		places = append(places, place{label: names[i].String(), host: names[i].host, spec: b})
	}
	return places, nil
}

// dryRunMany prints what would be asked in many places.
func (a *app) dryRunMany(ctx context.Context, r *remote, v *view, places []place, kind protocol.Kind) error {
	var plans []plan
	for _, p := range places {
		plan, err := planOf(ctx, r, p.host, kind, p.spec)
		if err != nil {
			return cannot("tell what would be done on "+p.label, err)
		}
		plans = append(plans, plan)
	}
	return printAll(a, v, planNoun(), plans)
}
