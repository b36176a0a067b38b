package bridges

import (
	"errors"
	"log/slog"
	"net/netip"
	"os"

	"github.com/hostler-io/hostler/agent/containers"
	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/network/names"
)

// Feature is the word by which a host tells that its containers find each other by name.
const Feature = "network.names"

// lookup is how containers find each other by name. Its zero value has them not.
type lookup struct {
	dir     string // of the files; empty: there are none
	wanted  bool
	dhcp    bool
	servers *names.Servers
	lacks   error // why there are no servers, though they are wanted
}

func newLookup(cfg Config) lookup {
	l := lookup{dir: cfg.Files, wanted: cfg.Names && cfg.Files != "", dhcp: cfg.DHCP}
	if !l.wanted {
		return l
	}
	log := cfg.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	if l.servers, l.lacks = names.New(cfg.Files, log); l.lacks != nil {
		l.servers = nil
	}
	return l
}

// Names reports whether containers find each other by name, and if not, although they are to,
// why.
func (b *Bridges) Names() (bool, error) { return b.lookup.serves(), b.lookup.lacks }

// Close ends the servers of names. b may be nil.
func (b *Bridges) Close() error {
	if b == nil || !b.lookup.serves() {
		return nil
	}
	return b.lookup.servers.Close()
}

func (l lookup) serves() bool { return l.servers != nil }

// gateways are the addresses of the host in a network.
func gateways(n queue.Network) []netip.Prefix {
	all := []netip.Prefix{container.Gateway(n.IPv4)}
	if n.IPv6.IsValid() {
		all = append(all, container.Gateway(n.IPv6))
	}
	return all
}

// serve has the containers of each network be found by their names there. The name that an
// adopted container has may be none of DNS.
func (l lookup) serve(nets []queue.Network, all []containers.Named) {
	if !l.serves() {
		return
	}
	var zones []names.Zone
	for _, n := range nets {
		z := names.Zone{Bridge: n.Bridge, Alone: n.Isolated, DHCP: l.dhcp}
		for _, g := range gateways(n) {
			z.Addresses = append(z.Addresses, g.Addr())
		}
		attached := false
		for _, c := range all {
			if c.Network != n.Name {
				continue
			}
			attached = true
			if c.MAC != "" {
				z.Leases = append(z.Leases, names.Lease{MAC: c.MAC, Address: c.Address})
			}
			if !c.Running || container.CheckName(string(c.Name)) != nil {
				continue
			}
			h := names.Host{Name: string(c.Name), Addresses: []netip.Addr{c.Address}}
			if c.Address6.IsValid() {
				h.Addresses = append(h.Addresses, c.Address6)
			}
			z.Hosts = append(z.Hosts, h)
		}
		if attached {
			zones = append(zones, z)
		}
	}
	l.servers.Serve(zones)
}

// Resolver implements [containers.Resolver].
func (b *Bridges) Resolver(n queue.Network) (string, error) {
	if !b.lookup.wanted {
		return "", nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	path, err := b.lookup.write(n)
	if errors.Is(err, names.ErrUnreachable) {
		return "", nil // the container works without; an alert tells
	}
	return path, err
}

// renew writes what the containers of a network are told, if there are any that have it.
func (l lookup) renew(n queue.Network) error {
	if l.dir == "" {
		return nil
	}
	if there, err := names.Told(l.dir, n.Bridge); err != nil || !there {
		return err
	}
	_, err := l.write(n)
	return err
}

// write writes what the containers of a network are told. Where no names are served, that is
// what the host asks itself.
func (l lookup) write(n queue.Network) (string, error) {
	text := names.Asking(container.Gateway(n.IPv4).Addr())
	if !l.serves() {
		text = ""
		if host, err := os.ReadFile("/etc/resolv.conf"); err == nil && !n.Isolated {
			text = container.Nameservers(string(host))
		}
	}
	return names.Resolver(l.dir, n.Bridge, text)
}

// forget removes the files of a network that is gone.
func (l lookup) forget(n queue.Network) error {
	if l.dir == "" {
		return nil
	}
	return names.Forget(l.dir, n.Bridge)
}
