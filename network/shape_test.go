package network_test

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/hostler-io/hostler/network"
)

// TestShape: what passes a cable is held back in both directions, another cable is not.
// The limit is read back, taken away, and what is left of it when the container has ended
// is found and removed.
func TestShape(t *testing.T) {
	if err := network.CanShape(); err != nil {
		t.Fatal(err)
	}
	inNamespace(t, func(t *testing.T) {
		must(t, network.Configure("lo", netip.Prefix{}))
		must(t, network.EnsureBridge(config))
		ct, other, bare := stranger(t), stranger(t), stranger(t)
		must(t, network.Connect(network.Cable{Name: "hlt-c1", Bridge: config.Name, Peer: "eth0", PID: ct},
			network.End{Address: netip.MustParsePrefix("10.213.78.2/24"), Gateway: config.Address.Addr()}))
		must(t, network.Connect(network.Cable{Name: "hlt-c2", Bridge: config.Name, Peer: "eth0", PID: other},
			network.End{Address: netip.MustParsePrefix("10.213.78.3/24"), Gateway: config.Address.Addr()}))
		expect := func(want int64) {
			t.Helper()
			if got, err := network.Shaped(ct); err != nil || got != want {
				t.Errorf("the rate is %d, %v, want %d", got, err, want)
			}
		}
		expect(0)
		l, err := net.Listen("tcp4", "10.213.78.1:7000")
		must(t, err)
		defer l.Close()
		// pass is how many bits in a second pass from or to the container.
		const size = 512 << 10
		pass := func(pid int, send bool) float64 {
			t.Helper()
			c := inside(t, pid, func() (net.Conn, error) { return net.Dial("tcp4", l.Addr().String()) })
			here, err := l.Accept()
			must(t, err)
			from, to := c, here
			if !send {
				from, to = here, c
			}
			began := time.Now()
			go func() {
				_, _ = from.Write(make([]byte, size)) // what is missing is missed at the other end
				from.Close()
			}()
			n, err := io.Copy(io.Discard, to)
			if err != nil || n != size {
				t.Errorf("%d bytes passed, %v", n, err)
			}
			to.Close()
			return size * 8 / time.Since(began).Seconds()
		}
		for _, rate := range []int64{4e6, 8e6, 8e6} { // another one, and the same again
			must(t, network.Shape(ct, rate))
			expect(rate)
			for _, send := range []bool{true, false} {
				if got := pass(ct, send); got > float64(rate)*1.3 {
					t.Errorf("limited to %d bit/s, %.0f pass, sent by the container: %v", rate, got, send)
				}
			}
		}
		if got := pass(other, true); got < 16e6 {
			t.Errorf("without a limit %.0f bit/s pass", got)
		}
		must(t, network.Shape(ct, 0))
		expect(0)
		if got := pass(ct, true); got < 16e6 {
			t.Errorf("with the limit taken away %.0f bit/s pass", got)
		}
		if err := network.Shape(bare, 1e6); !errors.Is(err, network.ErrNoCable) {
			t.Errorf("without a cable: %v", err)
		}

		must(t, network.Shape(ct, 1e6))
		foreign := netlink.NewLinkAttrs()
		foreign.Name = "ifb7"
		must(t, netlink.LinkAdd(&netlink.Ifb{LinkAttrs: foreign}))
		gone := func() []string {
			t.Helper()
			all, err := network.Shapers()
			must(t, err)
			return all
		}
		if got := gone(); len(got) > 0 {
			t.Errorf("while the container runs, %v belong to none", got)
		}
		must(t, network.RemoveCable("hlt-c1"))
		left := gone()
		if len(left) != 1 {
			t.Fatalf("of the container are left %v", left)
		}
		must(t, network.RemoveShaper(left[0]))
		if err := network.RemoveShaper("ifb7"); !errors.Is(err, network.ErrForeign) {
			t.Errorf("a device of another program: %v", err)
		}
		if _, err := netlink.LinkByName(left[0]); err == nil {
			t.Error("the device is still there")
		}
	})
}

// TestShapeNoOther: interfaces of a container that lead to a namespace of its own have
// numbers there. A cable to another container with that number here is none of its cables.
func TestShapeNoOther(t *testing.T) {
	inNamespace(t, func(t *testing.T) {
		must(t, network.EnsureBridge(config))
		ct, other, nested := stranger(t), stranger(t), stranger(t)
		for name, pid := range map[string]int{"hlt-c1": ct, "hlt-c2": other} {
			must(t, network.Lay(network.Cable{Name: name, Bridge: config.Name, Peer: "eth0", PID: pid}))
		}
		victim, err := netlink.LinkByName("hlt-c2")
		must(t, err)
		inside(t, nested, func() (any, error) {
			attrs := netlink.NewLinkAttrs()
			attrs.Name, attrs.Index = "deep", victim.Attrs().Index
			return nil, netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "down", PeerNamespace: netlink.NsPid(ct)})
		})
		must(t, network.Shape(ct, 1e6))
		for pid, want := range map[int]int64{ct: 1e6, other: 0} {
			if got, err := network.Shaped(pid); err != nil || got != want {
				t.Errorf("a container is limited to %d, %v, want %d", got, err, want)
			}
		}
		plugs, _, err := network.Look(config.Name, []int{ct, os.Getpid()})
		must(t, err)
		for _, c := range plugs.Cables {
			if want := map[string]int{"hlt-c1": ct}[c.Name]; c.PID != want {
				t.Errorf("cable %s leads to process %d, want %d", c.Name, c.PID, want)
			}
		}
		if err := network.Shape(os.Getpid(), 1e6); !errors.Is(err, network.ErrNoCable) {
			t.Errorf("a process in the network of the host: %v", err)
		}
	})
}
