package hosts

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/show"
	"github.com/hostler-io/hostler/internal/cli/term"
)

func leaseNoun() show.Noun[api.Lease] {
	return show.NounOf("ctid", "name host move phase left epoch self_fence data restored+ why copies keeps+ banned+ changed_at+ ctid+", show.Cells[api.Lease]{
		"move": func(l api.Lease) any {
			if l.Move == nil {
				return ""
			}
			return "to " + l.Move.To
		},
		"left": func(l api.Lease) any {
			if l.LeftMS <= 0 {
				return ""
			}
			return (time.Duration(l.LeftMS) * time.Millisecond).Round(time.Second).String()
		},
	})
}

func (a *commands) leaseCommand() *cobra.Command {
	return term.Group("lease", "Unique containers: the host that may run each", a.leaseListCommand())
}

func (a *commands) leaseListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "ls", Short: "List unique containers, with the host that may run each", Args: term.NoArgs,
		Long: `Lists the containers of class unique: at most one copy of each runs at any time. A host
runs one while its lease is good, which the coordinator renews as long as it hears the
host. If a host is lost, the container is withheld from it, and starts on another host
when the lease has ended for certain; WHY says what is waited for. MOVE names the host to which a
person moves it. COPIES names hosts that
run one although they may not, and what becomes of that.`,
		Example: "  hostler lease ls\n  hostler lease ls --watch",
	}
	v := show.ListFlags(cmd)
	cmd.RunE = a.OnCoordinator(func(cmd *cobra.Command, _ []string, r *conn.Remote) error {
		return show.Items(cmd.Context(), a.UI, v, leaseNoun(), func(ctx context.Context) ([]api.Lease, error) {
			return r.Leases(ctx)
		})
	})
	return cmd
}
