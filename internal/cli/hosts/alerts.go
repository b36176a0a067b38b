package hosts

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/show"
	"github.com/hostler-io/hostler/internal/cli/term"
)

// hostAlert is an alert with its host.
type hostAlert struct {
	Host string `json:"host"`
	api.Alert
}

func alertNoun() show.Noun[hostAlert] {
	n := show.NounOf("id", "severity host since text id+", show.Cells[hostAlert]{})
	n.Name = func(a hostAlert) string { return a.Host + " " + a.ID }
	return n
}

func (a *commands) alertCommand() *cobra.Command {
	return term.Group("alert", "Alerts: what is wrong on hosts", a.alertListCommand(), a.alertRuleCommand())
}

func (a *commands) alertListCommand() *cobra.Command {
	var labels conn.Selector
	severity := ""
	cmd := &cobra.Command{
		Use: "ls", Short: "List what is wrong now, the worst first", Args: term.NoArgs,
		Long: `Lists the alerts that hosts have raised and not cleared: of containers that cannot
be kept as intended, of hosts that accept nothing new, and of rules for what hosts
measure (alerts.rules in the configuration of an agent). A host that is away is
listed with the alerts that it told last.`,
		Example: "  hostler alert ls\n  hostler alert ls --watch\n  hostler alert ls -l site=lab --severity critical",
	}
	v := show.ListFlags(cmd)
	cmd.Flags().VarP(&labels, "selector", "l", "only those of hosts selected by labels")
	cmd.Flags().StringVar(&severity, "severity", "", "only those of this severity: critical or warning")
	cmd.RunE = a.OnCoordinator(func(cmd *cobra.Command, _ []string, r *conn.Remote) error {
		return show.Items(cmd.Context(), a.UI, v, alertNoun(), func(ctx context.Context) ([]hostAlert, error) {
			hosts, err := r.Hosts(ctx)
			var all []hostAlert
			for _, h := range hosts {
				for _, alert := range h.ActiveAlerts {
					if labels.Match(h.Labels) && (severity == "" || alert.Severity == severity) {
						all = append(all, hostAlert{h.ID, alert})
					}
				}
			}
			slices.SortStableFunc(all, func(x, y hostAlert) int {
				if bad := x.Severity == "critical"; bad != (y.Severity == "critical") {
					if bad {
						return -1
					}
					return 1
				}
				return x.Since.Compare(y.Since)
			})
			return all, err
		})
	})
	return cmd
}
