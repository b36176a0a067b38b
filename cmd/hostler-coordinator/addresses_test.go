package main

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// TestAddressesForOthers: what hosts are told unless it is set leads to this machine
// from others too.
func TestAddressesForOthers(t *testing.T) {
	addrs := func(text string) (all []netip.Addr) {
		for a := range strings.FieldsSeq(text) {
			all = append(all, netip.MustParseAddr(a))
		}
		return all
	}
	for _, c := range []struct{ what, name, resolved, own, routed, want string }{
		{"a name that stands for loopback", "vm", "127.0.1.1", "127.0.0.1 ::1 192.0.2.2 fe80::1", "192.0.2.2", "192.0.2.2"},
		{"a name in a name server", "hq.example.org", "198.51.100.7", "127.0.0.1 10.0.0.5", "10.0.0.5", "10.0.0.5 hq.example.org"},
		{"a short name of its own address", "hq", "10.0.0.5", "127.0.0.1 10.0.0.5", "10.0.0.5", "10.0.0.5 hq"},
		{"a short name of another machine", "hq", "198.51.100.7", "127.0.0.1 10.0.0.5", "10.0.0.5", "10.0.0.5"},
		{"both families", "vm", "", "::1 10.0.0.5 fd00::2", "fd00::2 10.0.0.5", "10.0.0.5"},
		{"IPv6 alone", "vm", "", "::1 2001:db8::2", "2001:db8::2", "2001:db8::2"},
		{"no default route", "vm", "", "127.0.0.1 10.0.0.5 fe80::1 10.1.0.5 10.2.0.5 10.3.0.5", "", "10.0.0.5 10.1.0.5 10.2.0.5"},
		{"no network", "vm", "127.0.1.1", "127.0.0.1 ::1", "", "vm"},
	} {
		m := self{c.name, addrs(c.resolved), addrs(c.own), addrs(c.routed)}
		if got := m.hosts(); !slices.Equal(got, strings.Fields(c.want)) {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
	c := defaults()
	c.MQTT.Listen = "127.0.0.1:8883"
	if err := c.complete(); err != nil {
		t.Fatal(err)
	}
	if len(c.HTTP.Addresses) == 0 || strings.HasPrefix(c.HTTP.Addresses[0], "127.") || !slices.Equal(c.MQTT.Addresses, []string{"127.0.0.1:8883"}) {
		t.Errorf("addresses %q and %q", c.HTTP.Addresses, c.MQTT.Addresses)
	}
}

// TestInitTriesAddresses: init says which of the addresses that hosts would be told
// does not lead to it, and what to set.
func TestInitTriesAddresses(t *testing.T) {
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := other.Addr().String()
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	p := newProgram(t, 1)
	c, _, err := load(p.config, nil)
	if err != nil {
		t.Fatal(err)
	}
	p.write(p.config, fmt.Sprintf("state_dir = %q\n[http]\nlisten = %q\naddresses = [%q, %q]\n[mqtt]\nlisten = %q\n", c.StateDir, c.HTTP.Listen, c.HTTP.Listen, closed, closed))
	_, talk := p.do(0, "init", "--fleet", p.code())
	if !strings.Contains(talk, "from here, "+closed+" does not lead to this coordinator: ") || !strings.Contains(talk, "set http.addresses to HOST:PORT") {
		t.Errorf("it says %q", talk)
	}
	if strings.Contains(talk, "from here, "+c.HTTP.Listen) || strings.Count(talk, "from here") != 1 {
		t.Errorf("an address that leads here is doubted: %q", talk)
	}
}
