// Package networks has hostler net: the networks of hosts and the ports by which their
// containers are reached.
package networks

import (
	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/dispatch"
	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/port"
)

type commands struct{ *dispatch.Dispatcher }

// Command returns hostler net.
func Command(d *dispatch.Dispatcher) *cobra.Command {
	a := &commands{d}
	cmd := term.Group("net", "The networks of hosts, and ports that lead to containers")
	cmd.AddCommand(a.listCommand(), a.showCommand(), a.createCommand(), a.removeCommand(), a.exposeCommand(), a.unexposeCommand(), a.cleanupCommand())
	return cmd
}

func (a *commands) exposeCommand() *cobra.Command {
	return a.onPorts(&cobra.Command{
		Use: "expose HOST/NAME HOST-PORT:CONTAINER-PORT…", Short: "Forward ports of a host to a container",
		Long: `Forwards ports of a host to ports of a container. Connections to a forwarded port
reach the container from other machines, from other containers and from the host
itself. The port stays forwarded until unexpose, over restarts of the container, the
agent and the host. It works for LXC and for podman.

Write a port as 8080:80/tcp or 53:53/udp; the protocol is tcp if left out. A port is
refused if another container has it, or if a process of the host listens on it.
Ports that are forwarded to the container already stay.`,
		Example: "  hostler net expose edge-01/web 8080:80\n  hostler net expose edge-01/dns 53:53/udp 53:53/tcp",
	}, "expose ports of", "reachable", func(ports []string) (protocol.Spec, error) {
		if _, err := port.ParseAll(ports); err != nil {
			return protocol.Spec{}, err
		}
		return protocol.Spec{Kind: protocol.KindExpose, Args: &protocol.PortArgs{Ports: ports}}, nil
	})
}

func (a *commands) unexposeCommand() *cobra.Command {
	return a.onPorts(&cobra.Command{
		Use: "unexpose HOST/NAME HOST-PORT…", Short: "Stop forwarding ports of a host to a container",
		Long: `Stops forwarding ports of a host to a container. Write a port as 8080/tcp or 53/udp;
the protocol is tcp if left out. Open connections continue. A port that is not
forwarded to the container is no error.`,
		Example: "  hostler net unexpose edge-01/web 8080\n  hostler net unexpose edge-01/dns 53/udp 53/tcp",
	}, "unexpose ports of", "not reachable by them", func(ports []string) (protocol.Spec, error) {
		outer := make([]string, 0, len(ports))
		for _, p := range ports {
			o, err := port.ParseOuter(p)
			if err != nil {
				return protocol.Spec{}, err
			}
			outer = append(outer, o)
		}
		return protocol.Spec{Kind: protocol.KindUnexpose, Args: &protocol.PortArgs{Ports: outer}}, nil
	})
}

// onPorts is a verb about ports of a container.
func (a *commands) onPorts(cmd *cobra.Command, verb, done string, spec func(ports []string) (protocol.Spec, error)) *cobra.Command {
	cmd.Args, cmd.ValidArgsFunction = term.AtLeast(2), a.Completing(conn.ContainerNames)
	c := dispatch.ChangeFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s, err := spec(args[1:])
		if err != nil {
			return term.Usage(cmd.CommandPath()+" --help", "%s", err)
		}
		ctx, what := cmd.Context(), verb+" "+args[0]
		r, name, id, err := a.FindContainer(ctx, args[0])
		if err != nil {
			return term.Cannot(what, err)
		}
		s.Target, s.Name = id, protocol.ContainerName(name.Name)
		return a.Do(ctx, r, c, name, what, done, s)
	}
	return cmd
}
