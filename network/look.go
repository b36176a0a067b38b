package network

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
)

// Plugs are the cables that are plugged into a bridge here, and those of the namespaces
// of processes.
type Plugs struct {
	Addresses []netip.Prefix // of the bridge
	Cables    []PluggedCable
}

// PluggedCable is our end of a cable.
type PluggedCable struct {
	Name string
	// PID is the process, of those that were asked for, in whose namespace the other end
	// is; 0 if it is in that of another.
	PID int
}

// Look tells what is plugged into a bridge, and into which of these processes' namespaces
// each cable leads. false: there is no such bridge.
func Look(name string, pids []int) (p Plugs, there bool, err error) {
	master, err := bridge(name)
	if missing(err) {
		return p, false, nil
	}
	if err != nil {
		return p, false, fmt.Errorf("bridge %q: %w", name, err)
	}
	all, err := Interfaces()
	if err != nil {
		return p, true, err
	}
	if at := slices.IndexFunc(all, func(i Interface) bool { return i.Name == name }); at >= 0 {
		p.Addresses = all[at].Addresses
	}
	links, err := dump(netlink.LinkList)
	if err != nil {
		return p, true, fmt.Errorf("listing links: %w", err)
	}
	leads := make(map[int]int) // number of a namespace → process
	for _, pid := range pids {
		if namespace, err := netlink.GetNetNsIdByPid(pid); err == nil && namespace >= 0 { // it may have ended
			leads[namespace] = pid
		}
	}
	for _, l := range links {
		if l.Type() == "veth" && l.Attrs().MasterIndex == master.Attrs().Index {
			p.Cables = append(p.Cables, PluggedCable{Name: l.Attrs().Name, PID: leads[l.Attrs().NetNsID]})
		}
	}
	return p, true, nil
}
