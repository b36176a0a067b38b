package main

import (
	"context"
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

// completing offers live names for the first argument. What goes wrong is not
// told: there is nobody who could read it.
func (a *app) completing(fetch func(context.Context, *remote) ([]string, error)) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		r, err := a.connect()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx := cmd.Context()
		if ctx == nil {
			ctx = context.Background()
		}
		ctx, cancel := context.WithTimeout(ctx, completionTime)
		defer cancel()
		found, err := fetch(ctx, r)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return found, cobra.ShellCompDirectiveNoFileComp
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

func actionIDs(ctx context.Context, r *remote) ([]string, error) {
	all, err := r.actions(ctx, "", false, completionLimit)
	return names(all, actionNoun().name), err
}
