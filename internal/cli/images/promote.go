package images

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/dispatch"
	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/data"
)

func (a *commands) promoteCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "promote HOST/NAME IMAGE[:VERSION]", Short: "Make an image of a container",
		Long: `Makes an image of all files of a container, on its host. The container stays as it
is; one that runs is frozen while its files are read. The image is called
localhost/IMAGE:VERSION, for containers of the same runtime; without a version it is
latest. It also says how the container was kept: limits, labels, variables, check,
contract and ports, which demote takes over.

The id of the machine and the keys of an ssh server are left out, and so are volumes,
mounts and devices.`,
		Example: "  hostler image promote edge-01/web web:1.2\n  hostler ct create edge-01/web-2 localhost/web:1.2 --runtime lxc --start",
		Args:    term.Exactly(2), ValidArgsFunction: a.Completing(conn.ContainerNames),
	}
	c := dispatch.ChangeFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		n := data.NewImage{Image: args[1]}
		if err := n.Check(); err != nil {
			return term.Usage(cmd.CommandPath()+" --help", "%s", err)
		}
		what := "make an image of " + args[0]
		r, ref, id, err := a.FindContainer(cmd.Context(), args[0])
		if err != nil {
			return term.Cannot(what, err)
		}
		return a.Do(cmd.Context(), r, c, ref, what, "as it was; the image is "+n.Reference(), protocol.Spec{
			Kind: protocol.KindPromote, Target: id, Name: protocol.ContainerName(ref.Name), Args: &protocol.PromoteArgs{NewImage: n},
		})
	}
	return cmd
}

func (a *commands) demoteCommand() *cobra.Command {
	var start, keep bool
	var runtime string
	cmd := &cobra.Command{
		Use: "demote HOST/NEW-NAME IMAGE", Short: "Make an image that was promoted a container again",
		Long: `Makes the container again that an image was made of, on the host that has the image:
with its files, limits, labels, variables, check and contract, and those ports of the
host that lead nowhere else now. It has an identity of its own, as every new container.
Then the image loses its name, unless it is to be kept. Other containers that were made
of it stay.`,
		Example: "  hostler image demote edge-01/web localhost/web:1.2 --start\n  hostler --local image demote web localhost/web:1.2 --keep",
		Args:    term.Exactly(2), ValidArgsFunction: a.CompletingNew,
	}
	c := dispatch.ChangeFlags(cmd)
	runtimeFlag(cmd, &runtime, "lxc or podman (default the one that has the image)")
	cmd.Flags().BoolVar(&start, "start", false, "also start it")
	cmd.Flags().BoolVar(&keep, "keep", false, "the image stays")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		d := data.Demotion{Image: args[1], Runtime: runtime, Start: start, Keep: keep}
		if err := d.Check(); err != nil {
			return term.Usage("hostler image ls HOST", "%s", err)
		}
		r, err := a.Connect()
		if err != nil {
			return err
		}
		ref, err := conn.ParseRef(args[0], r.Local)
		if err != nil {
			return term.Usage("hostler host ls", "%s", err)
		}
		name, err := conn.ParseName(ref.Name)
		if err != nil {
			return err
		}
		what := "make " + ref.String() + " of " + d.Image
		if d.Runtime == "" {
			all, err := dispatch.Listed[api.Image](cmd.Context(), a.Dispatcher, r, ref.Host, what, protocol.Spec{Kind: protocol.KindImageList, Args: &protocol.ExportArgs{OutputOption: stream()}})
			if err != nil {
				return err
			}
			var has []string
			for _, i := range all {
				if i.Reference == d.Image {
					has = append(has, i.Runtime)
				}
			}
			switch len(has) {
			case 0:
				return &term.Failure{Code: term.ExitNotFound, What: "cannot " + what, Why: "the host does not have the image", Next: strings.TrimSpace("hostler image ls " + string(ref.Host))}
			case 1:
				d.Runtime = has[0]
			default:
				return term.Usage("hostler image demote --runtime lxc", "lxc and podman both have an image %s", d.Image)
			}
		}
		var random [10]byte
		a.Random(random[:])
		return a.Do(cmd.Context(), r, c, ref, what, "there", protocol.Spec{
			Kind: protocol.KindDemote, Target: protocol.NewCTID(a.Now().UnixMilli(), random), Name: name, Args: &protocol.DemoteArgs{Demotion: d},
		})
	}
	return cmd
}
