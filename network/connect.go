package network

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"strconv"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// End is the other end of a cable as it should be, in the namespace that it is in.
type End struct {
	// MAC in the form 02:00:00:00:00:01; empty for any.
	MAC string
	// Address with the length of its network.
	Address netip.Prefix
	// Gateway is the next hop of the default route; zero for none.
	Gateway netip.Addr
	// Address6 and Gateway6 are those of IPv6; zero for none.
	Address6 netip.Prefix
	Gateway6 netip.Addr
}

// Connect lays a cable and configures its other end. The namespace is that of the
// cable's process and takes the cable along when it ends.
func Connect(c Cable, e End) error {
	if err := Lay(c); err != nil {
		return err
	}
	if err := within(c.PID, func() error { return e.configure(c.Peer) }); err != nil {
		return errors.Join(fmt.Errorf("cable %q: configuring %s in the network of process %d: %w", c.Name, c.Peer, c.PID, explain(err)), RemoveCable(c.Name))
	}
	return nil
}

// configure runs in the namespace of the end.
func (e End) configure(name string) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	if e.MAC != "" {
		mac, err := net.ParseMAC(e.MAC)
		if err == nil {
			err = netlink.LinkSetHardwareAddr(link, mac)
		}
		if err != nil {
			return fmt.Errorf("hardware address %s: %w", e.MAC, err)
		}
	}
	if err := Configure(name, e.Address); err != nil {
		return err
	}
	if e.Address6.IsValid() {
		if err := Configure(name, e.Address6); err != nil {
			return err
		}
	}
	for _, gateway := range []netip.Addr{e.Gateway, e.Gateway6} {
		if !gateway.IsValid() {
			continue
		}
		if err := netlink.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Gw: gateway.AsSlice()}); err != nil {
			return fmt.Errorf("default route by %s: %w", gateway, err)
		}
	}
	return nil
}

// within calls a function in the network namespace of a process.
func within(pid int, do func() error) error {
	ended := make(chan error, 1)
	go func() {
		// A thread that is never unlocked ends with its goroutine, so none is left in
		// the namespace of another.
		runtime.LockOSThread()
		fd, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err == nil {
			err = unix.Setns(fd, unix.CLONE_NEWNET)
			unix.Close(fd)
		}
		if err == nil {
			err = do()
		}
		ended <- err
	}()
	return <-ended
}
