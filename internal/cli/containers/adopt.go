package containers

import (
	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/dispatch"
	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/protocol"
)

// adoptCommand is hostler ct adopt.
func adoptCommand(a *commands) *cobra.Command {
	var privileged bool
	cmd := &cobra.Command{
		Use: "adopt HOST/NAME", Short: "Take over a container that Hostler did not make",
		Long: `Makes a foreign container one of Hostler's: it gets an id, and is kept as it is now,
running or stopped. Its files, its configuration and its network stay as they are, but
for one setting: from now on the agent alone starts it, and LXC's own service does not
(lxc.start.auto).

A container that something else starts is refused, and the error says what to change:
podman's --restart, a pod, a unit of systemd. So is a container whose root directory or
range of users Hostler cannot work with.

In a privileged container root is root of the host. With --privileged it is taken over
all the same, and stays privileged.`,
		Example: "  hostler ct ls edge-01\n  hostler ct adopt edge-01/old-web\n  hostler ct adopt edge-01/podman:db --privileged",
		Args:    term.Exactly(1), ValidArgsFunction: a.Completing(conn.ForeignNames),
	}
	c := dispatch.ChangeFlags(cmd)
	cmd.Flags().BoolVar(&privileged, "privileged", false, "take it over although root in it is root of the host")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		r, err := a.Connect()
		if err != nil {
			return err
		}
		name, err := conn.ParseRef(args[0], r.Local)
		if err != nil {
			return term.Usage("hostler ct ls", "%s", err)
		}
		called, err := conn.ParseName(name.Name)
		if err != nil {
			return err
		}
		runtime := name.Runtime
		name.Runtime = ""
		return a.Do(cmd.Context(), r, c, name, "adopt "+args[0], "adopted", protocol.Spec{
			Kind: protocol.KindAdopt, Target: newCTID(a), Name: called,
			Args: &protocol.AdoptArgs{Runtime: runtime, Privileged: privileged},
		})
	}
	return cmd
}
