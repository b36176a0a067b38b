package container

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
)

// ErrFull: every address of the network is taken.
var ErrFull = errors.New("no free address")

// Gateway returns the first host address of the network, with the network's
// length: what the bridge itself bears.
func Gateway(network netip.Prefix) netip.Prefix {
	return netip.PrefixFrom(network.Masked().Addr().Next(), network.Bits())
}

// Nameservers are the lines of the host's /etc/resolv.conf that serve a container as well:
// the servers of names that it can reach, and where names are searched.
func Nameservers(resolv string) string {
	var kept strings.Builder
	for line := range strings.Lines(resolv) {
		w := strings.Fields(line)
		if len(w) < 2 || w[0] != "nameserver" && w[0] != "search" {
			continue
		}
		if a, err := netip.ParseAddr(w[1]); w[0] == "nameserver" && (err != nil || a.IsLoopback()) {
			continue
		}
		kept.WriteString(strings.Join(w, " ") + "\n")
	}
	return kept.String()
}

// Allocate returns the lowest address of a network that is not in used. The network's own
// address, its last one (of IPv4 the broadcast address) and the first host address (the
// gateway, see Gateway) are never given. used may be in any order and may
// hold addresses of other networks. The answer depends on the arguments alone,
// so the caller who records it before using it gets a fresh one each time.
func Allocate(network netip.Prefix, used []netip.Addr) (netip.Addr, error) {
	network = network.Masked()
	if !network.IsValid() {
		return netip.Addr{}, errors.New("allocating: no network")
	}
	taken := make(map[netip.Addr]bool, len(used)+1)
	for _, a := range used {
		taken[a.Unmap()] = true
	}
	taken[Gateway(network).Addr()] = true
	// An address whose successor lies outside is the last one.
	for a := network.Addr().Next(); network.Contains(a) && network.Contains(a.Next()); a = a.Next() {
		if !taken[a] {
			return a, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("allocating in %s: %w", network, ErrFull)
}

// MAC returns the hardware address of a container's first interface: the same
// for the same CTID on every host and after every restart, locally
// administered and unicast, with 46 bits of the CTID's SHA-256.
func MAC(id CTID) string {
	sum := sha256.Sum256([]byte("hostler-mac-1\x00" + id))
	mac := net.HardwareAddr(sum[:6])
	mac[0] = mac[0]&^0x01 | 0x02
	return mac.String()
}
