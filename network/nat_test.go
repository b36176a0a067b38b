package network_test

import (
	"net"
	"net/netip"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/network"
)

// inside calls a function on a thread in the network of a process. What is opened there
// stays there.
func inside[T any](t *testing.T, pid int, do func() (T, error)) T {
	t.Helper()
	type answer struct {
		v   T
		err error
	}
	done := make(chan answer, 1)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		var a answer
		f, err := os.Open("/proc/" + strconv.Itoa(pid) + "/ns/net")
		if err == nil {
			defer f.Close()
			err = unix.Setns(int(f.Fd()), unix.CLONE_NEWNET)
		}
		if a.err = err; err == nil {
			a.v, a.err = do()
		}
		done <- a
	}()
	a := <-done
	must(t, a.err)
	return a.v
}

// TestNAT: with NAT a container reaches a machine that knows nothing of its network, by the
// address of the host; without, it does not. The other way leads nowhere, unless a port is
// exposed.
func TestNAT(t *testing.T) {
	port := web
	inNamespace(t, func(t *testing.T) {
		must(t, network.Configure("lo", netip.Prefix{}))
		must(t, network.EnsureBridge(config))
		must(t, network.EnsureBridge(network.BridgeConfig{Name: "hlt-out", Address: netip.MustParsePrefix("192.0.2.1/24")}))
		ct, machine := stranger(t), stranger(t)
		must(t, network.Connect(network.Cable{Name: "hlt-c1", Bridge: config.Name, Peer: "eth0", PID: ct},
			network.End{Address: netip.MustParsePrefix("10.213.78.2/24"), Gateway: config.Address.Addr()}))
		must(t, network.Connect(network.Cable{Name: "hlt-c2", Bridge: "hlt-out", Peer: "eth0", PID: machine},
			network.End{Address: netip.MustParsePrefix("192.0.2.2/24")}))
		serve := func(pid int, address string) net.Listener {
			l := inside(t, pid, func() (net.Listener, error) { return net.Listen("tcp4", address) })
			t.Cleanup(func() { l.Close() })
			return l
		}
		there, web := serve(machine, "192.0.2.2:7000"), serve(ct, "10.213.78.2:80")
		// dial returns as whom the other end sees the caller; empty if it is not reached.
		dial := func(pid int, to string, l net.Listener) string {
			return inside(t, pid, func() (string, error) {
				c, err := net.DialTimeout("tcp4", to, time.Second)
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
		check("without NAT, the container", dial(ct, "192.0.2.2:7000", there), "")
		must(t, network.Apply(rules("me", true)))
		check("with NAT, the container", dial(ct, "192.0.2.2:7000", there), "192.0.2.1")
		check("without a port, the machine", dial(machine, "192.0.2.1:8080", web), "")
		must(t, network.Apply(rules("me", true, port)))
		check("with a port, the machine", dial(machine, "192.0.2.1:8080", web), "192.0.2.2")
		check("by the host, the container itself", dial(ct, "10.213.78.1:8080", web), "10.213.78.1")
		must(t, network.Apply(rules("me", false)))
		check("without NAT again, the container", dial(ct, "192.0.2.2:7000", there), "")
	})
}
