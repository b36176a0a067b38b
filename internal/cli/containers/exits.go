package containers

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/dispatch"
	"github.com/hostler-io/hostler/internal/cli/show"
	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/protocol"
)

func endNoun() show.Noun[api.ContainerEnd] {
	n := show.NounOf("at", "at cause code signal oom asked last_line~ log++", show.Cells[api.ContainerEnd]{
		"code": func(e api.ContainerEnd) any {
			switch {
			case e.Code != nil:
				return *e.Code
			case e.Signal == "" && e.Cause == "host":
			case e.Signal == "":
				return "unknown"
			}
			return ""
		},
		"oom":   func(e api.ContainerEnd) any { return word(e.OOM) },
		"asked": func(e api.ContainerEnd) any { return word(e.Asked) },
		"last_line": func(e api.ContainerEnd) any {
			lines := strings.Split(strings.TrimSpace(e.Log), "\n")
			return term.Printable(strings.TrimSpace(lines[len(lines)-1]))
		},
	})
	return n
}

func word(yes bool) string {
	if yes {
		return "yes"
	}
	return ""
}

func (a *commands) ctExitsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "exits HOST/NAME", Short: "Show how a container ended, the last ten times", Args: term.Exactly(1),
		Long: `Lists the last ten times that a container ended, the newest first: with the exit code
of its first process or the signal that ended it, whether the kernel killed a
process of it for want of memory (OOM), whether a stop was asked for, and the end of
its log. The host remembers it over restarts and reboots. An end that came while the
agent was away, or that an old kernel does not tell about, is unknown.

CAUSE says what ended it: order (an action), contract (its host was cut off for too
long), health (its check failed), agent (it ran against its user's will), host (its host
was shut down or lost power; AT is when the host started again), oom, exit (its first
process ended without an error) or crash.`,
		Example:           "  hostler ct exits edge-01/web\n  hostler ct exits edge-01/web -o json | jq -r '.[0].log'",
		ValidArgsFunction: a.Completing(conn.ContainerNames),
	}
	v := show.ListFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return show.Items(cmd.Context(), a.UI, v, endNoun(), func(ctx context.Context) ([]api.ContainerEnd, error) {
			d, err := a.details(ctx, args[0])
			return d.Ends, err
		})
	}
	return cmd
}

// maxDetails bounds what a host may tell of one container.
const maxDetails = 1 << 20

// details asks a host what it knows of a container.
func (a *commands) details(ctx context.Context, where string) (d api.ContainerDetails, err error) {
	what := "ask about " + where
	r, name, id, err := a.FindContainer(ctx, where)
	if err != nil {
		return d, term.Cannot(what, err)
	}
	b, err := a.Ask(ctx, r, name.Host, name.String(), what, maxDetails, protocol.Spec{Kind: protocol.KindInspect, Target: id, Name: protocol.ContainerName(name.Name), Args: new(protocol.ExportArgs)})
	if err == nil && json.Unmarshal(b, &d) != nil {
		err = term.Cannot(what, dispatch.ErrAnswer)
	}
	return d, err
}
