//go:build integration

package integration

import (
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hostler-io/hostler/api"
)

// TestNetworks has a second network on a host. Each host is a machine of its own, with
// networks and a packet filter of its own.
func TestNetworks(t *testing.T) {
	t.Parallel()
	l := newLab(t, "1")
	const host = "edge-01"
	l.must(t, "net", "create", host, "back")
	l.cli(t, "net", "create", host, "back").exits(t, 1, "a network \"back\" exists")
	l.cli(t, "net", "create", host, "wide", "--ipv4", "8.8.8.0/24").exits(t, 2, "is no private network")
	l.cli(t, "net", "create", host, "both", "--vlan", "7", "--isolated").exits(t, 1, "leave one out")
	taken := l.nodes[host].Address
	l.cli(t, "net", "create", host, "mine", "--ipv4", netip.MustParsePrefix(taken+"/24").Masked().String()).exits(t, 1, "this host has addresses or routes in")
	if _, err := os.Stat("/proc/net/vlan"); err != nil {
		l.cli(t, "net", "create", host, "tagged", "--vlan", "7").exits(t, 1, "unsupported by this kernel")
	}
	l.must(t, "net", "create", host, "alone", "--ipv4", "10.77.7.0/24", "--ipv6", "none", "--isolated")
	for _, args := range [][]string{{"a", "--network", "back", "--expose", "8081:80"}, {"b", "--network", "back"}, {"c"}, {"d", "--network", "alone"}} {
		l.must(t, append([]string{"ct", "create", host + "/" + args[0], "busybox", "--start"}, args[1:]...)...)
	}
	l.cli(t, "ct", "create", host+"/e", "busybox", "--network", "none-such").exits(t, 1, "this host has no network \"none-such\"")
	l.cli(t, "net", "expose", host+"/d", "8082:80").exits(t, 1, "is isolated")
	l.cli(t, "net", "rm", host, "back").exits(t, 1, "is that of container a")
	address := func(name, family string) string {
		t.Helper()
		for _, word := range strings.Fields(l.must(t, "exec", host+"/"+name, "--", "ip", "-o", family, "addr", "show", "dev", "eth0", "scope", "global")) {
			if p, err := netip.ParsePrefix(word); err == nil {
				return p.Addr().String()
			}
		}
		t.Errorf("%s has no address of %s", name, family)
		return ""
	}
	serve(t, l, host+"/a", "a")
	a4, a6 := address("a", "-4"), address("a", "-6")
	if a := netip.MustParseAddr(a6); !a.IsPrivate() {
		t.Errorf("a has the address %s, want one of fd00::/8", a6)
	}
	asks := func(name, url, want string) {
		t.Helper()
		if got := strings.TrimSpace(l.cli(t, "exec", host+"/"+name, "--", "timeout", "3", "wget", "-qO-", url).stdout); got != want {
			t.Errorf("%s, asking %s, is told %q, want %q", name, url, got, want)
		}
	}
	asks("b", "http://"+a4+"/", "a")
	asks("b", "http://["+a6+"]/", "a")
	asks("c", "http://"+a4+"/", "")
	asks("d", "http://"+a4+"/", "")
	for _, url := range []string{"http://" + taken + ":8081/", "http://127.0.0.1:8081/", "http://[" + netip.MustParsePrefix(a6+"/64").Masked().Addr().Next().String() + "]:8081/"} {
		if got := l.curl(t, host, url); got != "a" {
			t.Errorf("the host, asking %s, is told %q", url, got)
		}
	}
	if parts := show[[]api.NetworkPart](t, l.world, "net", "show", host+"/a"); len(parts) == 0 || parts[0].Owner != "a" {
		t.Errorf("net show of a container tells %+v", parts)
	}
	count := func(kind, network string) (n int) {
		t.Helper()
		for _, p := range show[[]api.NetworkPart](t, l.world, "net", "show", host, network) {
			if p.Kind == kind {
				n++
			}
		}
		return n
	}
	if bridges, cables := count("bridge", "back"), count("cable", "back"); bridges != 1 || cables != 2 {
		t.Errorf("the network back has %d bridges and %d cables", bridges, cables)
	}
	l.dev(t, "kill", host).exits(t, 0)
	l.dev(t, "heal", host).exits(t, 0)
	l.must(t, "ct", "start", host+"/a") // what is told of it may be from before the boot
	l.must(t, "ct", "start", host+"/b")
	serve(t, l, host+"/a", "booted")
	if got := address("a", "-6"); got != a6 {
		t.Errorf("after a boot, a has the address %s, had %s", got, a6)
	}
	// The kernel looks first whether another has the address.
	for until := time.Now().Add(patience); time.Now().Before(until); elapse(t, 100*time.Millisecond) {
		if l.cli(t, "exec", host+"/b", "--", "timeout", "3", "wget", "-qO-", "http://["+a6+"]/").stdout == "booted" {
			break
		}
	}
	asks("b", "http://["+a6+"]/", "booted")
	for _, name := range []string{"a", "b", "d"} {
		l.must(t, "ct", "rm", host+"/"+name, "--yes")
	}
	l.must(t, "net", "rm", host, "back")
	l.must(t, "net", "rm", host, "alone")
	if left := l.inside(t, host, "ip", "-o", "link", "show", "type", "bridge"); strings.Contains(left, "hstl-") {
		t.Errorf("of the networks is left\n%s", left)
	}
	l.cli(t, "net", "rm", host, "back").exits(t, 1, "has no network \"back\"")
}
