package container_test

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/container"
)

const ctid = container.CTID("0192f0c1-2b3c-7d4e-8f50-0123456789ab")

func TestCheckName(t *testing.T) {
	for _, name := range []string{"a", "web", "web-1", "9p", strings.Repeat("x", 63)} {
		if err := container.CheckName(name); err != nil {
			t.Errorf("CheckName(%q) = %v, want nil", name, err)
		}
	}
	bad := []string{
		"", ".", "..", "../x", "a/b", "/etc", "a\x00b", "a b", "Web", "web_1", "web.1",
		"-web", "web-", "wéb", "a\nb", "--help", strings.Repeat("x", 64),
	}
	for _, name := range bad {
		if err := container.CheckName(name); err == nil {
			t.Errorf("CheckName(%q) = nil, want an error", name)
		}
	}
}

func TestCheckReference(t *testing.T) {
	for _, name := range []string{"web", "Debian12", "c1.example.org", "a_b", "web-"} {
		if err := container.CheckReference(name); err != nil {
			t.Errorf("CheckReference(%q) = %v, want nil", name, err)
		}
	}
	for _, name := range []string{"", ".", "..", ".hidden", "-n", "a/b", "../x", "a\x00", "a b", strings.Repeat("x", 64)} {
		if err := container.CheckReference(name); err == nil {
			t.Errorf("CheckReference(%q) = nil, want an error", name)
		}
	}
}

func TestCheckCTID(t *testing.T) {
	if err := container.CheckCTID(string(ctid)); err != nil {
		t.Error(err)
	}
	for _, s := range []string{"", "0192f0c1", strings.ToUpper(string(ctid)), strings.Replace(string(ctid), "-", "0", 1), strings.Replace(string(ctid), "0", "/", 1), string(ctid) + "0"} {
		if err := container.CheckCTID(s); err == nil {
			t.Errorf("CheckCTID(%q) = nil, want an error", s)
		}
	}
}

func TestCheckTemplate(t *testing.T) {
	for template, word := range map[string]bool{
		"busybox": true, "Debian_12-x": true, "debian:12": false, "registry.example:5000/a/b": false,
		"localhost/x@sha256:" + strings.Repeat("0", 64): false,
	} {
		if err := container.CheckTemplate(template); err != nil || container.IsWord(template) != word {
			t.Errorf("CheckTemplate(%q) = %v; a word: %t", template, err, !word)
		}
	}
	for _, bad := range []string{"", "/bin/true", "-x", "--help", "../x", "a/../b", "a//b", "a b", "a\x00", "a\n", "a?b", strings.Repeat("x", 256)} {
		if err := container.CheckTemplate(bad); err == nil {
			t.Errorf("CheckTemplate(%q) = nil, want an error", bad)
		}
	}
}

// TestIsOCI tells images that every runtime can use from those that LXC alone has.
func TestIsOCI(t *testing.T) {
	for template, want := range map[string]bool{
		"debian:12": true, "registry.example:5000/a/b": true, "registry.example/a": true, "localhost/web:1": true, "busybox": false,
		"images:debian/12": false, "file:/srv/a.tar": false, "https://site.example/a.tar": false, "debootstrap:bookworm": false, "debootstrap:": false,
	} {
		if container.IsOCI(template) != want {
			t.Errorf("%s: %t", template, !want)
		}
	}
}

func validSpec() container.CreateSpec {
	return container.CreateSpec{
		Name: "web", CTID: ctid, Template: "busybox",
		Network: container.Network{
			Bridge:  "br0",
			Address: netip.MustParsePrefix("10.70.0.2/24"),
			Gateway: netip.MustParseAddr("10.70.0.1"),
			MAC:     container.MAC(ctid),
		},
	}
}

func TestCreateSpecCheck(t *testing.T) {
	if err := validSpec().Check(); err != nil {
		t.Fatal(err)
	}
	without := validSpec()
	without.Network = container.Network{}
	if err := without.Check(); err != nil {
		t.Errorf("without network: %v", err)
	}
	for name, spoil := range map[string]func(*container.CreateSpec){
		"name":               func(s *container.CreateSpec) { s.Name = "../web" },
		"ctid":               func(s *container.CreateSpec) { s.CTID = "" },
		"template is a path": func(s *container.CreateSpec) { s.Template = "/tmp/evil" },
		"template is empty":  func(s *container.CreateSpec) { s.Template = "" },
		"bridge":             func(s *container.CreateSpec) { s.Network.Bridge = "a\nlxc.hook.start=x" },
		"no address":         func(s *container.CreateSpec) { s.Network.Address = netip.Prefix{} },
		"foreign gateway":    func(s *container.CreateSpec) { s.Network.Gateway = netip.MustParseAddr("10.71.0.1") },
		"no MAC":             func(s *container.CreateSpec) { s.Network.MAC = "" },
		"group MAC":          func(s *container.CreateSpec) { s.Network.MAC = "01:00:5e:00:00:01" },
	} {
		spec := validSpec()
		spoil(&spec)
		if err := spec.Check(); err == nil {
			t.Errorf("%s: Check() = nil, want an error", name)
		}
	}
}

func TestAllocate(t *testing.T) {
	addrs := func(texts ...string) (out []netip.Addr) {
		for _, s := range texts {
			out = append(out, netip.MustParseAddr(s))
		}
		return out
	}
	for _, tt := range []struct {
		name    string
		network string
		used    []netip.Addr
		want    string
	}{
		{"first", "10.70.0.0/24", nil, "10.70.0.2"},
		{"host bits are ignored", "10.70.0.99/24", nil, "10.70.0.2"},
		{"lowest gap", "10.70.0.0/24", addrs("10.70.0.4", "10.70.0.2"), "10.70.0.3"},
		{"other networks do not count", "10.70.0.0/24", addrs("10.71.0.2"), "10.70.0.2"},
		{"mapped form counts", "10.70.0.0/24", addrs("::ffff:10.70.0.2"), "10.70.0.3"},
		{"one host left", "10.70.0.0/30", nil, "10.70.0.2"},
		{"end of the address space", "255.255.255.252/30", nil, "255.255.255.254"},
	} {
		got, err := container.Allocate(netip.MustParsePrefix(tt.network), tt.used)
		if err != nil || got.String() != tt.want {
			t.Errorf("%s: Allocate = %v, %v; want %s", tt.name, got, err, tt.want)
		}
	}
	for _, network := range []string{"10.70.0.0/31", "10.70.0.0/32"} {
		if _, err := container.Allocate(netip.MustParsePrefix(network), nil); !errors.Is(err, container.ErrFull) {
			t.Errorf("Allocate(%s) = %v, want ErrFull", network, err)
		}
	}
	if got, err := container.Allocate(netip.MustParsePrefix("fd00::/64"), addrs("fd00::2", "10.70.0.3")); err != nil || got.String() != "fd00::3" {
		t.Errorf("Allocate in IPv6 = %v, %v, want fd00::3", got, err)
	}
	if _, err := container.Allocate(netip.Prefix{}, nil); err == nil || errors.Is(err, container.ErrFull) {
		t.Errorf("Allocate in no network = %v, want a plain error", err)
	}
}

func TestAllocateUntilFull(t *testing.T) {
	network := netip.MustParsePrefix("10.70.0.0/24")
	var used []netip.Addr
	for {
		a, err := container.Allocate(network, used)
		if errors.Is(err, container.ErrFull) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		used = append(used, a)
	}
	// 256 less the network, the gateway and the broadcast address.
	if len(used) != 253 || used[252].String() != "10.70.0.254" {
		t.Errorf("allocated %d addresses, the last %v; want 253 up to 10.70.0.254", len(used), used[len(used)-1])
	}
}

func TestMAC(t *testing.T) {
	if got, again := container.MAC(ctid), container.MAC(ctid); got != again {
		t.Errorf("MAC changed from %s to %s", got, again)
	}
	seen := map[string]bool{}
	for c := range 256 {
		mac := container.MAC(ctid[:34] + container.CTID("0123456789abcdef"[c/16:c/16+1]+"0123456789abcdef"[c%16:c%16+1]))
		spec := validSpec()
		spec.Network.MAC = mac
		if err := spec.Check(); err != nil {
			t.Errorf("MAC %s: %v", mac, err)
		}
		if second := mac[1]; second != '2' && second != '6' && second != 'a' && second != 'e' {
			t.Errorf("MAC %s is not locally administered unicast", mac)
		}
		seen[mac] = true
	}
	if len(seen) != 256 {
		t.Errorf("256 ids share %d addresses", len(seen))
	}
}

// TestNameservers: of the host's servers of names, those on its loopback serve no container.
func TestNameservers(t *testing.T) {
	const host = "# by hand\nnameserver 127.0.0.53\nnameserver ::1\nnameserver\t192.0.2.53 # near\noptions edns0\nsearch example.org\nnameserver nonsense\n"
	if got, want := container.Nameservers(host), "nameserver 192.0.2.53 # near\nsearch example.org\n"; got != want {
		t.Errorf("a container is told %q, want %q", got, want)
	}
}
