package main

import (
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"strings"

	"github.com/hostler-io/hostler/agent"
	"github.com/hostler-io/hostler/agent/containers"
	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/internal/warnings"
	"github.com/hostler-io/hostler/network/names"
	"github.com/hostler-io/hostler/protocol"
)

// featureNames is the word by which a host tells that its containers find each other by
// name.
const featureNames = "network.names"

// lookup is how containers find each other by name. Its zero value has them not.
type lookup struct {
	dir     string // of the files; empty: there are none
	wanted  bool   // by the configuration
	servers *names.Servers
}

// newLookup returns what serves names. If err is not nil it serves none, but tells containers
// of the servers of the host.
func newLookup(dir string, wanted bool, log *slog.Logger) (l lookup, err error) {
	l = lookup{dir: dir, wanted: wanted}
	if wanted {
		l.servers, err = names.New(dir, log)
	}
	return l, err
}

// serveNames has containers find each other by name, if that is wanted, and tells what is
// missing for it.
func (b *bridges) serveNames(cfg *agent.Config, c config, log *slog.Logger) (missing []string) {
	var err error
	b.lookup, err = newLookup(c.names(), c.Network.Names, log)
	if err != nil {
		log.Warn("containers do not find each other by name", "error", err)
		return []string{featureNames + ": " + err.Error() + "; networks work, and their containers are reached by address"}
	}
	if b.lookup.serves() {
		cfg.Features = append(cfg.Features, featureNames)
	}
	return nil
}

// Close ends the servers.
func (l lookup) Close() error {
	if l.servers == nil {
		return nil
	}
	return l.servers.Close()
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
func (l lookup) serve(nets []queue.Network, all []containers.Named) error {
	if !l.serves() {
		return nil
	}
	var zones []names.Zone
	for _, n := range nets {
		z := names.Zone{Bridge: n.Bridge, Alone: n.Isolated}
		for _, g := range gateways(n) {
			z.Addresses = append(z.Addresses, g.Addr())
		}
		attached := false
		for _, c := range all {
			if c.Network != n.Name {
				continue
			}
			attached = true
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
	return l.servers.Serve(zones)
}

// Resolver implements [containers.Resolver].
func (b *bridges) Resolver(n queue.Network) (string, error) {
	if !b.lookup.wanted {
		return "", nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lookup.write(n)
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

// unserved tells people of networks whose server of names does not stay alive. It belongs to
// the goroutine of the meter.
type unserved struct {
	problems func() []names.Problem // nil: there are none
	raised   map[string]bool
}

// newUnserved takes up the alerts that are raised.
func newUnserved(raised []string) unserved {
	u := unserved{raised: make(map[string]bool)}
	for _, id := range raised {
		if strings.HasPrefix(id, string(warnings.NetworkNames)+"/") {
			u.raised[id] = true
		}
	}
	return u
}

// alerts are the changes since they were told.
func (u unserved) alerts(atMS int64) (changes []protocol.Alert) {
	now := make(map[string]bool)
	if u.problems != nil {
		for _, p := range u.problems() {
			a := warnings.New(warnings.NetworkNames, p.Bridge, fmt.Sprintf("containers of the network of bridge %s do not find each other by name: %s", p.Bridge, p.Cause), atMS)
			now[a.ID] = true
			if !u.raised[a.ID] {
				changes = append(changes, protocol.Alert{Raised: true, AlertInfo: a})
			}
		}
	}
	for id := range u.raised {
		if !now[id] {
			_, bridge, _ := strings.Cut(id, "/")
			changes = append(changes, protocol.Alert{AlertInfo: warnings.New(warnings.NetworkNames, bridge, "names of the network are served again, or not wanted any more", atMS)})
		}
	}
	return changes
}

// told notes a change that is durable.
func (u unserved) told(a protocol.Alert) {
	if u.raised[a.ID] = a.Raised; !a.Raised {
		delete(u.raised, a.ID)
	}
}
