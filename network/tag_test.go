package network_test

import (
	"errors"
	"net"
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/hostler-io/hostler/network"
)

// TestWhoseTaggedDevice: a device is ours by its mark, or by the group that it was made
// with and no mark; that of another network, agent or program is not.
func TestWhoseTaggedDevice(t *testing.T) {
	c := network.Tagged{Bridge: "hstl-back", Tag: 7, Owner: network.Owner{Mark: "me", Name: "back"}}
	device := func(tag int, alias string, group uint32) netlink.Link {
		return &netlink.Vlan{LinkAttrs: netlink.LinkAttrs{Name: "eth0.7", Alias: alias, Group: group}, VlanId: tag}
	}
	for what, want := range map[string]struct {
		link          netlink.Link
		marked, begun bool
	}{
		"marked":             {device(7, "hostler me back", network.TagGroup), true, false},
		"made, not marked":   {device(7, "", network.TagGroup), false, true},
		"of another tag":     {device(8, "", network.TagGroup), false, false},
		"of another network": {device(7, "hostler me other", network.TagGroup), false, false},
		"of another agent":   {device(7, "hostler you back", network.TagGroup), false, false},
		"of a person":        {device(7, "", 0), false, false},
		"of a program":       {device(7, "uplink of cameras", 0), false, false},
		"of another kind":    {&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "eth0.7", Alias: "hostler me back", Group: network.TagGroup}}, false, false},
	} {
		if marked, begun := c.Holds(want.link); marked != want.marked || begun != want.begun {
			t.Errorf("a device %s is marked %v, begun %v", what, marked, begun)
		}
	}
}

// TestTagged: a device of another program stays as it is, and a default route is needed
// only to find the device by which packets go.
func TestTagged(t *testing.T) {
	inNamespace(t, func(t *testing.T) {
		must(t, network.EnsureBridge(config))
		must(t, network.EnsureBridge(network.BridgeConfig{Name: "hlt-up", Address: netip.MustParsePrefix("192.0.2.1/24")}))
		c := network.Tagged{Bridge: config.Name, Tag: 7, Owner: network.Owner{Mark: "me", Name: "back"}}
		if _, err := network.Uplink(); err == nil {
			t.Error("without a default route, its device is found")
		}
		if err := network.EnsureTagged(c); err == nil || errors.Is(err, network.ErrUnsupported) {
			t.Errorf("without a default route and a device: %v", err)
		}
		link, err := netlink.LinkByName("hlt-up")
		must(t, err)
		must(t, netlink.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Gw: net.IPv4(192, 0, 2, 2)}))
		if name, err := network.Uplink(); err != nil || name != "hlt-up" {
			t.Errorf("the default route goes by %q, %v", name, err)
		}

		addVeth(t, "hlt-up.7", "hlt-peer")
		if err := network.EnsureTagged(c); !errors.Is(err, network.ErrForeign) {
			t.Errorf("a device of another program: %v", err)
		}
		must(t, network.RemoveTagged(c))
		foreign, err := netlink.LinkByName("hlt-up.7")
		must(t, err)
		if foreign.Attrs().MasterIndex != 0 || foreign.Attrs().Alias != "" {
			t.Errorf("the device of another program is now %+v", foreign.Attrs())
		}
		must(t, netlink.LinkDel(foreign))

		// A kernel without VLAN gets so far, and no further.
		must(t, netlink.RouteDel(&netlink.Route{LinkIndex: link.Attrs().Index, Gw: net.IPv4(192, 0, 2, 2)}))
		c.Uplink = "hlt-up"
		can := network.CanTag()
		for range 2 {
			if err := network.EnsureTagged(c); can == nil && err != nil || can != nil && !errors.Is(err, network.ErrUnsupported) {
				t.Errorf("with a device and no default route: %v, and the kernel: %v", err, can)
			}
		}
		if n, err := network.Plugins(config.Name); err != nil || n != 0 {
			t.Errorf("%d interfaces of others are plugged in, %v", n, err)
		}
		must(t, network.RemoveTagged(c))
		if _, there := find(t, "hlt-up.7"); there {
			t.Error("the device is left")
		}
	})
}
