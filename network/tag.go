package network

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// CanTag says why this kernel cannot tag packets by VLAN; nil if it can. It tries that in
// a namespace of its own.
func CanTag() error {
	tried := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and it ends with the namespace
		tried <- tryTag()
	}()
	if err := <-tried; err != nil {
		return fmt.Errorf("packets cannot be tagged by VLAN: %w", explain(err))
	}
	return nil
}

func tryTag() error {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return err
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name = "tried"
	if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "peer"}); err != nil {
		return err
	}
	link, err := netlink.LinkByName("tried")
	if err != nil {
		return err
	}
	return addTagged(link, "tagged", 2)
}

func addTagged(below netlink.Link, name string, tag int) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.ParentIndex = name, below.Attrs().Index
	return netlink.LinkAdd(&netlink.Vlan{LinkAttrs: attrs, VlanId: tag, VlanProtocol: netlink.VLAN_PROTOCOL_8021Q})
}

// EnsureTagged connects a bridge to the network of this host by packets with a tag: by the
// device of the default route. The error matches ErrUnsupported if this kernel cannot.
func EnsureTagged(to string, tag int) error {
	if err := ensureTagged(to, tag); err != nil {
		return fmt.Errorf("bridge %q: connecting it by VLAN %d: %w", to, tag, explain(err))
	}
	return nil
}

func ensureTagged(to string, tag int) error {
	master, err := bridge(to)
	if err != nil {
		return err
	}
	below, err := uplink()
	if err != nil {
		return err
	}
	name := fmt.Sprintf("%.10s.%d", below.Attrs().Name, tag)
	if err := addTagged(below, name, tag); err != nil && !errors.Is(err, unix.EEXIST) {
		return err
	}
	link, err := netlink.LinkByName(name)
	switch {
	case err != nil:
		return err
	case link.Type() != "vlan", link.Attrs().MasterIndex != 0 && link.Attrs().MasterIndex != master.Attrs().Index:
		return fmt.Errorf("device %q: %w: it is of type %s, or of another bridge", name, ErrForeign, link.Type())
	}
	if err := netlink.LinkSetMaster(link, master); err != nil {
		return err
	}
	return netlink.LinkSetUp(link)
}

// RemoveTagged removes the devices by which a bridge is connected by packets with a tag.
func RemoveTagged(from string) error {
	master, err := bridge(from)
	if missing(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("bridge %q: %w", from, err)
	}
	links, err := dump(netlink.LinkList)
	if err != nil {
		return fmt.Errorf("listing links: %w", err)
	}
	for _, l := range links {
		if l.Type() == "vlan" && l.Attrs().MasterIndex == master.Attrs().Index {
			if err := netlink.LinkDel(l); err != nil {
				return fmt.Errorf("device %q: removing: %w", l.Attrs().Name, err)
			}
		}
	}
	return nil
}

// uplink is the device of the default route.
func uplink() (netlink.Link, error) {
	routes, err := dump(func() ([]netlink.Route, error) { return netlink.RouteList(nil, netlink.FAMILY_V4) })
	if err != nil {
		return nil, err
	}
	for _, r := range routes {
		if ones := 0; r.Dst != nil {
			if ones, _ = r.Dst.Mask.Size(); ones > 0 {
				continue
			}
		}
		if r.LinkIndex != 0 {
			return netlink.LinkByIndex(r.LinkIndex)
		}
	}
	return nil, errors.New("this host has no default route, so its network is not known")
}
