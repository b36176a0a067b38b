// Package bridges keeps the networks of a host as the agent wants them: their bridges, the
// rules of the packet filter, and the servers of names in them. Other packages store the
// settings of networks.
package bridges

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"

	"github.com/hostler-io/hostler/agent/actions"
	"github.com/hostler-io/hostler/agent/containers"
	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/network"
	"github.com/hostler-io/hostler/protocol/port"
)

// Config says which networks there are from the start, and what they can do.
type Config struct {
	// First is the network of containers that name none.
	First queue.Network
	// Mark is the word by which the agent knows its own rules and bridges, among those of
	// other agents of the machine.
	Mark string
	// NAT has the containers reach other machines by the address of the host.
	NAT bool
	// Files is the directory of the files by which containers find each other by name. All
	// users of the host must reach it. Empty: they do not find each other.
	Files string
	// Names has them find each other. If not, those that were told where to ask ask as the
	// host does.
	Names bool
	// DHCP tells containers that ask for it the address that they have. It needs Names.
	DHCP bool
	// Log gets a line for each server of names that ends. Default: no log.
	Log *slog.Logger
}

// Bridges are the agent's networks: each is made when a container needs it. They are safe for
// concurrent use.
type Bridges struct {
	first queue.Network
	mark  string
	nat   bool

	lookup lookup

	mu      sync.Mutex
	nets    []queue.Network // as they were last applied
	exposed []containers.Exposed
	named   []containers.Named
	told    bool // by the first Apply: these are all that there are
	found   network.Found
}

// New returns the networks of a host. Nothing is made yet.
func New(cfg Config) *Bridges {
	return &Bridges{first: cfg.First, nets: []queue.Network{cfg.First}, mark: cfg.Mark, nat: cfg.NAT, lookup: newLookup(cfg)}
}

// OwnPool is an IPv6 network of addresses that are unique but for chance (RFC 4193), the
// same for the same seed.
func OwnPool(seed string) netip.Prefix {
	sum := sha256.Sum256([]byte("hostler-pool-1\x00" + seed))
	var a [16]byte
	a[0] = 0xfd
	copy(a[1:8], sum[:7])
	return netip.PrefixFrom(netip.AddrFrom16(a), 64)
}

// First implements [containers.Network].
func (b *Bridges) First() queue.Network { return b.first }

// devicePrefix begins the names of the bridges of networks that were made; the name of the
// network follows.
const devicePrefix = "hstl-"

// Can implements [containers.Network].
func (b *Bridges) Can(n queue.Network) error {
	if n.VLAN == 0 {
		return nil
	}
	if err := network.CanTag(); err != nil {
		return fmt.Errorf("%w by this kernel: %w; leave --vlan out, or load its module 8021q", actions.CodeUnsupported, err)
	}
	return nil
}

// Plan implements [containers.Network].
func (b *Bridges) Plan(n queue.Network, ipv6 bool, others []queue.Network) (queue.Network, error) {
	n.Bridge = devicePrefix + n.Name
	if plugged, err := network.Interfaces(); err != nil {
		return n, err
	} else if slices.ContainsFunc(plugged, func(i network.Interface) bool { return i.Name == n.Bridge }) {
		return n, fmt.Errorf("this host has a device %s that is not of this network; choose another name", n.Bridge)
	}
	if n.VLAN != 0 && n.Uplink == "" {
		var err error
		if n.Uplink, err = network.Uplink(); err != nil {
			return n, fmt.Errorf("%w; give it one, or leave --vlan out", err)
		}
	}
	free := func(p netip.Prefix) (bool, error) {
		for _, o := range others {
			if o.IPv4.Overlaps(p) || o.IPv6.IsValid() && o.IPv6.Overlaps(p) {
				return false, nil
			}
		}
		taken, err := network.Taken(p)
		return !taken, err
	}
	pools := []struct {
		pool   *netip.Prefix
		wanted bool
		choose func() netip.Prefix
	}{
		{&n.IPv4, true, func() netip.Prefix {
			var random [2]byte
			rand.Read(random[:]) // it never fails
			return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 64 + random[0]%128, random[1], 0}), 24)
		}},
		{&n.IPv6, ipv6, func() netip.Prefix { return OwnPool(rand.Text()) }},
	}
	for _, p := range pools {
		if !p.wanted || p.pool.IsValid() {
			if ok, err := free(*p.pool); p.pool.IsValid() && !ok {
				return n, cmp.Or(err, fmt.Errorf("this host has addresses or routes in %s; choose another pool, or leave that to the host", *p.pool))
			}
			continue
		}
		for tries := 0; !p.pool.IsValid(); tries++ {
			candidate := p.choose()
			ok, err := free(candidate)
			if ok {
				*p.pool = candidate
			} else if err != nil || tries > 1000 {
				return n, cmp.Or(err, errors.New("no private network is free on this host; name a pool"))
			}
		}
	}
	return n, nil
}

// Ensure implements [containers.Network].
func (b *Bridges) Ensure(_ context.Context, n queue.Network) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	_ = b.lookup.renew(n) // the next Apply tells
	if n.Isolated {
		// The rules come first, so that it is isolated before anything is attached. What is
		// wrong with other networks, the next Apply tells.
		b.remember(n)
		if err := b.apply(); errors.Is(err, network.ErrNotIsolated) {
			return fmt.Errorf("network %s is isolated, and is not used without the rules for that: %w", n.Name, err)
		}
		return b.ensure(n)
	}
	if err := b.ensure(n); err != nil {
		return err
	}
	// A host whose uplink is away starts its containers all the same.
	if err := b.connect(n); err != nil && !n.Made {
		return err
	}
	// A bridge that is new lacks what ports need of it. If that does not work, the next
	// Apply tells, and nothing keeps a container from its start.
	if n.Name != "" {
		b.remember(n)
	}
	if len(b.exposed) > 0 || n.Name != "" {
		_ = b.apply()
	}
	return nil
}

// remember adds a network that was not there when they were last applied.
func (b *Bridges) remember(n queue.Network) {
	if !slices.Contains(b.nets, n) {
		b.nets = append(slices.DeleteFunc(slices.Clone(b.nets), func(o queue.Network) bool { return o.Name == n.Name }), n)
	}
}

func (b *Bridges) ensure(n queue.Network) error {
	cfg := network.BridgeConfig{Name: n.Bridge, Address: container.Gateway(n.IPv4)}
	if n.IPv6.IsValid() {
		cfg.Address6 = container.Gateway(n.IPv6)
	}
	if n.Name != "" {
		cfg.Owner = network.Owner{Mark: b.mark, Name: n.Name}
	}
	return network.EnsureBridge(cfg)
}

// connect connects a network to one outside of the host by VLAN, if it is to be. Packets that
// a bridge itself passes on are not held up by the rules that isolate it, so one that is
// remembered with both from before that was refused is not connected.
func (b *Bridges) connect(n queue.Network) error {
	switch {
	case n.VLAN == 0:
		return nil
	case n.Isolated:
		return network.RemoveTagged(b.tagged(n))
	}
	return network.EnsureTagged(b.tagged(n))
}

func (b *Bridges) tagged(n queue.Network) network.Tagged {
	return network.Tagged{Bridge: n.Bridge, Uplink: n.Uplink, Tag: n.VLAN, Owner: network.Owner{Mark: b.mark, Name: n.Name}}
}

// Remove implements [containers.Network].
func (b *Bridges) Remove(_ context.Context, n queue.Network) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	owned, err := network.Owned(b.mark)
	if err != nil {
		return err
	}
	if owned[n.Name] == n.Bridge {
		if plugged, err := network.Plugins(n.Bridge); err != nil || plugged > 0 {
			return cmp.Or(err, fmt.Errorf("%w: %d interfaces are plugged into the bridge %s of network %s", containers.ErrInUse, plugged, n.Bridge, n.Name))
		}
		if err := errors.Join(network.RemoveTagged(b.tagged(n)), network.RemoveBridge(n.Bridge)); err != nil {
			return err
		}
	}
	b.nets = slices.DeleteFunc(slices.Clone(b.nets), func(o queue.Network) bool { return o.Name == n.Name })
	return errors.Join(b.apply(), b.lookup.forget(n))
}

// Apply implements [containers.Network].
func (b *Bridges) Apply(_ context.Context, nets []queue.Network, all []containers.Exposed, names []containers.Named) (failed map[string]error, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.nets, b.exposed, b.named, b.told = nets, all, names, true
	sweepShapers()
	owned, unread := network.Owned(b.mark)
	failed = make(map[string]error)
	for _, n := range nets {
		var err error
		if slices.ContainsFunc(all, func(e containers.Exposed) bool { return e.Network == n.Name }) {
			err = b.ensure(n)
		}
		if owned[n.Name] == n.Bridge { // it may have been made while the uplink was away
			err = errors.Join(err, b.connect(n))
		}
		err = errors.Join(err, b.lookup.renew(n))
		if err != nil {
			failed[n.Name] = err
		}
	}
	return failed, errors.Join(unread, b.apply())
}

// sweepShapers removes the devices of limits that containers have left which ended. One
// that cannot be removed harms nothing, and is tried again.
func sweepShapers() {
	gone, err := network.Shapers()
	if err != nil {
		return
	}
	for _, name := range gone {
		_ = network.RemoveShaper(name)
	}
}

func (b *Bridges) apply() error {
	r := network.Rules{Mark: b.mark, Partial: !b.told, Found: &b.found}
	device := make(map[string]string, len(b.nets))
	for _, n := range b.nets {
		s := network.Subnet{Bridge: n.Bridge, Network: n.IPv4, Network6: n.IPv6, NAT: b.nat, Isolated: n.Isolated}
		if b.lookup.serves() && slices.ContainsFunc(b.named, func(c containers.Named) bool { return c.Network == n.Name }) {
			s.Names = gateways(n)
		}
		r.Subnets = append(r.Subnets, s)
		device[n.Name] = n.Bridge
	}
	for _, e := range b.exposed {
		for _, address := range []netip.Addr{e.Address, e.Address6} {
			if address.IsValid() && device[e.Network] != "" {
				r.Ports = append(r.Ports, network.Port{
					Owner: e.CTID.String(), Protocol: e.Port.Protocol, Host: e.Port.Host, Container: e.Port.Container, Address: address, Bridge: device[e.Network],
				})
			}
		}
	}
	err := network.Apply(r)
	if b.told && (err == nil || network.Asked(r)) {
		b.lookup.serve(b.nets, b.named)
	}
	return err
}

// namesPort is where names are asked for. A container may have it at the other addresses of
// the host.
const namesPort = 53

// Listener implements [containers.Network].
func (b *Bridges) Listener(m port.Mapping) (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var own []netip.Addr
	if b.lookup.serves() && m.Host == namesPort {
		for _, n := range b.nets {
			for _, g := range gateways(n) {
				own = append(own, g.Addr())
			}
		}
	}
	return network.Listener(m.Protocol, m.Host, own...)
}
