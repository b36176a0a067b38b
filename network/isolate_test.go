package network_test

import (
	"errors"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/network"
)

// TestIsolationFailsClosed: where the rules of ports cannot be written, isolated networks
// are isolated all the same. Where theirs cannot be written either, their bridges are
// switched off until they can.
func TestIsolationFailsClosed(t *testing.T) {
	inNamespace(t, func(t *testing.T) {
		must(t, network.EnsureBridge(config))
		alone := network.BridgeConfig{Name: "hlt-alone", Address: netip.MustParsePrefix("10.213.90.1/24")}
		must(t, network.EnsureBridge(alone))
		wish := rules("me", true, web)
		wish.Subnets = append(wish.Subnets, network.Subnet{Bridge: alone.Name, Network: alone.Address.Masked(), Isolated: true})
		up := func(want bool) {
			t.Helper()
			if i, there := find(t, alone.Name); !there || i.Up != want {
				t.Errorf("the bridge of the isolated network is on: %v, want %v", i.Up, want)
			}
			if i, _ := find(t, config.Name); !i.Up {
				t.Error("the bridge of the other network is off")
			}
		}
		isolated := func(want bool) {
			t.Helper()
			got := nft(t, "list", "ruleset")
			if strings.Contains(got, "hlt-alone leads nowhere") != want || strings.Contains(got, "hlt-alone is not reached") != want {
				t.Errorf("the isolated network has rules: want %v, in\n%s", want, got)
			}
		}
		// A chain of the name that is wanted is of another kind: ports and NAT cannot be had.
		nft(t, "add table inet hostler")
		nft(t, "add chain inet hostler postrouting { type filter hook input priority 0; }")
		if err := network.Apply(wish); err == nil || errors.Is(err, network.ErrNotIsolated) {
			t.Errorf("without NAT: %v", err)
		}
		isolated(true)
		up(true)
		// What is isolated already stays so.
		nft(t, "flush chain inet hostler postrouting")
		if err := network.Apply(wish); err == nil || errors.Is(err, network.ErrNotIsolated) {
			t.Errorf("without NAT, again: %v", err)
		}
		up(true)

		nft(t, "delete table inet hostler")
		nft(t, "add table inet hostler")
		nft(t, "add chain inet hostler forward { type filter hook input priority 0; }")
		if err := network.Apply(wish); !errors.Is(err, network.ErrNotIsolated) {
			t.Errorf("without rules that isolate: %v", err)
		}
		isolated(false)
		up(false)
		nft(t, "delete table inet hostler")
		must(t, network.Apply(wish))
		isolated(true)
		up(true)
	})
}

// TestPortsOfAnIsolatedNetwork: no port leads to an isolated network, and the loopback of
// the host is not reached from it.
func TestPortsOfAnIsolatedNetwork(t *testing.T) {
	inNamespace(t, func(t *testing.T) {
		must(t, network.EnsureBridge(config))
		localnet := func(want string) {
			t.Helper()
			if b, err := os.ReadFile("/proc/sys/net/ipv4/conf/hlt-br/route_localnet"); err != nil || strings.TrimSpace(string(b)) != want {
				t.Errorf("route_localnet is %q, %v, want %s", b, err, want)
			}
		}
		wish := rules("me", false, web)
		must(t, network.Apply(wish))
		localnet("1")
		wish.Subnets[0].Isolated = true
		must(t, network.Apply(wish))
		localnet("0")
		if got := nft(t, "list", "ruleset"); strings.Contains(got, "8080") || !strings.Contains(got, "hlt-br leads nowhere") {
			t.Errorf("the rules of an isolated network are\n%s", got)
		}
	})
}

// TestIsolatedForwardsNothing: a network that is isolated does not have the host forward
// packets, for itself or for networks that did without.
func TestIsolatedForwardsNothing(t *testing.T) {
	inNamespace(t, func(t *testing.T) {
		const forward = "/proc/sys/net/ipv4/ip_forward"
		must(t, os.WriteFile(forward, []byte("0"), 0))
		expect := func(want string) {
			t.Helper()
			if b, err := os.ReadFile(forward); err != nil || strings.TrimSpace(string(b)) != want {
				t.Errorf("packets are forwarded: %q, %v, want %s", b, err, want)
			}
		}
		wish := rules("me", false)
		wish.Subnets = append(wish.Subnets, network.Subnet{Bridge: "hlt-alone", Network: netip.MustParsePrefix("10.213.90.0/24"), Isolated: true})
		must(t, network.Apply(wish))
		expect("0")
		wish.Ports = []network.Port{web}
		must(t, network.Apply(wish))
		expect("1")
	})
}

// TestPartialRules: who does not know all that is wanted takes nothing away.
func TestPartialRules(t *testing.T) {
	inNamespace(t, func(t *testing.T) {
		must(t, network.Apply(rules("me", false, web)))
		before := nft(t, "-a", "list", "table", "inet", "hostler")
		must(t, network.Apply(network.Rules{Mark: "me", Partial: true}))
		if got := nft(t, "-a", "list", "table", "inet", "hostler"); got != before {
			t.Errorf("the rules are\n%s\nand were\n%s", got, before)
		}
		must(t, network.Apply(network.Rules{Mark: "me"}))
		if got := nft(t, "list", "ruleset"); strings.Contains(got, "hostler") {
			t.Errorf("left is\n%s", got)
		}
	})
}

// TestAsked: a server of names is asked by its bridge and from its own network alone, also
// where the network is isolated.
func TestAsked(t *testing.T) {
	inNamespace(t, func(t *testing.T) {
		wish := rules("me", false)
		wish.Subnets[0].Isolated = true
		wish.Subnets[0].Names = []netip.Prefix{netip.MustParsePrefix("10.213.78.1/24"), netip.MustParsePrefix("fd78::1/64")}
		must(t, network.Apply(wish))
		got := nft(t, "list", "table", "inet", "hostler")
		for _, want := range []string{
			`iifname != "hlt-br" ip daddr 10.213.78.1 udp dport 53 drop`, `ip saddr != 10.213.78.0/24 ip daddr 10.213.78.1 tcp dport 53 drop`,
			`iifname != "hlt-br" ip6 daddr fd78::1 tcp dport 53 drop`, `ip6 saddr != fd78::/64 ip6 daddr fd78::1 udp dport 53 drop`,
			"hlt-br leads nowhere",
		} {
			if !strings.Contains(got, want) {
				t.Errorf("no rule %q in\n%s", want, got)
			}
		}
		wish.Subnets[0].Names, wish.Subnets[0].Isolated = nil, false
		must(t, network.Apply(wish))
		if got := nft(t, "list", "tables"); strings.Contains(got, "inet hostler") {
			t.Errorf("the table is left: %s", got)
		}
	})
}

// TestPortOfNames: the port at which names are asked for leads to a container, but not at the
// address at which they are.
func TestPortOfNames(t *testing.T) {
	inNamespace(t, func(t *testing.T) {
		dns := network.Port{Owner: "ct-dns", Protocol: "udp", Host: 53, Container: 5353, Address: netip.MustParseAddr("10.213.78.3"), Bridge: "hlt-br"}
		wish := rules("me", false, dns, web)
		for range 2 {
			wish.Subnets[0].Names = []netip.Prefix{netip.MustParsePrefix("10.213.78.1/24"), netip.MustParsePrefix("fd78::1/64")}
			must(t, network.Apply(wish))
			got := nft(t, "list", "table", "inet", "hostler")
			if n := strings.Count(got, "ip daddr != 10.213.78.1 udp dport 53 dnat ip to 10.213.78.3:5353"); n != 2 || strings.Contains(got, "daddr != fd78::1") {
				t.Errorf("the port leads elsewhere in %d chains of\n%s", n, got)
			}
			wish.Subnets[0].Names = nil
			must(t, network.Apply(wish))
			if got := nft(t, "list", "table", "inet", "hostler"); strings.Contains(got, "!= 10.213.78.1") || strings.Count(got, "udp dport 53 dnat") != 2 {
				t.Errorf("without names the rules are\n%s", got)
			}
		}
	})
}
