// Package containers has the commands of hostler ct.
package containers

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/internal/cli/batch"
	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/dispatch"
	"github.com/hostler-io/hostler/internal/cli/placements"
	"github.com/hostler-io/hostler/internal/cli/show"
	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/contract"
	"github.com/hostler-io/hostler/protocol/port"
)

type commands struct{ *batch.Batcher }

// Command returns hostler ct, with more commands of other packages.
func Command(b *batch.Batcher, more ...*cobra.Command) *cobra.Command {
	a := &commands{b}
	ct := term.Group("ct", "Containers", a.ctListCommand(), a.ctShowCommand(), a.ctCreateCommand(),
		a.ctStartCommand(), a.ctStopCommand(), a.ctRestartCommand(),
		a.ctLogsCommand(), a.ctExitsCommand(), a.ctLimitCommand(), a.ctConfigCommand(), a.ctApplyCommand(), a.ctSetCommand(), a.ctExplainCommand(), a.ctFreezeCommand(), a.ctUnfreezeCommand(), a.ctRenameCommand(), cloneCommand(a), adoptCommand(a), upgradeCommand(a), a.ctResetCommand(), a.ctRemoveCommand())
	ct.AddCommand(more...)
	return ct
}

// containerView is a container with the one address that people ask for.
type containerView struct {
	api.Container
	Address string `json:"address,omitempty"` // the first, without its prefix length
}

func viewOf(c api.Container) containerView {
	v := containerView{Container: c}
	if len(c.Addresses) > 0 {
		v.Address, _, _ = strings.Cut(c.Addresses[0], "/")
	}
	return v
}

// containerNoun names a container as commands take it: on the host itself
// without the host.
func containerNoun(local bool) show.Noun[containerView] {
	n := show.NounOf[containerView]("name", "host name state intended address labels~ privileged health~ volumes+ mounts+ backup_at+ backup+ restored++ runtime+ class+ offline+ failures+ start_order++ start_after++ waits+ ctid+ addresses++ broken~", show.Cells[containerView]{"privileged": func(c containerView) any {
		if c.Privileged {
			return "yes"
		}
		return ""
	}})
	n.Name = func(c containerView) string {
		r := conn.Ref{Host: protocol.HostID(c.Host), Name: c.Name}
		if local {
			r.Host = ""
		}
		if c.CTID == "" {
			r.Runtime = c.Runtime
		}
		return r.String()
	}
	return n
}

func (a *commands) ctListCommand() *cobra.Command {
	var labels conn.Selector
	var all bool
	cmd := &cobra.Command{
		Use: "ls [HOST]", Short: "List containers, of one host or of all", Args: term.AtMost(1),
		Long:    "Lists containers as their hosts last reported them. Those without an intended state are foreign: Hostler shows them and leaves them alone.",
		Example: "  hostler ct ls\n  hostler ct ls edge-01 -o wide\n  hostler ct ls -A -l app=web --filter state=stopped", ValidArgsFunction: a.Completing(conn.HostNames),
	}
	v := show.ListFlags(cmd)
	cmd.Flags().VarP(&labels, "selector", "l", "only containers selected by labels")
	cmd.Flags().BoolVarP(&all, "all", "A", false, "of all hosts (the default)")
	cmd.RunE = a.OnRemote(func(cmd *cobra.Command, args []string, r *conn.Remote) error {
		host, err := conn.ParseOneHost(args, all || r.Local)
		if err != nil {
			return err
		}
		return show.Items(cmd.Context(), a.UI, v, containerNoun(r.Local), func(ctx context.Context) ([]containerView, error) {
			found, err := r.Containers(ctx, host)
			var views []containerView
			for _, c := range found {
				if labels.Match(c.Labels) {
					views = append(views, viewOf(c))
				}
			}
			return views, term.Cannot("list the containers", err)
		})
	})
	return cmd
}

func (a *commands) ctShowCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "show HOST/NAME", SuggestFor: []string{"info", "inspect"}, Short: "Show a container", Args: term.Exactly(1),
		Example: "  hostler ct show edge-01/web\n  hostler ct show edge-01/web -o json | jq -r .address", ValidArgsFunction: a.Completing(conn.ContainerNames),
	}
	v := show.ShowFlags(cmd)
	cmd.RunE = a.OnRemote(func(cmd *cobra.Command, args []string, r *conn.Remote) error {
		name, err := conn.ParseRef(args[0], r.Local)
		if err != nil {
			return term.Usage("hostler ct ls", "%s", err)
		}
		return show.Item(cmd.Context(), a.UI, v, containerNoun(r.Local), func(ctx context.Context) (containerView, error) {
			c, err := r.Container(ctx, name)
			return viewOf(c), term.Cannot("show container "+args[0], err)
		})
	})
	return cmd
}

func (a *commands) ctCreateCommand() *cobra.Command {
	var template, runtime, class, offline, pull, data string
	var labels, ports []string
	var start, privileged, placed bool
	var wishes api.Wishes
	cmd := &cobra.Command{
		Use: "create {HOST/NAME | --place NAME} IMAGE [flags] [-- COMMAND ARG…]", Short: "Make a container from an image or a template", Args: cobra.ArbitraryArgs,
		Long: `Makes a container. IMAGE is one of these:

  registry.example/debian:12    an image of a registry
  images:debian/12              of an image server for LXC (images.servers)
  https://site.example/web.tar  an archive of a root directory, or an OCI image
  file:/srv/web                 the same in a file of the host, or an OCI layout
  debootstrap:bookworm          made of the packages of Debian, for LXC
  busybox                       a template of LXC; also with --template

The host fetches an image that it does not have. With --pull always it asks the
source for a newer image each time; with --pull never it uses only the images that it
has. The container is stopped unless --start is given. Hostler keeps it in this state:
after a reboot it starts a container that was started, and leaves others stopped.

Podman makes the container if the host has podman; LXC makes it on other hosts, and
with --runtime lxc. In LXC the entrypoint and command of the image run. An image with
/sbin/init whose only command is a shell boots as a system.

A command after -- replaces the command of the image and follows its entrypoint; a
template has its own init and takes no command. --env adds variables to those of the
image. --limit sets the limits of hostler ct limit from the first start.

Users in the container are not users of the host: its root is a user of the host
that no other container has and that has no rights there. With --privileged they are
the users of the host, and root in the container can become root of the host. Use it
only for work that needs it, such as loading modules or mounting disks.

--volume data:/srv gives it a volume: a directory of the host with a name, which is made
if it is not there, and stays when the container goes; see hostler volume. A volume
belongs to one container, unless all that have it are privileged. --mount
/etc/app:/etc/app:ro gives it a file or a directory of the host itself. A person that may do
that can become root of the host. Clones, snapshots and backups have neither.

With --profile NAME, the file profiles/NAME.yaml of the configuration says what no flag
says; its keys are those of hostler ct apply.

With --place and a NAME without a host the coordinator chooses the host: by the labels of
-l, by the limits, which must fit, and by the other wishes. A unique container keeps its
wishes and goes by them when it moves; see hostler placement.

--expose 8080:80/tcp forwards port 8080 of the host to port 80 of the container; see
hostler net expose.`,
		Example: "  hostler ct create edge-01/web --template busybox\n  hostler ct create edge-01/web --template busybox --start --label app=web\n  hostler ct create edge-01/db registry.example/debian:12 --runtime lxc\n  hostler ct create edge-01/mail images:debian/12 --start\n  hostler ct create edge-01/job reg.example/job:3 --env A=b -- /bin/job\n  hostler ct create --place -l site=lab db debian:12 --class unique --start", ValidArgsFunction: a.CompletingNew,
	}
	c := dispatch.ChangeFlags(cmd)
	var s shape
	s.flags(cmd)
	placements.PlaceFlags(cmd, &wishes)
	cmd.Flags().BoolVar(&placed, "place", false, "have the coordinator choose the host")
	cmd.Flags().StringVar(&template, "template", "", "template to make it from, in place of IMAGE")
	cmd.Flags().StringVar(&runtime, "runtime", "", "lxc or podman (default: the one that can use the image)")
	cmd.Flags().StringVar(&pull, "pull", "", "fetch the image: missing, always or never (default missing)")
	cmd.Flags().StringVar(&class, "class", "", "pinned: it belongs to this host; cloned: other hosts may have copies of it; unique: at most one copy runs at any time (default pinned)")
	cmd.Flags().StringVar(&data, "data", "", "where a unique container keeps its data: local (the default; it never starts on another host), shared, none, or backup (a new host makes it of its newest backup)")
	cmd.Flags().StringVar(&offline, "offline", "", "what it does while its host is cut off: keep, or stop-after=DURATION (default keep); a unique container: lease (it stops when its lease ends, the default), or keep")
	cmd.Flags().StringArrayVar(&labels, "label", nil, "label, k=v; may be repeated")
	cmd.Flags().StringArrayVar(&ports, "expose", nil, "forward a port of the host to it, HOST-PORT:CONTAINER-PORT/tcp or /udp; may be repeated")
	cmd.Flags().BoolVar(&start, "start", false, "also start it")
	cmd.Flags().BoolVar(&privileged, "privileged", false, "root in it is root of the host")
	_ = cmd.RegisterFlagCompletionFunc("class", cobra.FixedCompletions([]string{"pinned", "cloned", "unique"}, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("pull", cobra.FixedCompletions([]string{"missing", "always", "never"}, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("runtime", cobra.FixedCompletions([]string{"lxc", "podman"}, cobra.ShellCompDirectiveNoFileComp))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		args, err := s.read(cmd, args)
		switch {
		case err != nil:
			return err
		case len(args) == 0:
			return term.Exactly(1)(cmd, args)
		case template == "" && len(args) == 1 && len(s.profiles) == 0:
			return term.Usage(cmd.CommandPath()+" "+args[0]+" --template busybox", "IMAGE is missing")
		case template != "" && len(args) == 2:
			return term.Usage("", "IMAGE and --template are two words for one thing: give one of them")
		case len(args) == 2:
			template = args[1]
		}
		if err := conn.CheckLabels(labels); err != nil {
			return term.Usage("", "%s", err)
		}
		if err := contract.CheckClass(class, offline); err != nil {
			return term.Usage("", "%s", err)
		}
		if _, err := port.ParseAll(ports); err != nil {
			return term.Usage("", "--expose: %s", err)
		}
		r, err := a.Connect()
		if err != nil {
			return err
		}
		wished := placed || slices.ContainsFunc([]string{"selector", "prefer", "avoid", "near", "apart", "discover", "after", "priority"}, cmd.Flags().Changed)
		switch {
		case wished && r.Local:
			return term.Usage("", "the coordinator places containers; leave out --local")
		case wished && !placed && class != contract.Unique:
			return term.Usage("", "wishes about hosts are for --place, or for --class unique")
		case wished:
			c.Place = &wishes
		}
		name, err := conn.ParseRef(args[0], r.Local || placed)
		if err != nil {
			return term.Usage("hostler host ls", "%s", err)
		}
		if name.Runtime != "" {
			return term.Usage("", "%s: name a new container without its runtime", args[0])
		}
		called, err := conn.ParseName(name.Name)
		if err != nil {
			return err
		}
		asked, err := s.in(protocol.CreateArgs{Template: template, Runtime: runtime, Pull: pull, Class: class, Offline: offline, Data: data, Labels: labels, Start: start, Privileged: privileged, Expose: ports}, cmd, a.profile)
		if err == nil && asked.Template == "" {
			err = errors.New("IMAGE is missing, and no profile names one")
		}
		if err == nil && data != "" && asked.Class != contract.Unique {
			err = errors.New("--data: only a unique container can go to another host; add --class unique")
		}
		if err != nil {
			return term.Usage(cmd.CommandPath()+" --help", "%s", err)
		}
		return placements.NameFlags(a.Do(cmd.Context(), r, c, name, "create "+name.String(), "there", protocol.Spec{Kind: protocol.KindCreate, Target: newCTID(a), Name: called, Args: asked}))
	}
	return cmd
}

// newCTID is the id of a new container.
func newCTID(a *commands) protocol.CTID {
	var random [10]byte
	a.Random(random[:])
	return protocol.NewCTID(a.Now().UnixMilli(), random)
}

// onContainer is a verb that changes a container which is there.
func (a *commands) onContainer(cmd *cobra.Command, verb, done string, spec func(name string) (protocol.Spec, error)) *cobra.Command {
	cmd.Args, cmd.ValidArgsFunction = term.Exactly(1), a.Completing(conn.ContainerNames)
	c := dispatch.ChangeFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.changeOne(cmd, c, args[0], verb, done, spec)
	}
	return cmd
}

// onManyContainers is onContainer for a verb that may be about many.
func (a *commands) onManyContainers(cmd *cobra.Command, verb, done string, spec func(name string) (protocol.Spec, error)) *cobra.Command {
	cmd.Args, cmd.ValidArgsFunction = term.AtMost(1), a.Completing(conn.ContainerNames)
	c := dispatch.ChangeFlags(cmd)
	sel := batch.SelectionFlags(cmd, "containers of Hostler")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := sel.Check(len(args)); err != nil {
			return err
		}
		if !sel.Given() {
			if err := term.Exactly(1)(cmd, args); err != nil {
				return err
			}
			if !sel.Bounded() {
				return a.changeOne(cmd, c, args[0], verb, done, spec)
			}
		}
		ctx, where := cmd.Context(), strings.Join(args, "")
		r, found, err := a.FindContainers(ctx, sel, where)
		if err != nil {
			return term.Cannot(verb+" "+where, err)
		}
		places, err := batch.OnContainers(found, func(f batch.Found) ([]byte, error) {
			s, err := spec(f.String())
			if err != nil {
				return nil, err
			}
			s.Target, s.Name = f.ID, protocol.ContainerName(f.Name)
			return dispatch.EncodeSpec(s)
		})
		if err != nil {
			return err
		}
		if c.DryRun {
			return a.DryRun(ctx, r, c.View, places...)
		}
		m := sel.Many
		m.View, m.NoWait, m.Verb = c.View, c.NoWait, verb+" it"
		return a.DoMany(ctx, r, &m, places)
	}
	return cmd
}

// changeOne changes the container that is named.
func (a *commands) changeOne(cmd *cobra.Command, c *dispatch.Change, where, verb, done string, spec func(name string) (protocol.Spec, error)) error {
	ctx, what := cmd.Context(), verb+" "+where
	r, name, id, err := a.FindContainer(ctx, where)
	if err != nil {
		return term.Cannot(what, err)
	}
	s, err := spec(name.String())
	if err != nil {
		return err
	}
	s.Target, s.Name = id, protocol.ContainerName(name.Name)
	return a.Do(ctx, r, c, name, what, done, s)
}

func (a *commands) ctStartCommand() *cobra.Command {
	return a.onManyContainers(&cobra.Command{
		Use: "start {HOST/NAME | -l SELECTOR}", Short: "Start a container, and keep it running",
		Example: "  hostler ct start edge-01/web\n  hostler ct start -l app=web --parallel 5",
	}, "start", "started", func(string) (protocol.Spec, error) {
		return protocol.Spec{Kind: protocol.KindStart}, nil
	})
}

func (a *commands) ctStopCommand() *cobra.Command {
	grace := term.DurationFlag{NoTime: "to kill it at once, use --now without --grace"}
	var now bool
	cmd := &cobra.Command{
		Use: "stop {HOST/NAME | -l SELECTOR}", SuggestFor: []string{"kill"}, Short: "Stop a container, and keep it stopped",
		Long: `Asks a container to shut down and kills it when --grace has passed. It stays stopped until it is started.

A stop waits for earlier actions of the container. With --now it waits for nothing:
the running action and commands in the container end as preempted, waiting starts
are dropped, and without --grace the container is killed at once. Other waiting
actions keep their place.`,
		Example: "  hostler ct stop edge-01/web\n  hostler ct stop edge-01/db --grace 2m\n  hostler ct stop edge-01/db --now\n  hostler ct stop -l app=web",
	}
	cmd.Flags().Var(&grace, "grace", "how long it may take before it is killed (default 10s, with --now none)")
	cmd.Flags().BoolVar(&now, "now", false, "do not wait, and end what runs in the container")
	return a.onManyContainers(cmd, "stop", "stopped", func(string) (protocol.Spec, error) {
		kind := protocol.KindStop
		if now {
			kind = protocol.KindStopNow
		}
		return protocol.Spec{Kind: kind, Args: &protocol.StopArgs{GraceMS: grace.Value.Milliseconds()}}, nil
	})
}

func (a *commands) ctRestartCommand() *cobra.Command {
	var grace term.DurationFlag
	cmd := &cobra.Command{
		Use: "restart {HOST/NAME | -l SELECTOR}", Short: "Stop a container, and start it again",
		Long:    "Asks a container to shut down, kills it when --grace has passed, and starts it. A container that is stopped is started.",
		Example: "  hostler ct restart edge-01/web\n  hostler ct restart -l app=web --parallel 5",
	}
	cmd.Flags().Var(&grace, "grace", "how long it may take before it is killed (default 10s)")
	return a.onManyContainers(cmd, "restart", "restarted", func(string) (protocol.Spec, error) {
		return protocol.Spec{Kind: protocol.KindRestart, Args: &protocol.StopArgs{GraceMS: grace.Value.Milliseconds()}}, nil
	})
}

func (a *commands) ctRenameCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "rename HOST/NAME NEW-NAME", Short: "Give a stopped container another name",
		Long: `Renames a stopped container, and its host name too. Its address, its data and its
waiting actions stay.`,
		Example: "  hostler ct stop edge-01/web\n  hostler ct rename edge-01/web web-old",
		Args:    term.Exactly(2), ValidArgsFunction: a.Completing(conn.ContainerNames),
	}
	c := dispatch.ChangeFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		to, err := conn.ParseName(args[1])
		if err != nil {
			return err
		}
		ctx, what := cmd.Context(), "rename "+args[0]
		r, name, id, err := a.FindContainer(ctx, args[0])
		if err != nil {
			return term.Cannot(what, err)
		}
		return a.Do(ctx, r, c, name, what, "renamed to "+args[1], protocol.Spec{
			Kind: protocol.KindRename, Target: id, Name: protocol.ContainerName(name.Name),
			Args: &protocol.RenameArgs{NewName: to},
		})
	}
	return cmd
}

func (a *commands) ctResetCommand() *cobra.Command {
	return a.onContainer(&cobra.Command{
		Use: "reset HOST/NAME", Short: "Try a broken container again",
		Long:    "A container whose start failed several times in a row is broken and left alone. This forgets the failures and tries again.",
		Example: "  hostler ct reset edge-01/web",
	}, "reset", "reset", func(string) (protocol.Spec, error) {
		return protocol.Spec{Kind: protocol.KindReset}, nil
	})
}

func (a *commands) ctRemoveCommand() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use: "rm HOST/NAME", SuggestFor: []string{"destroy"}, Short: "Destroy a container with everything in it",
		Long: "Stops a container and destroys it with its file system. This cannot be undone. Its volumes\nstay; see hostler volume.", Example: "  hostler ct rm edge-01/web --yes",
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return a.onContainer(cmd, "destroy", "gone", func(name string) (protocol.Spec, error) {
		dry, _ := cmd.Flags().GetBool("dry-run") // the flag is there
		return protocol.Spec{Kind: protocol.KindDestroy}, a.Confirm(yes || dry, "Destroy "+name+" with everything in it?")
	})
}
