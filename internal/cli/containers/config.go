package containers

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/dispatch"
	"github.com/hostler-io/hostler/internal/cli/show"
	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/setting"
)

// settingView is a setting of a container. Change says when it can be changed.
type settingView struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Change string `json:"change"`
}

// When a setting can be changed.
const (
	changeNow     = "at once"
	changeStopped = "while it is stopped"
	changeSet     = "by ct set"
	changeImage   = "by ct upgrade"
	changeFixed   = "make it anew"
	changeLease   = "by its lease"
)

// settingsOf are the settings of a container, by their keys.
func settingsOf(d api.ContainerDetails) []settingView {
	hostname := changeStopped
	if d.Runtime == "podman" {
		hostname = changeFixed
	}
	all := []settingView{
		{"class", d.Class, changeSet}, {"hostname", cmp.Or(d.Hostname, d.Name), hostname}, {"image", d.Image, changeImage},
		{"offline", d.Offline, changeSet}, {"privileged", fmt.Sprint(d.Privileged), changeFixed}, {"runtime", d.Runtime, changeFixed},
	}
	if d.Digest != "" {
		all = append(all, settingView{"digest", d.Digest, changeImage})
	}
	if d.Rootfs != "" {
		all = append(all, settingView{"rootfs", d.Rootfs, changeFixed})
	}
	if d.Epoch != "" {
		all = append(all, settingView{"epoch", d.Epoch, changeLease})
	}
	if d.Network != "" {
		all = append(all, settingView{"network", d.Network, changeFixed})
	}
	if len(d.Command) > 0 {
		all = append(all, settingView{"command", words(d.Command), changeFixed})
	}
	pairs := func(first, change string, list []string) {
		for _, p := range list {
			name, value, _ := strings.Cut(p, "=")
			all = append(all, settingView{first + name, value, change})
		}
	}
	pairs("env.", changeFixed, d.Env)
	pairs("label.", changeNow, d.Labels)
	if d.Backup != nil {
		all = append(all, settingView{"backup", d.Backup.String(), "by backup schedule"})
	}
	if d.Snapshot != nil {
		all = append(all, settingView{"snapshot", d.Snapshot.String(), "by snapshot schedule"})
	}
	for _, l := range d.Limits {
		if l.Set != "" {
			all = append(all, settingView{"limit." + l.Resource, l.Set, changeNow})
		}
	}
	slices.SortFunc(all, func(x, y settingView) int { return cmp.Compare(x.Key, y.Key) })
	return all
}

// words are the words of a command, with quotes around those that need them.
func words(argv []string) string {
	shown := slices.Clone(argv)
	for i, w := range shown {
		if w == "" || strings.ContainsAny(w, " \t\n\"'\\") {
			shown[i] = fmt.Sprintf("%q", w)
		}
	}
	return strings.Join(shown, " ")
}

func (a *commands) ctConfigCommand() *cobra.Command {
	return term.Group("config", "Settings of containers", a.ctConfigListCommand(), a.ctConfigGetCommand(), a.ctConfigSetCommand(), a.ctConfigUnsetCommand())
}

func settingNoun() show.Noun[settingView] {
	return show.NounOf[settingView]("key", "key value~ change~", nil)
}

func (a *commands) ctConfigListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "ls HOST/NAME", Short: "List the settings of a container", Args: term.Exactly(1),
		Long: `Lists the settings of a container as its host has them, and when each can be changed:
labels and limits at once, while it runs too, a host name while it is stopped, the image
by ct upgrade, others by ct set; the rest is decided when it is made. The digest is that
of the image that the container is made of, whatever its name means by now.`,
		Example: "  hostler ct config ls edge-01/web\n  hostler ct config ls edge-01/web -o json", ValidArgsFunction: a.Completing(conn.ContainerNames),
	}
	v := show.ListFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return show.Items(cmd.Context(), a.UI, v, settingNoun(), func(ctx context.Context) ([]settingView, error) {
			d, err := a.details(ctx, args[0])
			return settingsOf(d), err
		})
	}
	return cmd
}

func (a *commands) ctConfigGetCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "get HOST/NAME KEY", Short: "Print a setting of a container", Args: term.Exactly(2),
		Long:    "Prints the value of one setting. The exit code is 3 if the container does not have it.",
		Example: "  hostler ct config get edge-01/web limit.memory", ValidArgsFunction: a.Completing(conn.ContainerNames),
	}
	v := show.ShowFlags(cmd)
	find := func(ctx context.Context, args []string) (settingView, error) {
		d, err := a.details(ctx, args[0])
		if err != nil {
			return settingView{}, err
		}
		all := settingsOf(d)
		i := slices.IndexFunc(all, func(s settingView) bool { return s.Key == args[1] })
		if i < 0 {
			return settingView{}, &term.Failure{Code: term.ExitNotFound, What: "cannot print " + args[1] + " of " + args[0], Why: "the container has no such setting", Next: "hostler ct config ls " + args[0]}
		}
		return all[i], nil
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if word := v.Format.Word; !v.Watch && (word == "table" || word == "wide") { // for scripts, the value alone
			s, err := find(cmd.Context(), args)
			if err == nil {
				fmt.Fprintln(a.Out, s.Value)
			}
			return err
		}
		return show.Item(cmd.Context(), a.UI, v, settingNoun(), func(ctx context.Context) (settingView, error) { return find(ctx, args) })
	}
	return cmd
}

func (a *commands) ctConfigSetCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "set HOST/NAME KEY=VALUE…", Short: "Change settings of a container, all or none",
		Long: `Changes settings of a container: all of them, or none if one cannot be changed. They
are in force at once and after every start; nothing is restarted.

  label.NAME=VALUE       a label, as selectors read it
  limit.RESOURCE=VALUE   a limit, as hostler ct limit takes it
  hostname=NAME          what a container of LXC calls itself, if it is stopped

The variables and the command are fixed when a container is made; another image comes
by hostler ct upgrade.`,
		Example: "  hostler ct config set edge-01/web label.tier=front limit.memory=512MiB\n  hostler ct config set edge-01/web limit.memory=64MiB --force",
	}
	var force bool
	cmd.Flags().BoolVar(&force, "force", false, "also limits below what it uses now")
	return a.changing(cmd, true, &force)
}

func (a *commands) ctConfigUnsetCommand() *cobra.Command {
	return a.changing(&cobra.Command{
		Use: "unset HOST/NAME KEY…", Short: "Take settings of a container away, all or none",
		Long:    "Takes labels and limits of a container away: label.NAME and limit.RESOURCE; hostname\nhas it go by its name again.",
		Example: "  hostler ct config unset edge-01/web label.tier limit.memory",
	}, false, new(bool))
}

// changing is a command that changes settings: it gives them values, or takes them away.
func (a *commands) changing(cmd *cobra.Command, values bool, force *bool) *cobra.Command {
	cmd.Args, cmd.ValidArgsFunction = term.AtLeast(2), a.Completing(conn.ContainerNames)
	c := dispatch.ChangeFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		for _, s := range args[1:] {
			switch has := strings.Contains(s, "="); {
			case has && !values:
				return term.Usage("hostler ct config set "+args[0]+" "+s, "%q: want a KEY without a value", s)
			case !has && values:
				return term.Usage("hostler ct config unset "+args[0]+" "+s, "%q: want KEY=VALUE, such as label.app=web", s)
			}
		}
		if _, err := setting.Parse(args[1:]); err != nil {
			return term.Usage("hostler ct config --help", "%s", err)
		}
		return a.changeOne(cmd, c, args[0], "change", "changed", func(string) (protocol.Spec, error) {
			return protocol.Spec{Kind: protocol.KindConfig, Args: &protocol.ConfigArgs{Set: args[1:], Force: *force}}, nil
		})
	}
	return cmd
}
