package conn

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/protocol"
)

// completionTime bounds what completion may take: no user waits longer for a
// key.
const completionTime = 2 * time.Second

// CompletionLimit is how many actions completion looks at.
const CompletionLimit = 50

// fetcher returns what there is of something.
type fetcher func(context.Context, *Remote) ([]string, error)

// live returns names that the other end knows. What goes wrong is not told: there
// is nobody who could read it.
func (a *Env) live(cmd *cobra.Command, fetch fetcher) []string {
	r, err := a.Connect()
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

// Completing offers live names for the first argument.
func (a *Env) Completing(fetch fetcher) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return a.live(cmd, fetch), cobra.ShellCompDirectiveNoFileComp
	}
}

// CompletingAll offers them for every argument, each once, and leaves alone what
// is behind the --, as it is typed on another machine.
func (a *Env) CompletingAll(fetch fetcher) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if slices.Contains(a.Args, "--") { // cobra adds one of its own, so it cannot be asked
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		found := slices.DeleteFunc(a.live(cmd, fetch), func(s string) bool { return slices.Contains(args, s) })
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}

// CompletingPlaces offers HOST:, behind which a path goes, or files of this machine:
// those alone for the first argument if it is one.
func (a *Env) CompletingPlaces(firstIsFile bool) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if firstIsFile && len(args) == 0 {
			return nil, cobra.ShellCompDirectiveDefault
		}
		return a.live(cmd, ending(":", HostNames)), cobra.ShellCompDirectiveNoSpace
	}
}

// CompletingNew offers HOST/, behind which the name of a new container goes.
func (a *Env) CompletingNew(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.live(cmd, ending("/", HostNames)), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// ending adds what stands behind each name.
func ending(mark string, fetch fetcher) fetcher {
	return func(ctx context.Context, r *Remote) ([]string, error) {
		all, err := fetch(ctx, r)
		return Each(all, func(s string) string { return s + mark }), err
	}
}

// AnyOf offers things of several sorts, those that can be had.
func AnyOf(sorts ...fetcher) fetcher {
	return func(ctx context.Context, r *Remote) ([]string, error) {
		var all []string
		for _, fetch := range sorts {
			if found, err := fetch(ctx, r); err == nil {
				all = append(all, found...)
			}
		}
		return all, nil
	}
}

// Each returns what of makes of each element.
func Each[T, U any](all []T, of func(T) U) []U {
	made := make([]U, len(all))
	for i, it := range all {
		made[i] = of(it)
	}
	return made
}

// HostNames returns the ids of all hosts.
func HostNames(ctx context.Context, r *Remote) ([]string, error) {
	if r.Local {
		return nil, nil
	}
	all, err := r.Hosts(ctx)
	return Each(all, func(h api.Host) string { return h.ID }), err
}

// ContainerNames returns the references of all containers of Hostler.
func ContainerNames(ctx context.Context, r *Remote) ([]string, error) {
	return namesOf(ctx, r, false)
}

// ForeignNames returns the references of all others.
func ForeignNames(ctx context.Context, r *Remote) ([]string, error) { return namesOf(ctx, r, true) }

func namesOf(ctx context.Context, r *Remote, foreign bool) ([]string, error) {
	all, err := r.Containers(ctx, "")
	var found []string
	for _, c := range all {
		if (c.CTID == "") != foreign {
			continue
		}
		name := Ref{Name: c.Name}
		if foreign {
			name.Runtime = c.Runtime
		}
		if !r.Local {
			name.Host = protocol.HostID(c.Host)
		}
		found = append(found, name.String())
	}
	return found, err
}

// OpenIDs returns the ids of the newest actions that have not ended.
func OpenIDs(ctx context.Context, r *Remote) ([]string, error) {
	all, err := r.Actions(ctx, ActionQuery{States: OpenStates(), Limit: CompletionLimit})
	return Each(all, func(a api.Action) string { return a.ID }), err
}

// ActionIDs returns the ids of the newest actions.
func ActionIDs(ctx context.Context, r *Remote) ([]string, error) {
	all, err := r.Actions(ctx, ActionQuery{Limit: CompletionLimit})
	return Each(all, func(a api.Action) string { return a.ID }), err
}

// CompleteContexts offers the contexts of the configuration.
func (a *Env) CompleteContexts(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	c, err := a.LoadConfig()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return slices.Sorted(maps.Keys(c.Contexts)), cobra.ShellCompDirectiveNoFileComp
}
