package main

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/protocol"
)

// completionTime bounds what completion may take: nobody waits longer for a
// key.
const completionTime = 2 * time.Second

// completionLimit is how many actions completion looks at.
const completionLimit = 50

// fetcher returns what there is of something.
type fetcher func(context.Context, *remote) ([]string, error)

// live returns names that the other end knows. What goes wrong is not told: there
// is nobody who could read it.
func (a *app) live(cmd *cobra.Command, fetch fetcher) []string {
	r, err := a.connect()
	if err != nil {
		return nil
	}
	ctx := cmd.Context()
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, cancel := context.WithTimeout(ctx, completionTime)
	defer cancel()
	found, err := fetch(ctx, r)
	if err != nil {
		return nil
	}
	return found
}

// completing offers live names for the first argument.
func (a *app) completing(fetch fetcher) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return a.live(cmd, fetch), cobra.ShellCompDirectiveNoFileComp
	}
}

// completingAll offers them for every argument, each once, and leaves alone what
// is behind the --, as it is typed on another machine.
func (a *app) completingAll(fetch fetcher) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if slices.Contains(a.args, "--") { // cobra adds one of its own, so it cannot be asked
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		found := slices.DeleteFunc(a.live(cmd, fetch), func(s string) bool { return slices.Contains(args, s) })
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}

// completingPlaces offers HOST:, behind which a path goes, or files of this machine:
// those alone for the first argument if it is one.
func (a *app) completingPlaces(firstIsFile bool) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if firstIsFile && len(args) == 0 {
			return nil, cobra.ShellCompDirectiveDefault
		}
		return a.live(cmd, ending(":", hostNames)), cobra.ShellCompDirectiveNoSpace
	}
}

// completingNew offers HOST/, behind which the name of a new container goes.
func (a *app) completingNew(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.live(cmd, ending("/", hostNames)), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// ending adds what stands behind each name.
func ending(mark string, fetch fetcher) fetcher {
	return func(ctx context.Context, r *remote) ([]string, error) {
		all, err := fetch(ctx, r)
		return names(all, func(s string) string { return s + mark }), err
	}
}

// anyOf offers things of several sorts, those that can be had.
func anyOf(sorts ...fetcher) fetcher {
	return func(ctx context.Context, r *remote) ([]string, error) {
		var all []string
		for _, fetch := range sorts {
			if found, err := fetch(ctx, r); err == nil {
				all = append(all, found...)
			}
		}
		return all, nil
	}
}

func names[T any](all []T, name func(T) string) []string {
	found := make([]string, len(all))
	for i, it := range all {
		found[i] = name(it)
	}
	return found
}

func hostNames(ctx context.Context, r *remote) ([]string, error) {
	if r.local {
		return nil, nil
	}
	all, err := r.hosts(ctx)
	return names(all, func(h api.Host) string { return h.ID }), err
}

func containerNames(ctx context.Context, r *remote) ([]string, error) {
	all, err := r.containers(ctx, "")
	var found []string
	for _, c := range all {
		if c.CTID == "" {
			continue // foreign: nothing can be done with it
		}
		name := ref{name: c.Name}
		if !r.local {
			name.host = protocol.HostID(c.Host)
		}
		found = append(found, name.String())
	}
	return found, err
}

func openIDs(ctx context.Context, r *remote) ([]string, error) {
	all, err := r.actions(ctx, "", true, completionLimit)
	return names(all, func(a api.Action) string { return a.ID }), err
}

func actionIDs(ctx context.Context, r *remote) ([]string, error) {
	all, err := r.actions(ctx, "", false, completionLimit)
	return names(all, func(a api.Action) string { return a.ID }), err
}
