package batch

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/dispatch"
	"github.com/hostler-io/hostler/internal/cli/show"
	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/protocol"
)

// Selection is where something is done that may be done in many places.
type Selection struct {
	labels conn.Selector
	all    bool
	Many   many
	wait   term.DurationFlag
}

// SelectionFlags adds -l and -A, and how to wait for many. what is what is
// selected.
func SelectionFlags(cmd *cobra.Command, what string) *Selection {
	s := &Selection{}
	f := cmd.Flags()
	f.VarP(&s.labels, "selector", "l", "on all "+what+" selected by labels")
	f.BoolVarP(&s.all, "all", "A", false, "on all "+what)
	f.IntVar(&s.Many.parallel, "parallel", 0, "do at most this many at a time (default all)")
	f.Var(&s.wait, "wait", "wait no longer than this; running actions continue")
	f.BoolVar(&s.Many.leaveOffline, "no-wait-offline", false, "do not wait for offline hosts: they do it when they are back")
	return s
}

// Given reports whether places are selected rather than named.
func (s *Selection) Given() bool { return s.all || len(s.labels.Terms) > 0 }

// Check looks at the options together with what was named.
func (s *Selection) Check(named int) error {
	switch {
	case s.Given() && named > 0 || s.all && len(s.labels.Terms) > 0:
		return term.Usage("", "use host names, -l or -A; they cannot be combined")
	case s.Many.parallel < 0:
		return term.Usage("", "--parallel %d: use a number from 1, or 0 for all", s.Many.parallel)
	}
	s.Many.wait = s.wait.Value
	return nil
}

// Single reports whether one place is dealt with as if it were the only one that
// there could be: what was selected, or is to be printed, is told as that of many.
func (s *Selection) Single(n int, v *show.View) bool {
	return n == 1 && !s.Bounded() && (v.Format.Word == "table" || v.Format.Word == "wide")
}

// Bounded reports whether there is a bound to the waiting.
func (s *Selection) Bounded() bool { return s.wait.Value > 0 || s.Many.leaveOffline }

// Fits refuses what the host itself, or a session, cannot have.
func (s *Selection) Fits(local, tty bool) error {
	switch {
	case local && s.Bounded():
		return term.Usage("", "--wait and --no-wait-offline do not work on the host itself")
	case tty && s.Bounded():
		return term.Usage("", "-t cannot be combined with --wait or --no-wait-offline: a session begins within a minute, or not at all")
	}
	return nil
}

// Found is a container in which something is done.
type Found struct {
	conn.Ref
	ID protocol.CTID
}

// FindContainers returns the container that is named, or those that are selected.
// Foreign ones are left alone.
func (a *Batcher) FindContainers(ctx context.Context, s *Selection, where string) (*conn.Remote, []Found, error) {
	if where != "" {
		r, name, id, err := a.FindContainer(ctx, where)
		if err == nil {
			err = s.Fits(r.Local, false)
		}
		return r, []Found{{name, id}}, err
	}
	r, err := a.Connect()
	if err != nil {
		return nil, nil, err
	}
	if err := s.Check(0); err != nil {
		return nil, nil, err
	}
	if s.all && len(s.labels.Terms) == 0 && !r.Local {
		a.Say("hostler: this selects all containers of all hosts")
	}
	found, err := r.Containers(ctx, "")
	if err != nil {
		return nil, nil, term.Cannot("list the containers", err)
	}
	var all []Found
	for _, c := range found {
		if c.CTID == "" || !s.labels.Match(c.Labels) {
			continue
		}
		f := Found{Ref: conn.Ref{Host: protocol.HostID(c.Host), Name: c.Name}}
		if r.Local {
			f.Host = ""
		}
		if f.ID, err = protocol.ParseCTID(c.CTID); err != nil {
			return nil, nil, fmt.Errorf("id of %s: %w", f, err)
		}
		all = append(all, f)
	}
	switch {
	case len(all) == 0:
		return nil, nil, &term.Failure{Code: term.ExitNotFound, What: "no container is selected", Next: "hostler ct ls"}
	case r.Local && len(all) > 1:
		return nil, nil, term.Usage("hostler ct ls --local", "%d containers are selected: on the host itself name one", len(all))
	}
	return r, all, nil
}

// OnContainers makes the places of containers, each with its own spec.
func OnContainers(found []Found, spec func(Found) ([]byte, error)) ([]dispatch.Target, error) {
	var places []dispatch.Target
	for _, f := range found {
		b, err := spec(f)
		if err != nil {
			return nil, err
		}
		places = append(places, dispatch.Target{Label: f.String(), Host: f.Host, Spec: b})
	}
	return places, nil
}

// ChooseHosts returns the hosts that are meant; on the host itself that is one
// without a name.
func (a *Batcher) ChooseHosts(ctx context.Context, r *conn.Remote, where []string, sel *Selection, sayAway bool) ([]protocol.HostID, error) {
	many := sel.Given()
	switch {
	case r.Local && (many || len(where) > 0):
		return nil, term.Usage("hostler run -- COMMAND", "no host can be named on the host itself")
	case r.Local:
		return []protocol.HostID{""}, nil
	case !many && len(where) == 0:
		return nil, term.Usage("hostler run HOST -- COMMAND", "no host is named")
	}
	var ids []protocol.HostID
	for _, s := range where {
		id, err := conn.ParseHost(s)
		if err != nil {
			next := "hostler host ls"
			if _, e := conn.ParseRef(s, false); e == nil {
				next = "hostler exec " + s + " -- COMMAND"
			}
			return nil, term.Usage(next, "%s", err)
		}
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	if !many {
		return ids, nil
	}
	found, err := r.Hosts(ctx)
	if err != nil {
		return nil, term.Cannot("list the hosts", err)
	}
	for _, h := range found {
		if h.State == conn.EnrolmentApproved && sel.labels.Match(h.Labels) {
			ids = append(ids, protocol.HostID(h.ID))
			if h.Connectivity != "online" && sayAway {
				a.Say("hostler: %s is %s: its command waits for it", term.Printable(h.ID), term.Printable(h.Connectivity))
			}
		}
	}
	if len(ids) == 0 {
		return nil, &term.Failure{Code: term.ExitNotFound, What: "no host is selected", Next: "hostler host ls"}
	}
	return ids, nil
}
