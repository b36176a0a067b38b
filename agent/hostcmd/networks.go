package hostcmd

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/client"
	"github.com/hostler-io/hostler/internal/daemon"
	"github.com/hostler-io/hostler/network"
)

// networks is what a host has of networks, for one command.
type networks struct{ socket, bridge, mark string }

// networksCommand is run by the agent itself, under a supervisor.
func networksCommand() *cobra.Command {
	cmd := daemon.Group("networks", "For the agent alone", "networks needs ls or cleanup")
	cmd.Hidden = true
	for verb, do := range map[string]func(networks, context.Context, io.Writer) error{"ls": networks.list, "cleanup": networks.cleanup} {
		var n networks
		sub := &cobra.Command{
			Use: verb, Short: "For the agent alone", Hidden: true, Args: noArgs,
			RunE: func(cmd *cobra.Command, _ []string) error { return do(n, cmd.Context(), cmd.OutOrStdout()) },
		}
		f := sub.Flags()
		f.StringVar(&n.socket, "socket", "", "the agent's socket")
		f.StringVar(&n.bridge, "bridge", "", "the bridge of the containers")
		f.StringVar(&n.mark, "mark", "", "the mark of the agent's rules")
		cmd.AddCommand(sub)
	}
	return cmd
}

// containers asks the agent for all of its containers: by id, and by first process.
func (n networks) containers(ctx context.Context) (ids map[string]string, pids map[int]string, err error) {
	agent, err := client.New(client.Config{Address: "unix://" + n.socket})
	if err != nil {
		return nil, nil, err
	}
	var all []api.Container
	if err := agent.Get(ctx, "/v1/containers", nil, &all); err != nil {
		return nil, nil, fmt.Errorf("ask the agent for its containers: %w", err)
	}
	ids, pids = make(map[string]string), make(map[int]string)
	for _, c := range all {
		if c.CTID == "" {
			continue
		}
		ids[c.CTID] = c.Name
		var d api.ContainerDetails
		if err := agent.Get(ctx, "/v1/containers/"+url.PathEscape(c.Name), nil, &d); err == nil && d.InitPID != 0 { // it may be gone
			pids[d.InitPID] = c.Name
		}
	}
	return ids, pids, nil
}

func (n networks) list(ctx context.Context, w io.Writer) error {
	ids, pids, err := n.containers(ctx)
	if err != nil {
		return err
	}
	bridges, err := network.Owned(n.mark)
	if err != nil {
		return err
	}
	if n.bridge != "" {
		bridges[n.bridge] = n.bridge
	}
	var parts []api.NetworkPart
	for _, name := range slices.Sorted(maps.Keys(bridges)) {
		some, err := links(name, bridges[name], pids)
		if err != nil {
			return err
		}
		parts = append(parts, some...)
	}
	rules, err := network.Marked(n.mark)
	if err != nil {
		return err
	}
	for _, r := range rules {
		if p := partOf(r, ids); !slices.ContainsFunc(parts, func(o api.NetworkPart) bool { return o.Kind == p.Kind && o.Name == p.Name && o.Owner == p.Owner }) {
			parts = append(parts, p) // a port has a rule for the host itself, and one for the others
		}
	}
	e := json.NewEncoder(w)
	for _, p := range parts {
		err = cmp.Or(err, e.Encode(p))
	}
	return err
}

// links are the bridge of a network and its cables.
func links(name, bridge string, pids map[int]string) (parts []api.NetworkPart, err error) {
	var asked []int
	for pid := range pids {
		asked = append(asked, pid)
	}
	plugs, there, err := network.Look(bridge, asked)
	if err != nil || !there {
		return nil, err
	}
	parts = append(parts, api.NetworkPart{Kind: "bridge", Name: bridge, Network: name, Detail: strings.Trim(fmt.Sprint(plugs.Addresses), "[]")})
	for _, a := range plugs.Addresses {
		if !a.Addr().Is4() {
			continue
		}
		who, err := network.Namer(a.Addr())
		if err != nil {
			return parts, err
		}
		if who != "" {
			parts = append(parts, api.NetworkPart{Kind: "names", Name: a.Addr().String(), Network: name, Detail: "served by " + who})
		}
	}
	who, err := network.DHCP(bridge)
	if err != nil {
		return parts, err
	}
	if who != "" {
		parts = append(parts, api.NetworkPart{Kind: "dhcp", Name: bridge, Network: name, Detail: "served by " + who})
	}
	for _, c := range plugs.Cables {
		parts = append(parts, api.NetworkPart{Kind: "cable", Name: c.Name, Network: name, Owner: pids[c.PID]})
	}
	return parts, nil
}

// partOf is a rule as people see it.
func partOf(r network.Rule, ids map[string]string) api.NetworkPart {
	p := api.NetworkPart{Kind: "rule", Name: r.Text, Detail: "chain " + r.Chain}
	if r.Owner == "" {
		p.Network, _, _ = strings.Cut(r.Text, " ")
		return p
	}
	p.Kind, p.Owner = "port", ids[r.Owner]
	if f := strings.Fields(r.Text); len(f) > 3 {
		p.Name, p.Detail = f[2], "to "+f[3]
	}
	if p.Owner == "" {
		p.Orphan = "no container of this host has the id " + r.Owner
	}
	return p
}

// cleanup removes the parts of networks that belong to no container, and prints them.
func (n networks) cleanup(ctx context.Context, w io.Writer) error {
	ids, _, err := n.containers(ctx)
	if err != nil {
		return err
	}
	known := func(context.Context) (map[string]bool, error) {
		all := make(map[string]bool)
		for id := range ids {
			all[id] = true
		}
		return all, nil
	}
	found, err := network.Tidier{Mark: n.mark, Known: known}.Debris(ctx, true)
	e := json.NewEncoder(w)
	for _, d := range found {
		err = cmp.Or(err, e.Encode(api.NetworkPart{Kind: d.Kind, Name: d.Object, Orphan: d.Cause, Detail: d.Failure}))
	}
	return err
}
