package protocol

import "github.com/hostler-io/hostler/protocol/port"

// The kinds about ports of the host that lead to containers, and about its networks.
const (
	KindExpose         Kind = "container.expose"
	KindUnexpose       Kind = "container.unexpose"
	KindNetworkList    Kind = "network.list"
	KindNetworkCleanup Kind = "network.cleanup"
)

func kindsOfNetworks() []KindInfo {
	return []KindInfo{
		printing(KindNetworkList, "List what the host has of networks for its containers, and whose it is.", execTimeout, new(ExportArgs)),
		kindNetworkCreate(), kindNetworkRemove(),
		printing(KindNetworkCleanup, "Remove rules of ports whose container is gone.", execTimeout, new(ExportArgs)),
		lifecycle(KindExpose, "Have ports of the host lead to a container, from now on.", new(PortArgs)),
		lifecycle(KindUnexpose, "End that ports of the host lead to a container.", new(PortArgs)),
	}
}

// PortArgs name ports of the host.
type PortArgs struct {
	_     struct{} `required:"ports"`
	Ports []string `json:"ports,omitempty" example:"[\"8080:80/tcp\"]" doc:"Ports of the host that lead to ports of the container, each HOST-PORT:CONTAINER-PORT/tcp or /udp. Those that are to lead nowhere are each PORT/tcp or PORT/udp."`
}

func (a *PortArgs) check() error { return port.Check(a.Ports) }
