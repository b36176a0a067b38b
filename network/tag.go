package network

import (
	"errors"
	"fmt"
	"runtime"
	"slices"

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

// tagGroup is the group of devices that tag packets for us. They are made with it, and so
// are known as ours also before they are marked. It is the word "host".
const tagGroup = 0x686f7374

func addTagged(below netlink.Link, name string, tag int) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.ParentIndex, attrs.Group = name, below.Attrs().Index, tagGroup
	return netlink.LinkAdd(&netlink.Vlan{LinkAttrs: attrs, VlanId: tag, VlanProtocol: netlink.VLAN_PROTOCOL_8021Q})
}

// Tagged is the connection of a bridge to a network outside of this host, by packets with a
// tag.
type Tagged struct {
	Bridge string
	// Uplink is the device by which they go. Empty: that of the default route.
	Uplink string
	Tag    int
	// Owner is whose the connection is. Its device bears that as its alias, as a bridge does.
	Owner Owner
}

// EnsureTagged makes the connection if it is missing. The error matches ErrUnsupported if
// this kernel cannot, and ErrForeign if another program has a device in its place.
func EnsureTagged(c Tagged) error {
	if err := c.ensure(); err != nil {
		return fmt.Errorf("bridge %q: connecting it by VLAN %d: %w", c.Bridge, c.Tag, explain(err))
	}
	return nil
}

func (c Tagged) ensure() error {
	master, err := bridge(c.Bridge)
	if err != nil {
		return err
	}
	links, err := dump(netlink.LinkList)
	if err != nil {
		return fmt.Errorf("listing links: %w", err)
	}
	link := netlink.Link(nil)
	if at := slices.IndexFunc(links, c.owns); at >= 0 {
		link = links[at] // where it leads was decided when it was made
	} else if link, err = c.add(links); err != nil {
		return err
	}
	if err := netlink.LinkSetMaster(link, master); err != nil {
		return err
	}
	return netlink.LinkSetUp(link)
}

// add makes the device and marks it. One that was made and not marked is taken.
func (c Tagged) add(links []netlink.Link) (netlink.Link, error) {
	below, err := c.uplink()
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("%.10s.%d", below.Attrs().Name, c.Tag)
	at := slices.IndexFunc(links, func(l netlink.Link) bool {
		return l.Attrs().Name == name || tagOf(l) == c.Tag && l.Attrs().ParentIndex == below.Attrs().Index
	})
	if at >= 0 && (!c.begun(links[at]) || links[at].Attrs().ParentIndex != below.Attrs().Index) {
		return nil, fmt.Errorf("device %q: %w: it is there and was not made for network %s; remove it, or choose another tag", links[at].Attrs().Name, ErrForeign, c.Owner.Name)
	}
	if at >= 0 {
		name = links[at].Attrs().Name
	} else if err := addTagged(below, name, c.Tag); err != nil {
		return nil, err
	}
	link, err := netlink.LinkByName(name)
	if err == nil {
		err = netlink.LinkSetAlias(link, c.Owner.alias())
	}
	if err != nil {
		return nil, fmt.Errorf("device %q: marking: %w", name, err)
	}
	return link, nil
}

// owns tells whether a device is marked as that of the connection.
func (c Tagged) owns(l netlink.Link) bool {
	return tagOf(l) != 0 && l.Attrs().Alias == c.Owner.alias()
}

// begun tells whether a device was made for packets with the tag and not marked before
// a crash.
func (c Tagged) begun(l netlink.Link) bool {
	return c.Tag != 0 && tagOf(l) == c.Tag && l.Attrs().Alias == "" && l.Attrs().Group == tagGroup
}

// tagOf is the tag of the packets of a device; 0 if it has none.
func tagOf(l netlink.Link) int {
	if v, ok := l.(*netlink.Vlan); ok {
		return v.VlanId
	}
	return 0
}

// RemoveTagged removes the connection; nil if there is none. Devices of others that are
// plugged into the bridge stay.
func RemoveTagged(c Tagged) error {
	links, err := dump(netlink.LinkList)
	if err != nil {
		return fmt.Errorf("listing links: %w", err)
	}
	for _, l := range links {
		if !c.owns(l) && !c.begun(l) {
			continue
		}
		if err := netlink.LinkDel(l); err != nil && !errors.Is(err, unix.ENODEV) {
			return fmt.Errorf("device %q: removing: %w", l.Attrs().Name, err)
		}
	}
	return nil
}

// Uplink is the name of the device of the default route.
func Uplink() (string, error) {
	link, err := Tagged{}.uplink()
	if err != nil {
		return "", fmt.Errorf("finding the device of the default route: %w", err)
	}
	return link.Attrs().Name, nil
}

// uplink is the device by which the packets go.
func (c Tagged) uplink() (netlink.Link, error) {
	if c.Uplink != "" {
		link, err := netlink.LinkByName(c.Uplink)
		if err != nil {
			return nil, fmt.Errorf("device %q, which network %s goes by: %w", c.Uplink, c.Owner.Name, err)
		}
		return link, nil
	}
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		routes, err := dump(func() ([]netlink.Route, error) { return netlink.RouteList(nil, family) })
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
	}
	return nil, errors.New("this host has no default route, so its network is not known")
}
