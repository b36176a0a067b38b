package doctor

import (
	"context"
	"encoding/json"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/dispatch"
	"github.com/hostler-io/hostler/internal/cli/show"
	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/protocol"
)

// HostCheck returns hostler host check.
func HostCheck(d *dispatch.Dispatcher) *cobra.Command {
	a := &commands{d}
	var all bool
	cmd := &cobra.Command{
		Use: "check HOST", Short: "Have a host look for what keeps it from doing its work", Args: term.AtMost(1),
		Long: `Asks the host to look at the space of its directories, at what containers and commands
need (LXC, podman, control groups, user namespaces), at its clock, at the way to the
coordinator, at its certificate and its memory, and for what a crash has left. Of each
fault it prints the cause and what mends it on the host; --all prints what is well too.
The exit code is 1 if a check has failed; warnings do not count. hostler-agent check
does the same on the host, also while the agent is down.`,
		Example:           "  hostler host check edge-01\n  hostler host check edge-01 --all -o json\n  hostler --local host check",
		ValidArgsFunction: d.Completing(conn.HostNames),
	}
	v := show.ListFlags(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "print what is well, too")
	cmd.RunE = a.OnRemote(func(cmd *cobra.Command, args []string, r *conn.Remote) error {
		var host protocol.HostID
		switch {
		case !r.Local && len(args) == 0:
			return term.Usage("hostler host ls", "name a host")
		case r.Local && len(args) > 0:
			return term.Usage("hostler --local host check", "--local is about this host: leave the name out")
		case !r.Local:
			var err error
			if host, err = conn.ParseHost(args[0]); err != nil {
				return term.Usage("hostler host ls", "%s", err)
			}
		}
		return a.list(cmd.Context(), v, all, func(ctx context.Context) ([]finding, error) { return a.ask(ctx, r, host) })
	})
	return cmd
}

// maxAnswer bounds what a host may answer, in bytes.
const maxAnswer = 1 << 20

// ask has a host look for itself. An empty name is this host.
func (a *commands) ask(ctx context.Context, r *conn.Remote, host protocol.HostID) ([]finding, error) {
	object, what := "host "+string(host), "check host "+string(host)
	if host == "" {
		object, what = "this host", "check this host"
	}
	args := &protocol.ExportArgs{OutputOption: protocol.OutputOption{Output: protocol.OutputStream}}
	b, err := a.Ask(ctx, r, host, object, what, maxAnswer, protocol.Spec{Kind: protocol.KindHostCheck, Args: args})
	if err != nil {
		return nil, err
	}
	var told []api.Finding
	if json.Unmarshal(b, &told) != nil {
		return nil, term.Cannot(what, dispatch.ErrAnswer)
	}
	found := make([]finding, 0, len(told))
	for _, f := range told {
		found = append(found, finding{object, f})
	}
	return found, nil
}
