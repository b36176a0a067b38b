package network

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Cable is a pair of interfaces between a bridge here and another network
// namespace.
type Cable struct {
	// Name of the end that is here: 1 to 15 characters without '/' and space.
	Name string
	// Bridge that this end is plugged into.
	Bridge string
	// Peer is the name of the other end.
	Peer string
	// PID is a process in the other namespace.
	PID int
}

// Lay makes the cable, plugged in and switched on here. An older one of that
// name is removed before.
func Lay(c Cable) error {
	err := errors.Join(checkName(c.Name), checkName(c.Peer))
	if err == nil {
		err = lay(c)
	}
	if err != nil {
		return fmt.Errorf("cable %q: %w", c.Name, explain(err))
	}
	return nil
}

func lay(c Cable) error {
	if err := RemoveCable(c.Name); err != nil {
		return err
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name = c.Name
	if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: c.Peer, PeerNamespace: netlink.NsPid(c.PID)}); err != nil {
		return fmt.Errorf("adding: %w", err)
	}
	if err := Plug(c.Name, c.Bridge); err != nil {
		return err
	}
	link, err := cable(c.Name)
	if err != nil {
		return err
	}
	return netlink.LinkSetUp(link)
}

// Plug connects the cable of that name to a bridge.
func Plug(name, to string) error {
	link, err := cable(name)
	if err != nil {
		return fmt.Errorf("cable %q: %w", name, explain(err))
	}
	master, err := bridge(to)
	if err == nil {
		err = netlink.LinkSetMaster(link, master)
	}
	if err != nil {
		return fmt.Errorf("cable %q: plugging into %q: %w", name, to, explain(err))
	}
	return nil
}

// Unplug takes the cable out of its bridge. Both ends stay switched on and see
// nothing but silence: packets are lost without an error.
func Unplug(name string) error {
	link, err := cable(name)
	if err == nil {
		err = netlink.LinkSetNoMaster(link)
	}
	if err != nil {
		return fmt.Errorf("cable %q: unplugging: %w", name, explain(err))
	}
	return nil
}

// Plugged reports whether the cable is in a bridge; false if there is no cable
// of that name.
func Plugged(name string) (bool, error) {
	link, err := cable(name)
	if missing(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("cable %q: %w", name, err)
	}
	return link.Attrs().MasterIndex != 0, nil
}

// RemoveCable removes both ends; nil if there is no cable of that name. The
// error matches ErrForeign if the name belongs to another kind of device.
func RemoveCable(name string) error {
	link, err := cable(name)
	if missing(err) {
		return nil
	}
	if err == nil {
		err = netlink.LinkDel(link)
	}
	// The other end may take it along at the same moment, when its namespace ends.
	if err != nil && !missing(err) && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("cable %q: removing: %w", name, explain(err))
	}
	return nil
}

// Cables returns the names of the cables that begin with prefix.
func Cables(prefix string) ([]string, error) {
	links, err := dump(netlink.LinkList)
	if err != nil {
		return nil, fmt.Errorf("listing links: %w", err)
	}
	var names []string
	for _, l := range links {
		if l.Type() == "veth" && strings.HasPrefix(l.Attrs().Name, prefix) {
			names = append(names, l.Attrs().Name)
		}
	}
	return names, nil
}

// CablesOf returns the names of the cables that begin with prefix and are plugged into a
// bridge; none if there is no such bridge.
func CablesOf(bridge, prefix string) ([]string, error) {
	links, err := dump(netlink.LinkList)
	if err != nil {
		return nil, fmt.Errorf("listing links: %w", err)
	}
	at := slices.IndexFunc(links, func(l netlink.Link) bool { return l.Type() == "bridge" && l.Attrs().Name == bridge })
	if at < 0 {
		return nil, nil
	}
	var names []string
	for _, l := range links {
		if l.Type() == "veth" && l.Attrs().MasterIndex == links[at].Attrs().Index && strings.HasPrefix(l.Attrs().Name, prefix) {
			names = append(names, l.Attrs().Name)
		}
	}
	return names, nil
}

// Configure gives an interface its address and switches it on. The loopback
// has an address of its own: without one it is only switched on.
func Configure(name string, address netip.Prefix) error {
	link, err := netlink.LinkByName(name)
	if err == nil && address.IsValid() {
		err = netlink.AddrAdd(link, addressOf(address))
		if errors.Is(err, unix.EEXIST) {
			err = nil
		}
	}
	if err == nil {
		err = netlink.LinkSetUp(link)
	}
	if err != nil {
		return fmt.Errorf("interface %q: %w", name, explain(err))
	}
	return nil
}

// Taken reports whether an address or a route here overlaps the network. The
// default route does not count.
func Taken(p netip.Prefix) (bool, error) {
	all, err := Interfaces()
	if err != nil {
		return false, err
	}
	for _, i := range all {
		for _, a := range i.Addresses {
			if a.Overlaps(p) {
				return true, nil
			}
		}
	}
	family := netlink.FAMILY_V4
	if p.Addr().Is6() {
		family = netlink.FAMILY_V6
	}
	routes, err := dump(func() ([]netlink.Route, error) { return netlink.RouteList(nil, family) })
	if err != nil {
		return false, fmt.Errorf("listing routes: %w", err)
	}
	for _, r := range routes {
		if r.Dst == nil {
			continue
		}
		ip, ok := netip.AddrFromSlice(r.Dst.IP)
		ones, _ := r.Dst.Mask.Size()
		if ok && ones > 0 && netip.PrefixFrom(ip.Unmap(), ones).Overlaps(p) {
			return true, nil
		}
	}
	return false, nil
}

func cable(name string) (netlink.Link, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	link, err := netlink.LinkByName(name)
	if err != nil {
		return nil, err
	}
	if link.Type() != "veth" {
		return nil, fmt.Errorf("%w: it is of type %s", ErrForeign, link.Type())
	}
	return link, nil
}

func missing(err error) bool {
	_, ok := errors.AsType[netlink.LinkNotFoundError](err)
	return ok
}
