package network_test

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/hostler-io/hostler/network"
)

// TestIPv6: a container reaches machines by IPv6 with NAT alone, ports lead to it in both
// protocols, and a network that is isolated leads nowhere.
func TestIPv6(t *testing.T) {
	inNamespace(t, func(t *testing.T) {
		must(t, network.Configure("lo", netip.Prefix{}))
		both := config
		both.Address6 = netip.MustParsePrefix("fd13:213::1/64")
		must(t, network.EnsureBridge(both))
		must(t, network.EnsureBridge(both))
		must(t, network.EnsureBridge(network.BridgeConfig{Name: "hlt-out", Address: netip.MustParsePrefix("192.0.2.1/24"), Address6: netip.MustParsePrefix("2001:db8::1/64")}))
		ct, machine := stranger(t), stranger(t)
		must(t, network.Connect(network.Cable{Name: "hlt-c1", Bridge: config.Name, Peer: "eth0", PID: ct}, network.End{
			Address: netip.MustParsePrefix("10.213.78.2/24"), Gateway: config.Address.Addr(),
			Address6: netip.MustParsePrefix("fd13:213::2/64"), Gateway6: both.Address6.Addr()}))
		must(t, network.Connect(network.Cable{Name: "hlt-c2", Bridge: "hlt-out", Peer: "eth0", PID: machine}, network.End{
			Address: netip.MustParsePrefix("192.0.2.2/24"), Address6: netip.MustParsePrefix("2001:db8::2/64")}))
		// This machine knows the way to the container, so that nothing but rules can be in it.
		neighbour := stranger(t)
		must(t, network.Connect(network.Cable{Name: "hlt-c3", Bridge: "hlt-out", Peer: "eth0", PID: neighbour}, network.End{
			Address: netip.MustParsePrefix("192.0.2.3/24"), Gateway: netip.MustParseAddr("192.0.2.1"),
			Address6: netip.MustParsePrefix("2001:db8::3/64"), Gateway6: netip.MustParseAddr("2001:db8::1")}))
		serve := func(pid int, address string) net.Listener {
			l := inside(t, pid, func() (net.Listener, error) { return net.Listen("tcp", address) })
			t.Cleanup(func() { l.Close() })
			return l
		}
		there, web4, web6 := serve(machine, "[2001:db8::2]:7000"), serve(ct, "10.213.78.2:80"), serve(ct, "[fd13:213::2]:80")
		near4, near6 := serve(neighbour, "192.0.2.3:7000"), serve(neighbour, "[2001:db8::3]:7000")
		// dial returns as whom the other end sees the caller; empty if it is not reached.
		dial := func(pid int, to string, l net.Listener) string {
			return inside(t, pid, func() (string, error) {
				c, err := net.DialTimeout("tcp", to, time.Second)
				if err != nil {
					return "", nil
				}
				defer c.Close()
				seen, err := l.Accept()
				if err != nil {
					return "", err
				}
				defer seen.Close()
				host, _, err := net.SplitHostPort(seen.RemoteAddr().String())
				return host, err
			})
		}
		check := func(what, got, want string) {
			t.Helper()
			if got != want {
				t.Errorf("%s is seen as %q, want %q", what, got, want)
			}
		}
		subnet := network.Subnet{Bridge: config.Name, Network: config.Address.Masked(), Network6: both.Address6.Masked(), NAT: true}
		apply := func(ports ...network.Port) {
			t.Helper()
			must(t, network.Apply(network.Rules{Mark: "me", Subnets: []network.Subnet{subnet}, Ports: ports}))
		}
		check("without NAT, the container", dial(ct, "[2001:db8::2]:7000", there), "")
		apply()
		check("with NAT, the container", dial(ct, "[2001:db8::2]:7000", there), "2001:db8::1")
		check("without a port, the machine", dial(machine, "[2001:db8::1]:8080", web6), "")
		six := web
		six.Address = netip.MustParseAddr("fd13:213::2")
		apply(web, six)
		check("with a port, the machine", dial(machine, "[2001:db8::1]:8080", web6), "2001:db8::2")
		check("with a port, the machine by IPv4", dial(machine, "192.0.2.1:8080", web4), "192.0.2.2")
		check("by the host, the container itself", dial(ct, "[fd13:213::1]:8080", web6), "fd13:213::1")
		before := nft(t, "-a", "list", "table", "inet", "hostler")
		apply(web, six)
		if got := nft(t, "-a", "list", "table", "inet", "hostler"); got != before {
			t.Errorf("applied again, the rules are\n%s\nand were\n%s", got, before)
		}
		ways := []struct {
			what  string
			from  int
			to    string
			l     net.Listener
			known string
		}{
			{"the container", ct, "[2001:db8::3]:7000", near6, "fd13:213::2"},
			{"by IPv4, the container", ct, "192.0.2.3:7000", near4, "10.213.78.2"},
			{"the other way, the machine", neighbour, "[fd13:213::2]:80", web6, "2001:db8::3"},
			{"the other way by IPv4, the machine", neighbour, "10.213.78.2:80", web4, "192.0.2.3"},
		}
		subnet.NAT = false
		apply()
		for _, w := range ways {
			got := ""
			for try := 0; try < 10 && got == ""; try++ { // the kernel looks first whether another has an address of IPv6
				got = dial(w.from, w.to, w.l)
			}
			check("not isolated, "+w.what, got, w.known)
		}
		subnet.Isolated = true
		apply()
		for _, w := range ways {
			check("isolated, "+w.what, dial(w.from, w.to, w.l), "")
		}
		if b, err := os.ReadFile("/proc/sys/net/ipv6/conf/all/forwarding"); err != nil || strings.TrimSpace(string(b)) != "1" {
			t.Errorf("packets of IPv6 are forwarded: %q, %v", b, err)
		}
	})
}

// TestOwnedBridges: a bridge of a network bears its mark, one of another program is never
// taken, and one that was made and not marked before a crash is.
func TestOwnedBridges(t *testing.T) {
	inNamespace(t, func(t *testing.T) {
		mine := config
		mine.Owner = network.Owner{Mark: "me", Name: "back"}
		must(t, network.EnsureBridge(mine))
		must(t, network.EnsureBridge(mine))
		other := mine
		other.Owner = network.Owner{Mark: "other", Name: "back"}
		if err := network.EnsureBridge(other); !errors.Is(err, network.ErrForeign) {
			t.Errorf("the bridge of another agent: %v", err)
		}
		link, err := netlink.LinkByName(config.Name)
		must(t, err)
		must(t, netlink.LinkSetAlias(link, ""))
		must(t, network.EnsureBridge(mine))
		foreign := network.BridgeConfig{Name: "hlt-out", Address: netip.MustParsePrefix("192.0.2.1/24")}
		must(t, network.EnsureBridge(foreign))
		foreign.Address, foreign.Owner = netip.MustParsePrefix("192.0.3.1/24"), mine.Owner
		if err := network.EnsureBridge(foreign); !errors.Is(err, network.ErrForeign) {
			t.Errorf("a bridge of another program: %v", err)
		}
		got, err := network.Owned("me")
		must(t, err)
		if len(got) != 1 || got["back"] != config.Name {
			t.Errorf("bridges of ours are %v", got)
		}
		addVeth(t, "hlt-a", "hlt-b")
		attach(t, "hlt-a")
		if n, err := network.Plugins(config.Name); err != nil || n != 1 {
			t.Errorf("%d interfaces are plugged in, %v", n, err)
		}
	})
}
