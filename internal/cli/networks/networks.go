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
	cmd.AddCommand(a.listCommand(), a.showCommand(), a.exposeCommand(), a.unexposeCommand(), a.cleanupCommand())
	return cmd
}

func (a *commands) exposeCommand() *cobra.Command {
	return a.onPorts(&cobra.Command{
		Use: "expose HOST/NAME HOST-PORT:CONTAINER-PORT…", Short: "Have ports of a host lead to a container",
		Long: `Has ports of a host lead to ports of a container: whoever connects to the port of
the host, from another machine, from another container or on the host itself,
reaches the container. It holds until unexpose, over restarts of the container, of
the agent and of the host, and for containers of LXC and of podman alike.

A port is 8080:80/tcp or 53:53/udp; without a protocol it is of TCP. A port that
another container has, or on which a process of the host listens, is refused. Ports
that lead to the container already stay.`,
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
		Use: "unexpose HOST/NAME HOST-PORT…", Short: "End that ports of a host lead to a container",
		Long: `Ends that ports of a host lead to a container. A port is 8080/tcp or 53/udp; without
a protocol it is of TCP. Connections that are open go on. A port that does not lead
to the container is no error.`,
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
