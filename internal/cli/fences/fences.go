// Package fences cuts hosts off for certain: hostler fence, and hostler host fence, unfence
// and confirm-fenced.
package fences

import (
	"context"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/keyring"
	"github.com/hostler-io/hostler/internal/cli/show"
	"github.com/hostler-io/hostler/internal/cli/term"
)

const (
	devicesPath = "/v1/fence-devices"
	fencesPath  = "/v1/fences"
)

type commands struct {
	*conn.Env
	keys *keyring.Store
}

// Command returns hostler fence.
func Command(e *conn.Env, keys *keyring.Store) *cobra.Command {
	a := &commands{e, keys}
	device := term.Group("device", "Fence devices: what can switch a host off",
		a.deviceAddCommand(), a.deviceListCommand(), a.deviceShowCommand(), a.deviceTestCommand(), a.deviceRemoveCommand())
	return term.Group("fence", "Fence devices, and what they were used for", device, a.historyCommand())
}

func deviceNoun() show.Noun[api.FenceDevice] {
	return show.NounOf("name", "name agent via~~ hosts~ used~~ checked_at trouble~ delay+ random++ tries+ timeout+ params+ secrets+ added_at++ added_by++", show.Cells[api.FenceDevice]{
		"hosts":   func(d api.FenceDevice) any { return conn.Each(d.Hosts, targetText) },
		"used":    func(d api.FenceDevice) any { return used(d) },
		"params":  func(d api.FenceDevice) any { return pairs(d.Params) },
		"secrets": func(d api.FenceDevice) any { return pairs(d.Secrets) },
	})
}

func targetText(t api.FenceTarget) string {
	text := t.Host
	if t.Plug != "" {
		text += "=" + t.Plug
	}
	if t.Level > 1 {
		text += " (level " + strconv.Itoa(t.Level) + ")"
	}
	return text
}

// used says whether a device is used, and why not.
func used(d api.FenceDevice) string {
	var not []string
	for _, t := range d.Hosts {
		if t.Why != "" {
			not = append(not, "not for "+t.Host+": "+t.Why)
		}
	}
	if len(not) == 0 {
		return "yes"
	}
	return strings.Join(not, "; ")
}

func pairs(m map[string]string) []string {
	all := []string{}
	for key, value := range m {
		all = append(all, key+"="+value)
	}
	slices.Sort(all)
	return all
}

func (a *commands) deviceAddCommand() *cobra.Command {
	var agent, via string
	var hosts, delays, params, secrets []string
	var level, tries int
	var delay, random, timeout term.DurationFlag
	cmd := &cobra.Command{
		Use: "add NAME", Short: "Add or replace a fence device", Args: term.Exactly(1),
		Long: `Adds a fence device: a program of fence-agents on the coordinator's machine, what it is
told, and the hosts that it can switch off. The device is asked for the status of its
hosts at once. It is used for a host only when it has said once that the host is on
while the coordinator heard the host: only that shows that it is the device of this
host.

A secret is never sent: --secret password=FILE names a file in the directory
fence.secrets_dir of the coordinator, or a credential of its systemd unit.

A device that only another host can reach is asked by that host: --via gw-01. There,
/etc/hostler/fence/NAME.toml says which program speaks to the device and what it is
told; neither is ever in a message. The order to that host lives for 10 seconds.

With --level, devices are used one level after the other: all devices of level 1 must
succeed; if one of them fails, those of level 2 are used.`,
		Example: "  hostler fence device add bmc-07 --agent fence_ipmilan --host edge-07 \\\n      -p ip=192.0.2.7 -p username=hostler --secret password=bmc-07\n" +
			"  hostler fence device add rack-1 --agent fence_apc --level 2 \\\n      --host edge-07=4 --host edge-08=5 -p ip=192.0.2.90 --secret password=pdu\n" +
			"  hostler fence device add pdu-2 --via gw-01 --host edge-09=1 --host edge-10=2",
	}
	f := cmd.Flags()
	f.StringVar(&agent, "agent", "", "the program, such as fence_ipmilan")
	f.StringVar(&via, "via", "", "the host that asks the device; --agent, --param and --secret stand in its file then")
	f.StringArrayVar(&hosts, "host", nil, "a host, with what the device calls it: HOST or HOST=PLUG; can be repeated")
	f.StringArrayVarP(&params, "param", "p", nil, "a parameter of the program: KEY=VALUE; can be repeated")
	f.StringArrayVar(&secrets, "secret", nil, "a parameter whose value is in a file of the coordinator: KEY=FILE; can be repeated")
	f.IntVar(&level, "level", 1, "when it is used: 1 to 9, level 1 first")
	f.IntVar(&tries, "tries", 2, "how often an off is sent at most")
	f.Var(&delay, "delay", "how long is waited before it is used first")
	f.StringArrayVar(&delays, "host-delay", nil, "how much longer is waited before a host is switched off: HOST=DURATION; can be repeated")
	f.Var(&random, "random-delay", "how much longer is waited at most, by chance")
	f.Var(&timeout, "timeout", "how long a try may take (default 1m)")
	_ = cmd.RegisterFlagCompletionFunc("via", a.Completing(conn.HostNames))
	v := show.FormatFlags(cmd)
	cmd.RunE = a.OnCoordinator(func(cmd *cobra.Command, args []string, r *conn.Remote) error {
		want := api.NewFenceDevice{Agent: agent, Via: via, Tries: tries, Delay: delay.String(), Random: random.String(), Timeout: timeout.String()}
		switch {
		case len(hosts) == 0 || agent == "" && via == "":
			return term.Usage("hostler fence device add "+args[0]+" --agent fence_ipmilan --host HOST    # or --via HOST in place of --agent", "name the program with --agent, or the host that knows it with --via; and with --host what the device switches")
		case via != "" && (agent != "" || len(params)+len(secrets) > 0):
			return term.Usage("hostler fence device add "+args[0]+" --via "+via+" --host "+hosts[0], "host %s knows the program, its parameters and secrets: write them into /etc/hostler/fence/%s.toml there", via, args[0])
		}
		for _, h := range hosts {
			host, plug, _ := strings.Cut(h, "=")
			want.Hosts = append(want.Hosts, api.NewFenceTarget{Host: host, Plug: plug, Level: level})
		}
		later, err := keyed("--host-delay", delays)
		if err != nil {
			return err
		}
		for i := range want.Hosts {
			t := &want.Hosts[i]
			t.Delay = later[t.Host]
			delete(later, t.Host)
		}
		for host := range later {
			return term.Usage("", "--host-delay %s: name that host with --host, too", host)
		}
		if want.Params, err = keyed("--param", params); err != nil {
			return err
		}
		if want.Secrets, err = keyed("--secret", secrets); err != nil {
			return err
		}
		return show.Item(cmd.Context(), a.UI, v, deviceNoun(), func(ctx context.Context) (set api.FenceDevice, err error) {
			err = r.Put(ctx, devicesPath+"/"+url.PathEscape(args[0]), want, &set)
			return set, term.Cannot("add fence device "+args[0], err)
		})
	})
	return cmd
}

// keyed reads options of the form KEY=VALUE.
func keyed(option string, all []string) (map[string]string, error) {
	m := map[string]string{}
	for _, text := range all {
		key, value, ok := strings.Cut(text, "=")
		if _, twice := m[key]; !ok || key == "" || twice {
			return nil, term.Usage("", "%s %q: use KEY=VALUE, each key once", option, text)
		}
		m[key] = value
	}
	return m, nil
}

func devices(ctx context.Context, r *conn.Remote) (all []api.FenceDevice, err error) {
	err = r.Get(ctx, devicesPath, nil, &all)
	return all, err
}

func deviceNames(ctx context.Context, r *conn.Remote) ([]string, error) {
	all, err := devices(ctx, r)
	return conn.Each(all, func(d api.FenceDevice) string { return d.Name }), err
}

func (a *commands) deviceListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "ls", Short: "List the fence devices, and whether they are used", Args: term.NoArgs, Example: "  hostler fence device ls\n  hostler fence device ls -o json",
	}
	v := show.ListFlags(cmd)
	cmd.RunE = a.OnCoordinator(func(cmd *cobra.Command, _ []string, r *conn.Remote) error {
		return show.Items(cmd.Context(), a.UI, v, deviceNoun(), func(ctx context.Context) ([]api.FenceDevice, error) {
			all, err := devices(ctx, r)
			return all, term.Cannot("list the fence devices", err)
		})
	})
	return cmd
}

func (a *commands) deviceShowCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "show NAME", Short: "Show a fence device", Args: term.Exactly(1), Example: "  hostler fence device show bmc-07", ValidArgsFunction: a.Completing(deviceNames)}
	v := show.ShowFlags(cmd)
	cmd.RunE = a.OnCoordinator(func(cmd *cobra.Command, args []string, r *conn.Remote) error {
		return show.Item(cmd.Context(), a.UI, v, deviceNoun(), func(ctx context.Context) (d api.FenceDevice, err error) {
			err = r.Get(ctx, devicesPath+"/"+url.PathEscape(args[0]), nil, &d)
			return d, term.Missing(term.Cannot("show fence device "+args[0], err), "hostler fence device ls")
		})
	})
	return cmd
}

func (a *commands) deviceTestCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "test NAME", Short: "Ask a fence device for the status of its hosts", Args: term.Exactly(1), Example: "  hostler fence device test bmc-07", ValidArgsFunction: a.Completing(deviceNames),
		Long: "Asks the device for the status of each of its hosts; nothing is switched. A device that\nnames a host as off that the coordinator hears is the device of another host, or lies:\nit is not used for that host any more, until a test finds otherwise. The coordinator\ndoes the same every 5 minutes. Exit code 1: the device cannot be used for all of its\nhosts.",
	}
	v := show.FormatFlags(cmd)
	cmd.RunE = a.OnCoordinator(func(cmd *cobra.Command, args []string, r *conn.Remote) error {
		var d api.FenceDevice
		if err := r.Post(cmd.Context(), devicesPath+"/"+url.PathEscape(args[0])+"/test", nil, nil, &d); err != nil {
			return term.Missing(term.Cannot("test fence device "+args[0], err), "hostler fence device ls")
		}
		if err := show.Print(a.UI, v, deviceNoun(), []api.FenceDevice{d}); err != nil {
			return err
		}
		if why := used(d); why != "yes" || d.Trouble != "" {
			if d.Trouble != "" {
				why = d.Trouble
			}
			return &term.Failure{Code: term.ExitFailed, What: "fence device " + args[0] + " cannot be used for all of its hosts", Why: why, Next: "hostler fence device show " + args[0]}
		}
		return nil
	})
	return cmd
}

func (a *commands) deviceRemoveCommand() *cobra.Command {
	return &cobra.Command{
		Use: "rm NAME", Short: "Remove a fence device", Args: term.Exactly(1), Example: "  hostler fence device rm bmc-07", ValidArgsFunction: a.Completing(deviceNames),
		RunE: a.OnCoordinator(func(cmd *cobra.Command, args []string, r *conn.Remote) error {
			if err := r.Delete(cmd.Context(), devicesPath+"/"+url.PathEscape(args[0]), nil); err != nil {
				return term.Missing(term.Cannot("remove fence device "+args[0], err), "hostler fence device ls")
			}
			a.Say("Fence device %s is removed.", args[0])
			return nil
		}),
	}
}

func fenceNoun() show.Noun[api.Fence] {
	return show.NounOf("id", "host action state cause begun_at by~ proof~~ reason~ evidence+ id+ ended_at++ returned_at++ closes++ log++", show.Cells[api.Fence]{
		"log": func(f api.Fence) any {
			return conn.Each(f.Log, func(l api.FenceLine) string { return l.At.UTC().Format(time.RFC3339) + " " + l.Text })
		},
	})
}

func (a *commands) historyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "history [HOST]", Short: "List fences: what led to each, and what came of it", Args: term.AtMost(1),
		Long: `Lists the newest fences first, and above them what is held back: a host that would be
fenced if the coordinator did not suspect its own side, or had not fenced so many
already. REASON says what holds it back; hostler host fence HOST does it all the same.
With a host and -o json, the log of each fence is shown.`,
		Example: "  hostler fence history\n  hostler fence history edge-07 -o wide\n  hostler fence history --filter state=held", ValidArgsFunction: a.Completing(conn.HostNames),
	}
	v := show.ListFlags(cmd)
	cmd.RunE = a.OnCoordinator(func(cmd *cobra.Command, args []string, r *conn.Remote) error {
		return show.Items(cmd.Context(), a.UI, v, fenceNoun(), func(ctx context.Context) ([]api.Fence, error) {
			var all []api.Fence
			err := r.Get(ctx, fencesPath, nil, &all)
			all = slices.DeleteFunc(all, func(f api.Fence) bool { return len(args) == 1 && f.Host != args[0] })
			return all, term.Cannot("list the fences", err)
		})
	})
	return cmd
}
