package containers

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/dispatch"
	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/setting"
)

// maxWait is the most that an upgrade may wait for a healthy container, as the arguments of
// its kind bound it.
const maxWait = 50 * time.Minute

// upgradeCommand is hostler ct upgrade.
func upgradeCommand(a *commands) *cobra.Command {
	var u setting.Upgrade
	var wait term.DurationFlag
	var yes bool
	cmd := &cobra.Command{
		Use: "upgrade HOST/NAME [IMAGE]", Short: "Give a container another image, and keep the rest",
		Long: `Gives a container the files of another image. Its name, id, host name, addresses, ports,
volumes, mounts, limits, variables, command, labels, checks, schedules and contract stay.
What it has written outside of its volumes is gone afterwards, as if it were made anew.

Without IMAGE it is the image that it was made from, as its registry has it now. If the
container is of that image already, nothing changes.

The image is fetched and unpacked while the container runs. Then the container is stopped
and started with it. It has to become healthy as its check says (see hostler ct set), or
without a check to run for 10 seconds; --wait bounds that. If it does not, or its host
fails meanwhile, the old image is put back and started, and the action fails with the
reason and the last lines of the log. A container that is to be stopped stays stopped.

Snapshots are of the old image: a container that has some is upgraded only
with --drop-snapshots, which removes them. A backup stays.`,
		Example: "  hostler ct upgrade edge-01/web\n  hostler ct upgrade edge-01/web registry.example/web:2\n  hostler ct upgrade edge-01/db reg.example/db:16 --wait 5m --drop-snapshots",
		Args:    cobra.MatchAll(term.AtLeast(1), term.AtMost(2)), ValidArgsFunction: a.Completing(conn.ContainerNames),
	}
	c := dispatch.ChangeFlags(cmd)
	cmd.Flags().StringVar(&u.Pull, "pull", "", "fetch the image: missing, always or never (default missing; without IMAGE always)")
	cmd.Flags().Var(&wait, "wait", "how long it may take until it is healthy, at most 50m (default as long as its check allows)")
	cmd.Flags().BoolVar(&u.DropSnapshots, "drop-snapshots", false, "remove its snapshots")
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	_ = cmd.RegisterFlagCompletionFunc("pull", cobra.FixedCompletions([]string{"missing", "always", "never"}, cobra.ShellCompDirectiveNoFileComp))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 2 {
			u.Image = args[1]
		}
		if wait.Value < 0 || wait.Value > maxWait {
			return term.Usage("hostler ct upgrade "+args[0]+" --wait 5m", "--wait: it can be up to 50m")
		}
		u.WaitMS = wait.Value.Milliseconds()
		if u.DropSnapshots {
			if err := a.Confirm(yes || c.DryRun, "Remove the snapshots of "+args[0]+"?"); err != nil {
				return err
			}
		}
		return a.changeOne(cmd, c, args[0], "upgrade", "upgraded", func(string) (protocol.Spec, error) {
			return protocol.Spec{Kind: protocol.KindContainerUpgrade, Args: &protocol.ContainerUpgradeArgs{Upgrade: u}}, nil
		})
	}
	return cmd
}
