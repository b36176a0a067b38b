// Package images has hostler image: the images of hosts, for both runtimes.
package images

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/dispatch"
	"github.com/hostler-io/hostler/internal/cli/show"
	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/hostcmd"
)

type commands struct{ *dispatch.Dispatcher }

// Command returns hostler image.
func Command(d *dispatch.Dispatcher) *cobra.Command {
	a := &commands{d}
	cmd := term.Group("image", "The images that containers are made from")
	cmd.AddCommand(a.listCommand(), a.showCommand(), a.pullCommand(), a.promoteCommand(), a.demoteCommand(), a.exportCommand(), a.importCommand(), a.copyCommand(), a.removeCommand(), a.pruneCommand())
	return cmd
}

func noun() show.Noun[api.Image] {
	return show.NounOf("image", "reference runtime size used digest+", show.Cells[api.Image]{
		"size": func(i api.Image) any { return term.Size(i.Bytes) },
		"used": func(i api.Image) any {
			if i.UsedMS == 0 {
				return ""
			}
			return time.UnixMilli(i.UsedMS)
		},
	})
}

func stream() protocol.OutputOption { return protocol.OutputOption{Output: protocol.OutputStream} }

func (a *commands) listCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "ls [HOST]", Short: "List the images of a host", Args: term.AtMost(1),
		Long: `Lists the images that a host has, for containers of either runtime. SIZE is what an
image of lxc takes as its registry has it, and one of podman unpacked. USED is when a
container of lxc was made of it last; podman does not say that.`,
		Example: "  hostler image ls edge-01\n  hostler --local image ls -o json", ValidArgsFunction: a.Completing(conn.HostNames),
	}
	v := show.ListFlags(cmd)
	cmd.RunE = a.OnHost(0, func(cmd *cobra.Command, r *conn.Remote, host protocol.HostID, _ []string) error {
		return show.Items(cmd.Context(), a.UI, v, noun(), a.listed(r, host, "list the images", func(all []api.Image) ([]api.Image, error) { return all, nil }))
	})
	return cmd
}

// listed asks a host for its images, as often as it is called, and chooses among them.
func (a *commands) listed(r *conn.Remote, host protocol.HostID, what string, choose func([]api.Image) ([]api.Image, error)) func(context.Context) ([]api.Image, error) {
	first := true
	return func(ctx context.Context) ([]api.Image, error) {
		if !first { // each question is an action
			if err := term.Pause(ctx, watchEvery); err != nil {
				return nil, err
			}
		}
		first = false
		all, err := dispatch.Listed[api.Image](ctx, a.Dispatcher, r, host, what, protocol.Spec{Kind: protocol.KindImageList, Args: &protocol.ExportArgs{OutputOption: stream()}})
		if err != nil {
			return nil, err
		}
		return choose(all)
	}
}

func (a *commands) showCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "show [HOST] IMAGE", Short: "Show an image of a host", Args: term.AtMost(2),
		Long:    "Shows what a host has of an image, which is named as ls calls it, or by its digest. The\nexit code is 3 if the host does not have it.",
		Example: "  hostler image show edge-01 registry.example/debian:12\n  hostler image show edge-01 sha256:2c26b46b68ff -o json", ValidArgsFunction: a.Completing(conn.HostNames),
	}
	v := show.ShowFlags(cmd)
	v.One = false // both runtimes may have it
	cmd.RunE = a.OnHost(1, func(cmd *cobra.Command, r *conn.Remote, host protocol.HostID, rest []string) error {
		what := "show image " + rest[0]
		return show.Items(cmd.Context(), a.UI, v, noun(), a.listed(r, host, what, func(all []api.Image) ([]api.Image, error) {
			all = slices.DeleteFunc(all, func(i api.Image) bool {
				return i.Reference != rest[0] && !(strings.HasPrefix(rest[0], "sha256:") && strings.HasPrefix(i.Digest, rest[0]))
			})
			if len(all) == 0 {
				return nil, &term.Failure{Code: term.ExitNotFound, What: "cannot " + what, Why: "the host does not have it", Next: "hostler image ls " + string(host)}
			}
			return all, nil
		}))
	})
	return cmd
}

// watchEvery is the pause between two questions with --watch.
const watchEvery = 15 * time.Second

func (a *commands) pullCommand() *cobra.Command {
	var runtime string
	cmd := &cobra.Command{
		Use: "pull [HOST] IMAGE", Short: "Fetch an image from its registry", Args: term.AtMost(2),
		Long: `Fetches an image, also if the host has one of that name already: the registry may
have a newer one. Existing containers keep theirs. A pull that was interrupted
continues where it was. Creating a container pulls its image by itself.`,
		Example: "  hostler image pull edge-01 registry.example/debian:12\n  hostler image pull edge-01 registry.example/debian:12 --runtime lxc\n  hostler image pull edge-01 images:debian/12", ValidArgsFunction: a.Completing(conn.HostNames),
	}
	c := dispatch.ChangeFlags(cmd)
	runtimeFlag(cmd, &runtime, "for lxc or podman (default podman, where there is podman and it can use the image)")
	cmd.RunE = a.OnHost(1, func(cmd *cobra.Command, r *conn.Remote, host protocol.HostID, rest []string) error {
		return a.change(cmd, c, r, host, "pull "+rest[0], protocol.Spec{Kind: protocol.KindImagePull, Args: &protocol.ImagePullArgs{ImagePull: hostcmd.ImagePull{Image: rest[0], Runtime: runtime}, OutputOption: c.AnswerMode()}})
	})
	return cmd
}

func (a *commands) removeCommand() *cobra.Command {
	var runtime string
	var yes bool
	cmd := &cobra.Command{
		Use: "rm [HOST] IMAGE", Short: "Remove an image from a host", Args: term.AtMost(2),
		Long: `Removes an image, as ls calls it. Containers of lxc that were made of it stay; one
that a container of podman has is not removed.`,
		Example: "  hostler image rm edge-01 registry.example/debian:12 --yes", ValidArgsFunction: a.Completing(conn.HostNames),
	}
	c := dispatch.ChangeFlags(cmd)
	runtimeFlag(cmd, &runtime, "that of lxc or of podman (default both)")
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	cmd.RunE = a.OnHost(1, func(cmd *cobra.Command, r *conn.Remote, host protocol.HostID, rest []string) error {
		if err := a.Confirm(yes || c.DryRun, "Remove "+rest[0]+"?"); err != nil {
			return err
		}
		return a.change(cmd, c, r, host, "remove "+rest[0], protocol.Spec{Kind: protocol.KindImageRemove, Args: &protocol.ImageRemoveArgs{ImageRemove: hostcmd.ImageRemove{Image: rest[0], Runtime: runtime}, OutputOption: c.AnswerMode()}})
	})
	return cmd
}

func (a *commands) pruneCommand() *cobra.Command {
	var runtime string
	var keep int64
	var yes bool
	older := term.DurationFlag{}
	cmd := &cobra.Command{
		Use: "prune [HOST]", Short: "Remove images that were not used for long", Args: term.AtMost(1),
		Long: `Removes the images that no container was made of for --older-than, and, of lxc, those
used longest ago until all take no more than --keep-mib. Without either, only what is
left of pulls that were cut short goes, and images of podman that no container has.`,
		Example: "  hostler image prune edge-01 --older-than 30d --yes\n  hostler image prune edge-01 --runtime lxc --keep-mib 10240 --yes", ValidArgsFunction: a.Completing(conn.HostNames),
	}
	c := dispatch.ChangeFlags(cmd)
	runtimeFlag(cmd, &runtime, "those of lxc or of podman (default both)")
	cmd.Flags().Var(&older, "older-than", "not used for longer than this")
	cmd.Flags().Int64Var(&keep, "keep-mib", 0, "how many MiB of images stay")
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	cmd.RunE = a.OnHost(0, func(cmd *cobra.Command, r *conn.Remote, host protocol.HostID, _ []string) error {
		if keep < 0 || keep > maxKeep {
			return term.Usage(cmd.CommandPath()+" --help", "--keep-mib %d is not between 0 and %d", keep, maxKeep)
		}
		if err := a.Confirm(yes || c.DryRun, "Remove images that were not used for long?"); err != nil {
			return err
		}
		q := &protocol.ImagePruneArgs{ImagePrune: hostcmd.ImagePrune{OlderMS: older.Value.Milliseconds(), Keep: keep << 20, Runtime: runtime}, OutputOption: c.AnswerMode()}
		return a.change(cmd, c, r, host, "prune the images", protocol.Spec{Kind: protocol.KindImagePrune, Args: q})
	})
	return cmd
}

// maxKeep is a PiB, in MiB.
const maxKeep = 1 << 30

func runtimeFlag(cmd *cobra.Command, to *string, does string) {
	cmd.Flags().StringVar(to, "runtime", "", does)
}

// change asks for a change, and prints the images that it was about.
func (a *commands) change(cmd *cobra.Command, c *dispatch.Change, r *conn.Remote, host protocol.HostID, what string, s protocol.Spec) error {
	return dispatch.PrintChanged(cmd.Context(), a.Dispatcher, c, r, host, what, s, noun(), func(i api.Image) string { return i.Reference + " " + i.Digest })
}
