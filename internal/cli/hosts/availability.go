package hosts

import (
	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/term"
)

// availability are the commands that say whether a host takes unique containers.
func (a *commands) availability() []*cobra.Command {
	var reason string
	var cordon bool
	drain := &cobra.Command{
		Use: "drain HOST", Short: "Have the unique containers of a host move to others", Args: term.Exactly(1),
		Long: `Has the unique containers of a host move to other hosts, and places no new ones on it.
A container that no other host can take goes on where it is; hostler placement plan says
why. Pinned and cloned containers stay. With --cordon all stay, and only new ones go
elsewhere.`,
		Example: "  hostler host drain edge-01 --reason \"new disks\"\n  hostler host drain edge-01 --cordon", ValidArgsFunction: a.Completing(conn.HostNames),
	}
	drain.Flags().StringVar(&reason, "reason", "", "reason, for others")
	drain.Flags().BoolVar(&cordon, "cordon", false, "place no new ones on it, and leave those that it has")
	drain.RunE = func(cmd *cobra.Command, args []string) error {
		ask, done := api.SetAvailability{State: "draining", Reason: reason}, "being drained"
		if cordon {
			ask.State, done = "cordoned", "cordoned"
		}
		return a.changeHost(cmd.Context(), args[0], "availability", done, ask)
	}
	var lasts term.DurationFlag
	maintenance := &cobra.Command{
		Use: "maintenance HOST", Short: "Decide nothing about the unique containers of a host", Args: term.Exactly(1),
		Long: `Has the coordinator decide nothing about the unique containers of a host, whether it is
heard or not, and place no new ones on it: nothing starts elsewhere while someone works on
the host. Its containers still stop when their leases end. hostler host undrain ends it,
and so does the time of --for.`,
		Example: "  hostler host maintenance edge-01 --for 2h --reason \"new disks\"", ValidArgsFunction: a.Completing(conn.HostNames),
	}
	maintenance.Flags().StringVar(&reason, "reason", "", "reason, for others")
	maintenance.Flags().Var(&lasts, "for", "how long it lasts (default until hostler host undrain)")
	maintenance.RunE = func(cmd *cobra.Command, args []string) error {
		ask := api.SetAvailability{State: "maintenance", Reason: reason}
		if lasts.Value > 0 {
			ask.For = lasts.Value.String()
		}
		return a.changeHost(cmd.Context(), args[0], "availability", "in maintenance", ask)
	}
	return []*cobra.Command{drain, maintenance, {
		Use: "undrain HOST", Short: "Let a host take unique containers again", Args: term.Exactly(1),
		Long:    "Ends a drain, a cordon or a maintenance. Containers that left the host do not come back by themselves.",
		Example: "  hostler host undrain edge-01", ValidArgsFunction: a.Completing(conn.HostNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.changeHost(cmd.Context(), args[0], "availability", "open for unique containers", api.SetAvailability{State: "open"})
		},
	}}
}

// sayAvailability says what people have decided about a host; nothing if it is open.
func sayAvailability(a *api.Availability) string {
	if a == nil {
		return ""
	}
	text := a.State + " by " + a.By
	if a.Reason != "" {
		text += ": " + a.Reason
	}
	if a.Until != nil {
		text += ", until " + a.Until.UTC().Format("2006-01-02 15:04 UTC")
	}
	return text
}
