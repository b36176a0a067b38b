package protocol

import (
	"fmt"
	"net/netip"
	"regexp"
)

// The kinds about networks for containers that a host has beside its first one.
const (
	KindNetworkCreate Kind = "network.create"
	KindNetworkRemove Kind = "network.remove"
)

func kindNetworkCreate() KindInfo {
	return onNetwork(KindNetworkCreate, "Make another network for the containers of the host.", new(NetworkArgs))
}

func kindNetworkRemove() KindInfo {
	return onNetwork(KindNetworkRemove, "Remove a network that no container is attached to.", new(NetworkRemoveArgs))
}

// onNetwork is the row of what is done to a network. It waits for what is done to
// containers, and holds it up, so that none is attached meanwhile.
func onNetwork(k Kind, doc string, args Args) KindInfo {
	return KindInfo{
		Kind: k, Doc: doc, Target: TargetHost, Lane: LaneExclusive, Attempts: 3, RunTimeout: execTimeout, StartTTL: startTTL, form: formOf(args),
	}
}

// NetworkArgs say which network is to be made. Pools that are left out are chosen by the
// host.
type NetworkArgs struct {
	_        struct{} `required:"network"`
	Network  string   `json:"network,omitzero" example:"\"back\"" doc:"Its name on the host: 1 to 10 of a-z, 0-9 and inner hyphens."`
	IPv4     string   `json:"ipv4,omitzero" example:"\"10.71.0.0/24\"" doc:"Its addresses of IPv4, which are private ones. Left out: the host chooses."`
	IPv6     string   `json:"ipv6,omitzero" example:"\"fd5a:17:42::/64\"" doc:"Its addresses of IPv6 in fd00::/8, or none. Left out: the host chooses."`
	VLAN     int64    `json:"vlan,omitzero" min:"0" max:"4094" example:"70" doc:"The tag of the packets by which it is connected to the network of the host. 0 is none."`
	Isolated bool     `json:"isolated,omitzero" doc:"Its containers reach each other and the host alone."`
}

// NoNetwork as the pool of a network leaves it without.
const NoNetwork = "none"

func (a *NetworkArgs) check() error {
	if err := CheckNetwork(a.Network); err != nil {
		return err
	}
	if a.IPv4 != "" {
		if err := checkPool(a.IPv4, netip.Addr.Is4, 30, "10.71.0.0/24"); err != nil {
			return fmt.Errorf("ipv4: %w", err)
		}
	}
	if a.IPv6 != "" && a.IPv6 != NoNetwork {
		if err := checkPool(a.IPv6, netip.Addr.Is6, 112, "fd5a:17:42::/64"); err != nil {
			return fmt.Errorf("ipv6: %w", err)
		}
	}
	return nil
}

// checkPool accepts private networks with room for containers: others belong to machines
// elsewhere, whose traffic a bridge would take.
func checkPool(text string, family func(netip.Addr) bool, longest int, example string) error {
	p, err := netip.ParsePrefix(text)
	if err != nil || !family(p.Addr()) || p != p.Masked() || p.String() != text || p.Bits() > longest {
		return fmt.Errorf("%.60q is no network with room for containers: want one like %s", text, example)
	}
	if !p.Addr().IsPrivate() || p.Bits() < 8 {
		return fmt.Errorf("%s is no private network, and belongs to machines elsewhere: want one like %s", text, example)
	}
	return nil
}

// NetworkRemoveArgs name a network.
type NetworkRemoveArgs struct {
	_       struct{} `required:"network"`
	Network string   `json:"network,omitzero" example:"\"back\"" doc:"Its name on the host."`
}

func (a *NetworkRemoveArgs) check() error { return CheckNetwork(a.Network) }

var wellFormedNetwork = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,8}[a-z0-9])?$`)

// CheckNetwork accepts what can be the name of a network.
func CheckNetwork(name string) error {
	if !wellFormedNetwork.MatchString(name) {
		return fmt.Errorf("network %.60q: want 1 to 10 of a-z, 0-9 and inner hyphens", name)
	}
	return nil
}
