package network

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
)

// Interface is a network interface of the host.
type Interface struct {
	Name string
	// MAC in the form 02:00:00:00:00:01; empty for devices without one.
	MAC string
	// Addresses with the length of their networks, sorted.
	Addresses []netip.Prefix
	// Up tells that the interface is switched on and not whether anything is
	// connected.
	Up bool
}

// dumpAttempts is how often a table that changed while it was being read is
// read again.
const dumpAttempts = 5

// Interfaces returns the host's interfaces, sorted by name, without the
// loopback and without the host's ends of its containers' links: these come and
// go with every container and are told by the containers' own state.
func Interfaces() ([]Interface, error) {
	links, err := ownLinks()
	if err != nil {
		return nil, err
	}
	addrs, err := dump(func() ([]netlink.Addr, error) { return netlink.AddrList(nil, netlink.FAMILY_ALL) })
	if err != nil {
		return nil, fmt.Errorf("listing addresses: %w", err)
	}
	byLink := make(map[int][]netip.Prefix)
	for _, a := range addrs {
		ip, ok := netip.AddrFromSlice(a.IP)
		if ones, bits := a.Mask.Size(); ok && bits > 0 {
			byLink[a.LinkIndex] = append(byLink[a.LinkIndex], netip.PrefixFrom(ip.Unmap(), ones))
		}
	}
	out := []Interface{}
	for _, link := range links {
		attrs := link.Attrs()
		if attrs.Flags&net.FlagLoopback != 0 {
			continue
		}
		prefixes := byLink[attrs.Index]
		slices.SortFunc(prefixes, comparePrefixes)
		out = append(out, Interface{
			Name:      attrs.Name,
			MAC:       attrs.HardwareAddr.String(),
			Addresses: prefixes,
			Up:        attrs.Flags&net.FlagUp != 0,
		})
	}
	slices.SortFunc(out, func(a, b Interface) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}

func comparePrefixes(a, b netip.Prefix) int {
	return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
}

// dump reads a table of the kernel again if it changed meanwhile.
func dump[T any](read func() ([]T, error)) (rows []T, err error) {
	for range dumpAttempts {
		if rows, err = read(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			return rows, err
		}
	}
	return rows, err
}

// hardwareAddr is the same for the same bridge after every restart, locally
// administered and unicast.
func hardwareAddr(name string, address netip.Prefix) net.HardwareAddr {
	sum := sha256.Sum256([]byte("hostler-bridge-1\x00" + name + "\x00" + address.String()))
	mac := net.HardwareAddr(sum[:6])
	mac[0] = mac[0]&^0x01 | 0x02
	return mac
}
