package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/protocol"
)

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
func containerNoun(local bool) noun[containerView] {
	return noun[containerView]{
		name: func(c containerView) string {
			r := ref{host: protocol.HostID(c.Host), name: c.Name}
			if local {
				r.host = ""
			}
			if c.CTID == "" {
				r.runtime = c.Runtime
			}
			return r.String()
		},
		columns: []column[containerView]{
			{"host", inTable, func(c containerView) any { return c.Host }},
			{"name", inTable, func(c containerView) any { return c.Name }},
			{"state", inTable, func(c containerView) any { return c.State }},
			{"intended", inTable, func(c containerView) any { return c.Intended }},
			{"address", inTable, func(c containerView) any { return c.Address }},
			{"labels", inTable, func(c containerView) any { return c.Labels }},
			{"runtime", inWide, func(c containerView) any { return c.Runtime }},
			{"class", inWide, func(c containerView) any { return c.Class }},
			{"offline", inWide, func(c containerView) any { return c.Offline }},
			{"failures", inWide, func(c containerView) any { return c.Failures }},
			{"ctid", inWide, func(c containerView) any { return c.CTID }},
			{"addresses", inShow, func(c containerView) any { return c.Addresses }},
			{"broken", inTable, func(c containerView) any { return c.Broken }},
		},
	}
}

func (a *app) containerCommand() *cobra.Command {
	return group("ct", "Containers", a.ctListCommand(), a.ctShowCommand(), a.ctCreateCommand(),
		a.ctStartCommand(), a.ctStopCommand(), a.ctRenameCommand(), a.ctResetCommand(), a.ctRemoveCommand())
}

func (a *app) ctListCommand() *cobra.Command {
	var labels selector
	var all bool
	cmd := &cobra.Command{
		Use: "ls [HOST]", Short: "List containers, of one host or of all", Args: atMost(1),
		Long:    "Lists containers as their hosts last told. Those without an intended state are foreign: Hostler sees them and leaves them alone.",
		Example: "  hostler ct ls\n  hostler ct ls edge-01 -o wide\n  hostler ct ls -l app=web", ValidArgsFunction: a.completing(hostNames),
	}
	v := listFlags(cmd)
	cmd.Flags().VarP(&labels, "selector", "l", "only containers with these labels")
	cmd.Flags().BoolVarP(&all, "all", "A", false, "of all hosts, which is the default")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		r, err := a.connect()
		if err != nil {
			return err
		}
		host, err := parseOneHost(args, all || r.local)
		if err != nil {
			return err
		}
		return show(cmd.Context(), a, v, containerNoun(r.local), func(ctx context.Context) ([]containerView, error) {
			found, err := r.containers(ctx, host)
			var views []containerView
			for _, c := range found {
				if labels.match(c.Labels) {
					views = append(views, viewOf(c))
				}
			}
			return views, cannot("list the containers", err)
		})
	}
	return cmd
}

// parseOneHost reads the host that may be named, unless all are meant anyway.
func parseOneHost(args []string, all bool) (protocol.HostID, error) {
	if len(args) == 0 {
		return "", nil
	}
	if all {
		return "", usage("the same without "+args[0], "one host is named where all are meant, or where this is the only one")
	}
	id, err := parseHost(args[0])
	if err != nil {
		return "", usage("hostler host ls", "%s", err)
	}
	return id, nil
}

func (a *app) ctShowCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "show HOST/NAME", Short: "Show a container", Args: exactly(1),
		Example: "  hostler ct show edge-01/web\n  hostler ct show edge-01/web -o json | jq -r .address", ValidArgsFunction: a.completing(containerNames),
	}
	v := showFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		r, err := a.connect()
		if err != nil {
			return err
		}
		name, err := parseRef(args[0], r.local)
		if err != nil {
			return usage("hostler ct ls", "%s", err)
		}
		return showOne(cmd.Context(), a, v, containerNoun(r.local), func(ctx context.Context) (containerView, error) {
			c, err := r.container(ctx, name)
			return viewOf(c), cannot("show container "+args[0], err)
		})
	}
	return cmd
}

// change is what the verbs that change a container have in common.
type change struct {
	noWait, dryRun bool
	view           *view
}

func changeFlags(cmd *cobra.Command) *change {
	c := &change{view: formatFlags(cmd)}
	cmd.Flags().BoolVar(&c.noWait, "no-wait", false, "print the action's id and leave")
	cmd.Flags().BoolVar(&c.dryRun, "dry-run", false, "print what would be asked, and ask nothing")
	return c
}

// do asks for a change and waits for its end.
func (a *app) do(ctx context.Context, r *remote, c *change, name ref, what, done string, s protocol.Spec) error {
	spec, err := encodeSpec(s)
	if err != nil {
		return err
	}
	if c.dryRun {
		return a.dryRun(ctx, r, c.view, []protocol.HostID{name.host}, s.Kind, spec)
	}
	act, err := a.submit(ctx, r, name.host, spec)
	if err != nil {
		return cannot(what, err)
	}
	if c.noWait {
		return a.printID(c.view, act)
	}
	a.say("action %s", printable(act.ID))
	final, err := (&follower{app: a, remote: r, label: name.String()}).await(ctx, act)
	if err != nil {
		a.leave(act.ID)
		return cannot(what, err)
	}
	if err := ended(what, final); err != nil {
		return err
	}
	a.say("%s is %s.", name, done)
	if word := c.view.format.word; word != "table" && word != "wide" {
		return printAll(a, c.view, actionNoun(), []api.Action{final})
	}
	return nil
}

func (a *app) ctCreateCommand() *cobra.Command {
	var template, class string
	var labels []string
	var start bool
	cmd := &cobra.Command{
		Use: "create HOST/NAME --template TEMPLATE", Short: "Make a container from a template", Args: exactly(1),
		Long: `Makes a container from a template of the host. It is stopped, unless --start
says otherwise, and stays as it is intended to be from then on: a container that
was started is started again after a reboot, one that was stopped is not.`,
		Example: "  hostler ct create edge-01/web --template busybox\n  hostler ct create edge-01/web --template busybox --start --label app=web", ValidArgsFunction: a.completingNew,
	}
	c := changeFlags(cmd)
	cmd.Flags().StringVar(&template, "template", "", "template to make it from")
	cmd.Flags().StringVar(&class, "class", "", "pinned: it belongs to this host; cloned: there may be others of it (default pinned)")
	cmd.Flags().StringArrayVar(&labels, "label", nil, "label, k=v; may be repeated")
	cmd.Flags().BoolVar(&start, "start", false, "start it, too")
	_ = cmd.RegisterFlagCompletionFunc("class", cobra.FixedCompletions([]string{"pinned", "cloned"}, cobra.ShellCompDirectiveNoFileComp))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if template == "" {
			return usage(cmd.CommandPath()+" "+args[0]+" --template busybox", "it has to be made from something: --template is missing")
		}
		if err := checkPairs("label", labels); err != nil {
			return usage("", "%s", err)
		}
		r, err := a.connect()
		if err != nil {
			return err
		}
		name, err := parseRef(args[0], r.local)
		if err != nil {
			return usage("hostler host ls", "%s", err)
		}
		if name.runtime != "" {
			return usage("", "%s: a new container is named without its runtime", args[0])
		}
		called, err := parseName(name.name)
		if err != nil {
			return err
		}
		var random [10]byte
		a.random(random[:])
		return a.do(cmd.Context(), r, c, name, "create "+name.String(), "there", protocol.Spec{
			Kind: protocol.KindCreate, Target: protocol.NewCTID(a.now().UnixMilli(), random), Name: called,
			Template: template, Class: class, Labels: labels, Start: start,
		})
	}
	return cmd
}

// onContainer is a verb that changes a container which is there.
func (a *app) onContainer(cmd *cobra.Command, verb, done string, spec func(name string) (protocol.Spec, error)) *cobra.Command {
	cmd.Args, cmd.ValidArgsFunction = exactly(1), a.completing(containerNames)
	c := changeFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.changeOne(cmd, c, args[0], verb, done, spec)
	}
	return cmd
}

// onManyContainers is onContainer for a verb that may be about many.
func (a *app) onManyContainers(cmd *cobra.Command, verb, done string, spec func(name string) (protocol.Spec, error)) *cobra.Command {
	cmd.Args, cmd.ValidArgsFunction = atMost(1), a.completing(containerNames)
	c := changeFlags(cmd)
	sel := selectionFlags(cmd, "containers of Hostler")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := sel.check(len(args)); err != nil {
			return err
		}
		if !sel.given() {
			if err := exactly(1)(cmd, args); err != nil {
				return err
			}
			if sel.bounded() {
				return a.changeBounded(cmd, c, sel, args[0], verb, spec)
			}
			return a.changeOne(cmd, c, args[0], verb, done, spec)
		}
		ctx := cmd.Context()
		r, names, all, err := a.selectContainers(ctx, sel)
		if err != nil {
			return err
		}
		var kind protocol.Kind
		places, err := onContainers(names, all, func(ct protocol.CTID, name protocol.ContainerName) ([]byte, error) {
			s, err := spec(string(name))
			if err != nil {
				return nil, err
			}
			kind, s.Target, s.Name = s.Kind, ct, name
			return encodeSpec(s)
		})
		if err != nil {
			return err
		}
		if c.dryRun {
			return a.dryRunMany(ctx, r, c.view, places, kind)
		}
		m := sel.many
		m.view, m.noWait, m.verb = c.view, c.noWait, verb+" it"
		return a.doMany(ctx, r, &m, places)
	}
	return cmd
}

// changeBounded changes the container that is named, and waits for it as for many.
func (a *app) changeBounded(cmd *cobra.Command, c *change, sel *selection, where, verb string, spec func(name string) (protocol.Spec, error)) error {
	ctx, what := cmd.Context(), verb+" "+where
	r, name, id, err := a.findContainer(ctx, where)
	if err == nil {
		err = sel.fits(r.local, false)
	}
	if err != nil {
		return cannot(what, err)
	}
	s, err := spec(name.String())
	if err != nil {
		return err
	}
	s.Target, s.Name = id, protocol.ContainerName(name.name)
	b, err := encodeSpec(s)
	if err != nil {
		return err
	}
	if c.dryRun {
		return a.dryRun(ctx, r, c.view, []protocol.HostID{name.host}, s.Kind, b)
	}
	m := sel.many
	m.view, m.noWait, m.verb = c.view, c.noWait, verb+" it"
	return a.doMany(ctx, r, &m, []place{{label: name.String(), host: name.host, spec: b}})
}

// changeOne changes the container that is named.
func (a *app) changeOne(cmd *cobra.Command, c *change, where, verb, done string, spec func(name string) (protocol.Spec, error)) error {
	ctx, what := cmd.Context(), verb+" "+where
	r, name, id, err := a.findContainer(ctx, where)
	if err != nil {
		return cannot(what, err)
	}
	s, err := spec(name.String())
	if err != nil {
		return err
	}
	s.Target, s.Name = id, protocol.ContainerName(name.name)
	return a.do(ctx, r, c, name, what, done, s)
}
func (a *app) ctStartCommand() *cobra.Command {
	return a.onManyContainers(&cobra.Command{
		Use: "start {HOST/NAME | -l SELECTOR}", Short: "Start a container, and keep it running",
		Example: "  hostler ct start edge-01/web\n  hostler ct start -l app=web --parallel 5",
	}, "start", "started", func(string) (protocol.Spec, error) {
		return protocol.Spec{Kind: protocol.KindStart}, nil
	})
}

func (a *app) ctStopCommand() *cobra.Command {
	var grace durationFlag
	var now bool
	cmd := &cobra.Command{
		Use: "stop {HOST/NAME | -l SELECTOR}", Short: "Stop a container, and keep it stopped",
		Long: `Asks a container to shut down and kills it when --grace has passed. It stays stopped until it is started.

A stop has its turn after what was asked of the container before. With --now it
waits for nothing: what runs on the container ends as preempted, commands in it
with it, what waits to start it never does, and without --grace it is killed at
once. Anything else that waits keeps its place.`,
		Example: "  hostler ct stop edge-01/web\n  hostler ct stop edge-01/db --grace 2m\n  hostler ct stop edge-01/db --now\n  hostler ct stop -l app=web",
	}
	cmd.Flags().Var(&grace, "grace", "how long it may take before it is killed (default 10s, with --now none)")
	cmd.Flags().BoolVar(&now, "now", false, "wait for nothing, and end what runs on the container")
	return a.onManyContainers(cmd, "stop", "stopped", func(string) (protocol.Spec, error) {
		kind := protocol.KindStop
		if now {
			kind = protocol.KindStopNow
		}
		return protocol.Spec{Kind: kind, GraceMS: grace.d.Milliseconds()}, nil
	})
}

func (a *app) ctRenameCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "rename HOST/NAME NEW-NAME", Short: "Give a stopped container another name",
		Long: `Gives a container that is stopped another name, which is its host name from then
on, too. Its address, its data and what was asked of it stay its own: actions that
wait for the container go with it.`,
		Example: "  hostler ct stop edge-01/web\n  hostler ct rename edge-01/web web-old",
		Args:    exactly(2), ValidArgsFunction: a.completing(containerNames),
	}
	c := changeFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		to, err := parseName(args[1])
		if err != nil {
			return err
		}
		ctx, what := cmd.Context(), "rename "+args[0]
		r, name, id, err := a.findContainer(ctx, args[0])
		if err != nil {
			return cannot(what, err)
		}
		return a.do(ctx, r, c, name, what, "renamed to "+args[1], protocol.Spec{
			Kind: protocol.KindRename, Target: id, Name: protocol.ContainerName(name.name), NewName: to,
		})
	}
	return cmd
}

func (a *app) ctResetCommand() *cobra.Command {
	return a.onContainer(&cobra.Command{
		Use: "reset HOST/NAME", Short: "Try a broken container again",
		Long:    "A container that could not be started several times in a row is broken and left alone. This forgets the failures and tries again.",
		Example: "  hostler ct reset edge-01/web",
	}, "reset", "reset", func(string) (protocol.Spec, error) {
		return protocol.Spec{Kind: protocol.KindReset}, nil
	})
}

func (a *app) ctRemoveCommand() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use: "rm HOST/NAME", Short: "Destroy a container with everything in it",
		Long: "Stops a container and destroys it with its file system. There is no way back.", Example: "  hostler ct rm edge-01/web --yes",
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return a.onContainer(cmd, "destroy", "gone", func(name string) (protocol.Spec, error) {
		dry, _ := cmd.Flags().GetBool("dry-run") // the flag is there
		return protocol.Spec{Kind: protocol.KindDestroy}, a.confirm(yes || dry, "Destroy "+name+" with everything in it?")
	})
}
