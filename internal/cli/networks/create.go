package networks

import (
	"cmp"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/dispatch"
	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/protocol"
)

func (a *commands) createCommand() *cobra.Command {
	var n protocol.NetworkArgs
	cmd := &cobra.Command{
		Use: "create [HOST] NAME", Short: "Make another network for the containers of a host", Args: term.AtMost(2),
		Long: `Makes a network: a bridge of its own, with pools of addresses of IPv4 and IPv6. A
container is attached to it with hostler ct create --network NAME. Containers of one
network reach each other; from other networks, they are reached by their exposed
ports. The host chooses private pools that nothing on it uses, unless --ipv4 and
--ipv6 name some. --ipv6 none leaves IPv6 out.

With --isolated, the containers reach each other and the host alone: there is no NAT,
and no ports are exposed. With --vlan, the network is connected to that of the host
by packets with this tag; a host whose kernel has no VLAN refuses it. Both together
are refused.`,
		Example: "  hostler net create edge-01 back\n  hostler net create edge-01 lab --ipv4 10.71.0.0/24 --ipv6 none --isolated", ValidArgsFunction: a.Completing(conn.HostNames),
	}
	c := dispatch.ChangeFlags(cmd)
	f := cmd.Flags()
	f.StringVar(&n.IPv4, "ipv4", "", "its addresses of IPv4, as 10.71.0.0/24 (default: the host chooses)")
	f.StringVar(&n.IPv6, "ipv6", "", "its addresses of IPv6, as fd5a:17:42::/64, or none (default: the host chooses)")
	f.Int64Var(&n.VLAN, "vlan", 0, "tag of the packets by which it is connected, 1 to 4094 (default none)")
	f.BoolVar(&n.Isolated, "isolated", false, "its containers reach each other and the host alone")
	return a.onNetwork(cmd, c, "create network", "made", func(name string) protocol.Spec {
		args := n
		args.Network = name
		return protocol.Spec{Kind: protocol.KindNetworkCreate, Args: &args}
	})
}

func (a *commands) removeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "rm [HOST] NAME", Short: "Remove a network that no container is attached to", Args: term.AtMost(2),
		Long: `Removes a network and its bridge. It is refused while a container is attached to it,
also one that is stopped. The first network of a host cannot be removed.`,
		Example: "  hostler net rm edge-01 back", ValidArgsFunction: a.Completing(conn.HostNames),
	}
	return a.onNetwork(cmd, dispatch.ChangeFlags(cmd), "remove network", "removed", func(name string) protocol.Spec {
		return protocol.Spec{Kind: protocol.KindNetworkRemove, Args: &protocol.NetworkRemoveArgs{Network: name}}
	})
}

// onNetwork is a verb about a network of a host.
func (a *commands) onNetwork(cmd *cobra.Command, c *dispatch.Change, verb, done string, spec func(name string) protocol.Spec) *cobra.Command {
	cmd.RunE = a.OnHost(1, func(cmd *cobra.Command, r *conn.Remote, host protocol.HostID, rest []string) error {
		s := spec(rest[0])
		if _, err := dispatch.EncodeSpec(s); err != nil {
			return term.Usage(cmd.CommandPath()+" --help", "%s", err)
		}
		what := verb + " " + rest[0] + " of " + cmp.Or(string(host), "this host")
		return a.Do(cmd.Context(), r, c, conn.Ref{Host: host, Name: rest[0]}, what, done, s)
	})
	return cmd
}
