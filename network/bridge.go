package network

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/internal/failpoint"
)

var (
	// ErrForeign: a device of the wanted name exists and is of another kind.
	ErrForeign = errors.New("device is of another kind")
	// ErrUnsupported: this kernel has no bridges, or the process may not make them.
	ErrUnsupported = errors.New("not supported here")
)

// BridgeConfig is a bridge as it should be.
type BridgeConfig struct {
	// Name of the device: 1 to 15 characters without '/' and space.
	Name string
	// Address that the bridge bears, with the length of its network: the
	// gateway of the containers, for example 10.70.0.1/24.
	Address netip.Prefix
	// Address6 is that of IPv6; zero for none.
	Address6 netip.Prefix
	// Owner is who has made the bridge, as [Owned] finds it; empty: the bridge is shared.
	Owner Owner
}

// Owner is whose a bridge is.
type Owner struct {
	Mark string // of the agent
	Name string // of the network
}

// alias is how it is written to the device.
func (o Owner) alias() string { return commentPrefix + o.Mark + " " + o.Name }

func (c BridgeConfig) check() error {
	if err := checkName(c.Name); err != nil {
		return err
	}
	if !c.Address.IsValid() || c.Address.Addr().IsUnspecified() {
		return errors.New("no address")
	}
	for _, a := range []netip.Prefix{c.Address, c.Address6} {
		if a.IsValid() && a.Addr() == a.Masked().Addr() && a.Addr().BitLen()-a.Bits() > 1 {
			return fmt.Errorf("%s is the address of the network itself", a)
		}
	}
	return nil
}

func checkName(name string) error {
	if name == "" || len(name) >= unix.IFNAMSIZ || name == "." || name == ".." {
		return fmt.Errorf("want 1 to %d characters", unix.IFNAMSIZ-1)
	}
	for i := range len(name) {
		if c := name[i]; c <= ' ' || c > '~' || c == '/' || c == ':' || c == '%' {
			return fmt.Errorf("character %d is not allowed", i)
		}
	}
	return nil
}

// EnsureBridge makes the bridge if it is missing, gives it the address if it
// lacks it, and sets it up. Other addresses that it has stay. The error matches
// ErrForeign if the name belongs to another kind of device.
func EnsureBridge(cfg BridgeConfig) error {
	if err := cfg.check(); err != nil {
		return fmt.Errorf("bridge %q: %w", cfg.Name, err)
	}
	if err := ensureBridge(cfg); err != nil {
		return fmt.Errorf("bridge %q: %w", cfg.Name, explain(err))
	}
	return nil
}

func ensureBridge(cfg BridgeConfig) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = cfg.Name
	// Without an address of its own a bridge takes the lowest of its members
	// and changes it as they come and go, and neighbours lose the gateway.
	attrs.HardwareAddr = hardwareAddr(cfg.Name, cfg.Address)
	link, err := bridge(cfg.Name)
	if missing(err) {
		failpoint.Before(failpoint.BridgeMade)
		if err := netlink.LinkAdd(&netlink.Bridge{LinkAttrs: attrs}); err != nil && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("adding: %w", err)
		}
		failpoint.After(failpoint.BridgeMade)
		link, err = bridge(cfg.Name)
	}
	if err != nil {
		return err
	}
	if cfg.Owner != (Owner{}) && link.Attrs().Alias != cfg.Owner.alias() {
		// One that was made and not marked has the hardware address that only we give.
		if link.Attrs().Alias != "" || link.Attrs().HardwareAddr.String() != attrs.HardwareAddr.String() {
			return fmt.Errorf("%w: it is there and was not made for network %s", ErrForeign, cfg.Owner.Name)
		}
		if err := netlink.LinkSetAlias(link, cfg.Owner.alias()); err != nil {
			return fmt.Errorf("marking: %w", err)
		}
	}
	for _, prefix := range []netip.Prefix{cfg.Address, cfg.Address6} {
		if !prefix.IsValid() {
			continue
		}
		if err := netlink.AddrAdd(link, addressOf(prefix)); err != nil && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("adding address %s: %w", prefix, err)
		}
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("setting up: %w", err)
	}
	return nil
}

// addressOf is an address as it is given to an interface. One of IPv6 can be used at once:
// nothing else on a bridge of ours has it.
func addressOf(p netip.Prefix) *netlink.Addr {
	a := &netlink.Addr{IPNet: &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}}
	if p.Addr().Is6() {
		a.Flags = unix.IFA_F_NODAD
	}
	return a
}

// Owned returns the bridges of an agent by the names of their networks.
func Owned(mark string) (map[string]string, error) {
	links, err := linksOf("bridge")
	if err != nil {
		return nil, err
	}
	all := make(map[string]string)
	for _, l := range links {
		if name, ours := strings.CutPrefix(l.Attrs().Alias, commentPrefix+mark+" "); ours && l.Type() == "bridge" {
			all[name] = l.Attrs().Name
		}
	}
	return all, nil
}

// Plugins returns how many interfaces are plugged into a bridge, but for the one by which
// its owner has connected it; 0 if there is no such bridge.
func Plugins(name string) (n int, err error) {
	links, err := dump(netlink.LinkList)
	if err != nil {
		return 0, fmt.Errorf("listing links: %w", err)
	}
	at := slices.IndexFunc(links, func(l netlink.Link) bool { return l.Attrs().Name == name && l.Type() == "bridge" })
	for _, l := range links {
		if at >= 0 && l.Attrs().MasterIndex == links[at].Attrs().Index && (tagOf(l) == 0 || l.Attrs().Alias != links[at].Attrs().Alias) {
			n++
		}
	}
	return n, nil
}

// RemoveBridge removes the bridge; nil if there is none of that name. The
// error matches ErrForeign if the name belongs to another kind of device.
// Interfaces that are attached lose their connection.
func RemoveBridge(name string) error {
	if err := checkName(name); err != nil {
		return fmt.Errorf("bridge %q: %w", name, err)
	}
	link, err := bridge(name)
	if missing(err) {
		return nil
	}
	if err == nil {
		failpoint.Before(failpoint.BridgeRemoved)
		err = netlink.LinkDel(link)
	}
	if err != nil {
		return fmt.Errorf("bridge %q: removing: %w", name, explain(err))
	}
	failpoint.After(failpoint.BridgeRemoved)
	return nil
}

func bridge(name string) (netlink.Link, error) {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return nil, err
	}
	if link.Type() != "bridge" {
		return nil, fmt.Errorf("%w: it is of type %s", ErrForeign, link.Type())
	}
	return link, nil
}

// explain names what no second attempt will change.
func explain(err error) error {
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EPROTONOSUPPORT) || errors.Is(err, unix.EPERM) {
		return fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	return err
}
