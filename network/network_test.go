package network_test

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/network"
)

// inNamespace runs the test on a thread in a new network namespace, which ends
// with it: the thread is never given back.
func inNamespace(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			done <- err
			return
		}
		defer func() { done <- nil }()
		test(t)
	}()
	if err := <-done; err != nil {
		t.Fatalf("new network namespace (this test needs root): %v", err)
	}
}

// must fails without t.Fatal, which may not be called from another goroutine.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
		runtime.Goexit()
	}
}

var config = network.BridgeConfig{Name: "hlt-br", Address: netip.MustParsePrefix("10.213.78.1/24")}

func find(t *testing.T, name string) (network.Interface, bool) {
	t.Helper()
	all, err := network.Interfaces()
	must(t, err)
	for _, i := range all {
		if i.Name == name {
			return i, true
		}
	}
	return network.Interface{}, false
}

func TestEnsureBridge(t *testing.T) {
	inNamespace(t, func(t *testing.T) {
		must(t, network.EnsureBridge(config))
		first, ok := find(t, "hlt-br")
		want := network.Interface{Name: "hlt-br", MAC: first.MAC, Addresses: []netip.Prefix{config.Address}, Up: true}
		got := first
		// The kernel adds a link-local address in its own time.
		got.Addresses = got.Addresses[:min(1, len(got.Addresses))]
		if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Prefix{})); !ok || diff != "" {
			t.Errorf("bridge (-want +got):\n%s", diff)
		}
		must(t, network.EnsureBridge(config))

		// What somebody did to it is undone, what they added stays.
		link, err := netlink.LinkByName("hlt-br")
		must(t, err)
		must(t, netlink.LinkSetDown(link))
		addrs, err := netlink.AddrList(link, netlink.FAMILY_V4)
		must(t, err)
		must(t, netlink.AddrDel(link, &addrs[0]))
		extra, err := netlink.ParseAddr("10.213.79.1/24")
		must(t, err)
		must(t, netlink.AddrAdd(link, extra))
		must(t, network.EnsureBridge(config))
		again, _ := find(t, "hlt-br")
		v4 := again.Addresses[:min(2, len(again.Addresses))]
		wantAddrs := []netip.Prefix{config.Address, netip.MustParsePrefix("10.213.79.1/24")}
		if diff := cmp.Diff(wantAddrs, v4, cmpopts.EquateComparable(netip.Prefix{})); diff != "" || !again.Up {
			t.Errorf("after repair up=%v, addresses (-want +got):\n%s", again.Up, diff)
		}
	})
}

func TestBridgeKeepsItsHardwareAddress(t *testing.T) {
	var first string
	for range 2 {
		inNamespace(t, func(t *testing.T) {
			must(t, network.EnsureBridge(config))
			before, _ := find(t, "hlt-br")
			addVeth(t, "hlt-a", "hlt-b")
			low, err := net.ParseMAC("02:00:00:00:00:01")
			must(t, err)
			a, err := netlink.LinkByName("hlt-a")
			must(t, err)
			must(t, netlink.LinkSetHardwareAddr(a, low))
			attach(t, "hlt-a")
			after, _ := find(t, "hlt-br")
			if before.MAC != after.MAC || first != "" && first != after.MAC {
				t.Errorf("the bridge's address went from %q, %q to %q", first, before.MAC, after.MAC)
			}
			first = after.MAC
		})
	}
}

func TestForeignDeviceIsRefused(t *testing.T) {
	inNamespace(t, func(t *testing.T) {
		addVeth(t, "hlt-br", "hlt-peer")
		if err := network.EnsureBridge(config); !errors.Is(err, network.ErrForeign) {
			t.Errorf("EnsureBridge over a veth = %v, want ErrForeign", err)
		}
		if err := network.RemoveBridge("hlt-br"); !errors.Is(err, network.ErrForeign) {
			t.Errorf("RemoveBridge of a veth = %v, want ErrForeign", err)
		}
		if i, ok := find(t, "hlt-br"); !ok || len(i.Addresses) != 0 {
			t.Errorf("the foreign device is now %+v, %v", i, ok)
		}
	})
}

func TestRemoveBridge(t *testing.T) {
	inNamespace(t, func(t *testing.T) {
		must(t, network.EnsureBridge(config))
		must(t, network.RemoveBridge(config.Name))
		if i, ok := find(t, config.Name); ok {
			t.Errorf("still there: %+v", i)
		}
		must(t, network.RemoveBridge(config.Name))
	})
}

func TestInterfacesLeavesOut(t *testing.T) {
	inNamespace(t, func(t *testing.T) {
		must(t, network.EnsureBridge(config))
		addVeth(t, "hlt-local", "hlt-peer")
		addVeth(t, "hlt-ct", "eth0")
		attach(t, "hlt-local")
		attach(t, "hlt-ct")
		leave(t, "eth0")
		all, err := network.Interfaces()
		must(t, err)
		var names []string
		for _, i := range all {
			names = append(names, i.Name)
		}
		// Not lo, and not hlt-ct, whose other end is in a container.
		if diff := cmp.Diff([]string{"hlt-br", "hlt-local", "hlt-peer"}, names); diff != "" {
			t.Errorf("interfaces (-want +got):\n%s", diff)
		}
	})
}

func TestBadConfigIsRefused(t *testing.T) {
	inNamespace(t, func(t *testing.T) {
		ok := netip.MustParsePrefix("10.213.78.1/24")
		for _, cfg := range []network.BridgeConfig{
			{Name: "", Address: ok}, {Name: "..", Address: ok}, {Name: "a/b", Address: ok}, {Name: "a b", Address: ok}, {Name: "a\x00", Address: ok}, {Name: "sixteen-is-too-l", Address: ok},
			{Name: "hlt-br", Address: netip.Prefix{}}, {Name: "hlt-br", Address: netip.MustParsePrefix("0.0.0.0/24")}, {Name: "hlt-br", Address: netip.MustParsePrefix("10.213.78.0/24")},
			{Name: "hlt-br", Address: ok, Address6: netip.MustParsePrefix("fd00::/64")},
		} {
			if err := network.EnsureBridge(cfg); err == nil {
				t.Errorf("EnsureBridge(%+v) = nil, want an error", cfg)
			}
		}
		if all, err := network.Interfaces(); err != nil || len(all) != 0 {
			t.Errorf("a refused bridge left %+v, %v", all, err)
		}
	})
}

func addVeth(t *testing.T, name, peer string) {
	t.Helper()
	attrs := netlink.NewLinkAttrs()
	attrs.Name = name
	must(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: peer}))
}

func attach(t *testing.T, name string) {
	t.Helper()
	link, err := netlink.LinkByName(name)
	must(t, err)
	master, err := netlink.LinkByName(config.Name)
	must(t, err)
	must(t, netlink.LinkSetMaster(link, master))
}

// leave moves the device to a namespace that lives as long as the test.
func leave(t *testing.T, name string) {
	t.Helper()
	link, err := netlink.LinkByName(name)
	must(t, err)
	ns := make(chan *os.File, 1)
	failed := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			failed <- err
			return
		}
		f, err := os.Open("/proc/thread-self/ns/net")
		if err != nil {
			failed <- err
			return
		}
		ns <- f
	}()
	select {
	case err := <-failed:
		must(t, err)
	case f := <-ns:
		t.Cleanup(func() { f.Close() })
		must(t, netlink.LinkSetNsFd(link, int(f.Fd())))
	}
}

// stranger is a process in a network namespace of its own, which ends with the
// test.
func stranger(t *testing.T) int {
	t.Helper()
	cmd := exec.Command("sleep", "inf")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET, Pdeathsig: unix.SIGKILL}
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // nothing else ends it
		_ = cmd.Wait()
	})
	return cmd.Process.Pid
}

func TestCable(t *testing.T) {
	inNamespace(t, func(t *testing.T) {
		must(t, network.EnsureBridge(config))
		c := network.Cable{Name: "hlt-c.1", Bridge: config.Name, Peer: "eth0", PID: stranger(t)}
		plugged := func(want bool) {
			t.Helper()
			if got, err := network.Plugged(c.Name); err != nil || got != want {
				t.Errorf("plugged in: %v, %v; want %v", got, err, want)
			}
		}
		plugged(false)
		must(t, network.Lay(c))
		plugged(true)
		must(t, network.Unplug(c.Name))
		plugged(false)
		if i, ok := find(t, c.Name); !ok || !i.Up {
			t.Errorf("unplugged, it is %+v, %v; want it switched on", i, ok)
		}
		must(t, network.Plug(c.Name, config.Name))
		plugged(true)

		// The namespace of the other end is another now: the machine booted.
		c.PID = stranger(t)
		must(t, network.Lay(c))
		plugged(true)
		names, err := network.Cables("hlt-c.")
		must(t, err)
		if diff := cmp.Diff([]string{c.Name}, names); diff != "" {
			t.Errorf("cables (-want +got):\n%s", diff)
		}
		must(t, network.RemoveCable(c.Name))
		must(t, network.RemoveCable(c.Name))
		plugged(false)

		for _, err := range []error{network.RemoveCable(config.Name), network.Plug(config.Name, config.Name), network.Unplug(config.Name)} {
			if !errors.Is(err, network.ErrForeign) {
				t.Errorf("a bridge is taken for a cable: %v", err)
			}
		}
	})
}

func TestTaken(t *testing.T) {
	inNamespace(t, func(t *testing.T) {
		must(t, network.Configure("lo", netip.Prefix{}))
		must(t, network.EnsureBridge(config))
		must(t, network.Configure(config.Name, netip.MustParsePrefix("10.213.80.9/25")))
		must(t, network.Configure(config.Name, netip.MustParsePrefix("10.213.80.9/25")))
		link, err := netlink.LinkByName(config.Name)
		must(t, err)
		far := &net.IPNet{IP: net.IPv4(10, 214, 0, 0), Mask: net.CIDRMask(16, 32)}
		must(t, netlink.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Dst: far, Gw: net.IPv4(10, 213, 78, 2)}))
		must(t, netlink.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Gw: net.IPv4(10, 213, 78, 2)}))
		for p, want := range map[string]bool{
			"10.213.78.0/24": true, "10.213.80.0/24": true, "10.213.80.128/25": false, "10.214.9.0/24": true, "10.215.0.0/24": false,
		} {
			if got, err := network.Taken(netip.MustParsePrefix(p)); err != nil || got != want {
				t.Errorf("%s taken: %v, %v; want %v", p, got, err, want)
			}
		}
	})
}
