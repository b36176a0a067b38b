package containers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/hostler-io/hostler/agent/actions"
	"github.com/hostler-io/hostler/agent/loop"
	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/protocol"
)

// ErrInUse: something that is not known to the agent is attached to a network.
var ErrInUse = errors.New("in use")

// networks is the part of Containers that is about networks.
type networks struct{ *Containers }

// all are the networks of the host, the first one before the others. Another name than
// that of a network is that of none.
func (c networks) all() []queue.Network {
	return append([]queue.Network{c.cfg.Network.First()}, c.nets...)
}

// find returns a network by its name.
func (c networks) find(name string) (queue.Network, error) {
	if c.cfg.Network == nil {
		return queue.Network{}, fmt.Errorf("%w: containers of this host have no network; set network.bridge in its configuration", actions.CodeUnsupported)
	}
	for _, n := range c.all() {
		if n.Name == name && (name == "" || n.Made) {
			return n, nil
		}
	}
	return queue.Network{}, fmt.Errorf("this host has no network %q; see which there are: hostler net ls HOST", name)
}

// exposable says why no port can lead to containers of a network; nil if ports can.
func (c networks) exposable(name string, ports int) error {
	if n, err := c.find(name); err == nil && n.Isolated && ports > 0 {
		return fmt.Errorf("network %s is isolated, and no port leads there; make the container on another network", name)
	}
	return nil
}

// users are the names of the containers that are attached to a network.
func (c networks) users(name string) (all []string) {
	for _, m := range c.sorted() {
		if m.rec.Settings.Network == name {
			all = append(all, string(m.rec.Name))
		}
	}
	return all
}

// named are the containers that have an address. One whose runtime does not answer is as it
// was seen last.
func (c networks) named() (all []Named) {
	for _, m := range c.sorted() {
		address, err := netip.ParsePrefix(m.rec.Address)
		if err != nil {
			continue // it is being made, or has no network
		}
		six, _ := netip.ParsePrefix(m.rec.Settings.Address6)
		runs := m.info.State != "" && m.info.State != container.StateStopped
		all = append(all, Named{Name: m.rec.Name, Network: m.rec.Settings.Network, MAC: m.rec.MAC, Address: address.Addr(), Address6: six.Addr(), Running: runs})
	}
	return all
}

// resolverPath is the file in which programs of a container read which servers to ask for
// names.
const resolverPath = "/etc/resolv.conf"

// resolver is what tells a new container where names are; none if it brings that itself. A
// worker calls it.
func (c networks) resolver(ctx context.Context, rec *queue.Container) ([]container.Mount, error) {
	r, ok := c.cfg.Network.(Resolver)
	if !ok || rec.Address == "" {
		return nil, nil
	}
	for _, m := range rec.Settings.Mounts {
		if m.Path == resolverPath || strings.HasPrefix(resolverPath, m.Path+"/") {
			return nil, nil
		}
	}
	n, err := loop.Ask(ctx, c.cfg.Loop, func() (queue.Network, error) { return c.find(rec.Settings.Network) })
	if err != nil {
		return nil, err
	}
	source, err := r.Resolver(n)
	if err != nil || source == "" {
		return nil, err
	}
	return []container.Mount{{Source: source, Path: resolverPath, ReadOnly: true, Optional: true}}, nil
}

// attach gives a container addresses of its network, durable before they are used and the
// same at every attempt.
func (c networks) attach(ctx context.Context, o *operation) (container.Network, error) {
	if c.cfg.Network == nil {
		return container.Network{}, nil
	}
	n, err := loop.Ask(ctx, c.cfg.Loop, func() (queue.Network, error) { return c.find(o.rec.Settings.Network) })
	if err != nil {
		return container.Network{}, err
	}
	if err := c.cfg.Network.Ensure(ctx, n); err != nil {
		return container.Network{}, fmt.Errorf("preparing the network: %w", err)
	}
	_, err = loop.Ask(ctx, c.cfg.Loop, func() (struct{}, error) { return struct{}{}, c.assign(&o.rec, n) })
	if err != nil {
		return container.Network{}, err
	}
	out := container.Network{Bridge: n.Bridge, Gateway: container.Gateway(n.IPv4).Addr(), MAC: o.rec.MAC}
	if out.Address, err = netip.ParsePrefix(o.rec.Address); err != nil {
		return out, err
	}
	if o.rec.Settings.Address6 != "" {
		if out.Address6, err = netip.ParsePrefix(o.rec.Settings.Address6); err != nil {
			return out, err
		}
		out.Gateway6 = container.Gateway(n.IPv6).Addr()
	}
	return out, nil
}

// assign gives a container addresses of a network, or those that it has.
func (c networks) assign(rec *queue.Container, n queue.Network) error {
	used := c.used()
	give := func(has string, pool netip.Prefix) (string, error) {
		if p, err := netip.ParsePrefix(has); err == nil && pool.Contains(p.Addr()) || !pool.IsValid() {
			return has, nil
		}
		free, err := container.Allocate(pool, used)
		return netip.PrefixFrom(free, pool.Bits()).String(), err
	}
	next := *rec
	var err4, err6 error
	next.Address, err4 = give(rec.Address, n.IPv4)
	next.Settings.Address6, err6 = give(rec.Settings.Address6, n.IPv6)
	if err := cmp.Or(err4, err6); err != nil {
		return err
	}
	if next.Address == rec.Address && next.Settings.Address6 == rec.Settings.Address6 {
		return nil
	}
	if err := c.cfg.Apply(keep(next)); err != nil {
		return err
	}
	*rec = next // the worker waits for this call
	return nil
}

// used are the addresses that containers have.
func (c networks) used() (all []netip.Addr) {
	for _, m := range c.managed {
		for _, text := range []string{m.rec.Address, m.rec.Settings.Address6} {
			if p, err := netip.ParsePrefix(text); err == nil {
				all = append(all, p.Addr())
			}
		}
		if m.rec.Address == "" { // else what root in it has added takes no address from others
			all = append(all, m.info.Addresses...)
		}
	}
	for _, infos := range c.foreign {
		for _, i := range infos {
			all = append(all, i.Addresses...)
		}
	}
	return all
}

// prepared brings up the network of a container that is about to be started.
func (o *operation) prepared(ctx context.Context) error {
	if o.rec.Address == "" || o.cfg.Network == nil {
		return nil
	}
	n, err := loop.Ask(ctx, o.cfg.Loop, func() (queue.Network, error) { return networks{o.contact.Containers}.find(o.rec.Settings.Network) })
	if err == nil {
		err = o.cfg.Network.Ensure(ctx, n)
	}
	if err != nil {
		return fmt.Errorf("preparing the network: %w", err)
	}
	return nil
}

// networkCreate makes a network. It is remembered with its pools before its bridge is made.
type networkCreate struct{ networks }

// Admit implements [actions.Handler].
func (h networkCreate) Admit(s *protocol.Spec) error {
	if _, err := h.find(""); err != nil {
		return err
	}
	n := wantedNetwork(s)
	if n.Isolated && n.VLAN != 0 {
		return fmt.Errorf("%w: network %s: vlan %d connects it to machines elsewhere, and isolated keeps it from them; leave one out", protocol.ErrSpec, n.Name, n.VLAN)
	}
	return h.cfg.Network.Can(n)
}

// wantedNetwork is what a request wants.
func wantedNetwork(s *protocol.Spec) queue.Network {
	args := protocol.ArgsOf[protocol.NetworkArgs](s)
	n := queue.Network{Name: args.Network, VLAN: int(args.VLAN), Isolated: args.Isolated}
	n.IPv4, _ = netip.ParsePrefix(args.IPv4) // they are well formed, or to be chosen
	n.IPv6, _ = netip.ParsePrefix(args.IPv6)
	return n
}

// Prepare implements [actions.Handler]. One that was not completed was begun by an earlier
// attempt.
func (h networkCreate) Prepare(s *protocol.Spec) (queue.Change, *queue.Step) {
	n := wantedNetwork(s)
	err := error(nil)
	for _, o := range h.all() {
		switch {
		case o.Name == n.Name && !o.Made:
			return queue.Change{}, nil
		case o.Name == n.Name:
			err = fmt.Errorf("a network %q exists on this host; choose another name, or remove it: hostler net rm HOST %s", n.Name, n.Name)
		case n.IPv4.IsValid() && n.IPv4.Overlaps(o.IPv4), n.IPv6.IsValid() && o.IPv6.IsValid() && n.IPv6.Overlaps(o.IPv6):
			err = fmt.Errorf("its addresses overlap those of network %s, %s %s; choose others, or leave that to the host", cmp.Or(o.Name, o.Bridge), o.IPv4, o.IPv6)
		}
	}
	if len(h.nets) >= queue.MaxNetworks {
		err = fmt.Errorf("this host has %d networks, and more are not made", len(h.nets))
	}
	if err != nil {
		return queue.Change{}, &queue.Step{Event: protocol.EventFail, Detail: err.Error()}
	}
	return queue.Change{}, nil
}

// Claims implements [actions.Claimer].
func (networkCreate) Claims(*protocol.Spec) bool { return true }

// Begin implements [actions.Handler].
func (h networkCreate) Begin(j *actions.Job) {
	spec, others := *j.Spec(), h.without(protocol.ArgsOf[protocol.NetworkArgs](j.Spec()).Network)
	n := wantedNetwork(&spec)
	if at := slices.IndexFunc(h.nets, func(o queue.Network) bool { return o.Name == n.Name }); at >= 0 {
		n = h.nets[at]
	}
	taken := append([]queue.Network{h.cfg.Network.First()}, others...)
	j.Run(actions.Saga{
		Steps: []actions.Step{
			{Do: func(ctx context.Context) (c queue.Change, err error) {
				if n.Bridge == "" {
					n, err = h.cfg.Network.Plan(n, protocol.ArgsOf[protocol.NetworkArgs](&spec).IPv6 != protocol.NoNetwork, taken)
				}
				return keepNetworks(append(others, n)), err
			}},
			{Commit: true, Do: func(ctx context.Context) (queue.Change, error) {
				if err := h.cfg.Network.Ensure(ctx, n); err != nil {
					return queue.Change{}, err
				}
				n.Made = true
				return keepNetworks(append(others, n)), nil
			}},
		},
		Undo: func(ctx context.Context, why error) (queue.Change, error) {
			if n.Bridge != "" {
				why = errors.Join(why, h.cfg.Network.Remove(ctx, n))
			}
			return keepNetworks(others), why
		},
	})
}

// Settle implements [actions.Settler].
func (h networkCreate) Settle(j *actions.Job) { h.Begin(j) }

// without are the networks but for one.
func (c networks) without(name string) []queue.Network {
	return slices.DeleteFunc(slices.Clone(c.nets), func(n queue.Network) bool { return n.Name == name })
}

// keepNetworks is the change that keeps these networks and no others.
func keepNetworks(all []queue.Network) queue.Change {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b queue.Network) int { return cmp.Compare(a.Name, b.Name) })
	return queue.Change{Networks: &all}
}

// networkRemove removes a network that no container is attached to.
type networkRemove struct{ networks }

// Admit implements [actions.Handler].
func (h networkRemove) Admit(*protocol.Spec) error {
	_, err := h.find("")
	return err
}

// Prepare implements [actions.Handler].
func (h networkRemove) Prepare(s *protocol.Spec) (queue.Change, *queue.Step) {
	name := protocol.ArgsOf[protocol.NetworkRemoveArgs](s).Network
	why := ""
	if users := h.users(name); len(users) > 0 {
		why = fmt.Sprintf("network %s is that of container %s; remove the container first", name, users[0])
	} else if !slices.ContainsFunc(h.nets, func(n queue.Network) bool { return n.Name == name }) {
		why = fmt.Sprintf("this host has no network %q that was made; see which there are: hostler net ls HOST", name)
	}
	if why != "" {
		return queue.Change{}, &queue.Step{Event: protocol.EventFail, Detail: why}
	}
	return queue.Change{}, nil
}

// Claims implements [actions.Claimer].
func (networkRemove) Claims(*protocol.Spec) bool { return true }

// Begin implements [actions.Handler].
func (h networkRemove) Begin(j *actions.Job) {
	name := protocol.ArgsOf[protocol.NetworkRemoveArgs](j.Spec()).Network
	others, at := h.without(name), slices.IndexFunc(h.nets, func(n queue.Network) bool { return n.Name == name })
	if at < 0 {
		j.Finish(queue.Step{Event: protocol.EventSucceed})
		return
	}
	n := h.nets[at]
	j.Run(actions.One(func(ctx context.Context) (queue.Change, error) {
		if err := h.cfg.Network.Remove(ctx, n); err != nil {
			return queue.Change{}, err
		}
		return keepNetworks(others), nil
	}))
}
