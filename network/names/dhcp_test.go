package names_test

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/hostler-io/hostler/internal/builttest"
	"github.com/hostler-io/hostler/network"
	"github.com/hostler-io/hostler/network/names"
)

// lease asks for an address by DHCP, as a container does, and returns what it was told.
func (p plugged) lease(t *testing.T, script string, more ...string) string {
	t.Helper()
	args := append([]string{"--net=/proc/" + strconv.Itoa(p.pid) + "/ns/net", "busybox", "udhcpc", "-i", "eth0", "-n", "-q", "-f", "-t", "2", "-T", "1", "-s", script}, more...)
	out, _ := exec.Command("nsenter", args...).CombinedOutput() // it fails if nothing answers
	return string(out)
}

// leases waits until a container is told what is wanted.
func (p plugged) leases(t *testing.T, script, want string) {
	t.Helper()
	out := ""
	if !soon(func() bool {
		out = p.lease(t, script)
		return strings.Contains(out, want)
	}) {
		t.Errorf("it is told %s, want %s", out, want)
	}
}

// mac is the hardware address in the namespace.
func (p plugged) mac(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("nsenter", "--net=/proc/"+strconv.Itoa(p.pid)+"/ns/net", "ip", "-br", "link", "show", "eth0").Output()
	f := strings.Fields(string(out))
	if err != nil || len(f) < 3 {
		t.Fatalf("%s, %v", out, err)
	}
	return f[2]
}

// TestDHCP: a container that is known is told what it has, by a process that is bound to the
// bridge; any other gets no answer. A process that is killed is back, and what changes is
// told by the same process.
func TestDHCP(t *testing.T) {
	script := filepath.Join(t.TempDir(), "told")
	if err := builttest.Write(script, "#!/bin/sh\n[ \"$1\" != bound ] || echo told $ip/$mask by $serverid, router $router, names at $dns in $domain.\n"); err != nil {
		t.Fatal(err)
	}
	bridge, address := fmt.Sprintf("hnd%d", os.Getpid()), prefix(5)
	seventh := address.Addr().As4()
	seventh[3] = 7
	seven := netip.AddrFrom4(seventh)
	s := serve(t)
	zone := func(alone bool, leases ...names.Lease) []names.Zone {
		return []names.Zone{{Bridge: bridge, Addresses: []netip.Addr{address.Addr()}, Alone: alone, DHCP: true, Leases: leases}}
	}
	other := names.Lease{MAC: "02:00:00:00:00:01", Address: seven.Next()}
	s.Serve(zone(false, other)) // before there is the bridge
	p := plug(t, bridge, address)
	own := names.Lease{MAC: p.mac(t), Address: seven}
	gateway := address.Addr().String()
	if got := p.lease(t, script); strings.Contains(got, "told") {
		t.Errorf("one that nothing is known of is told: %s", got)
	}
	s.Serve(zone(false, other, own))
	p.leases(t, script, fmt.Sprintf("told %s/24 by %s, router %s, names at %s in hostler.", seven, gateway, gateway, gateway))
	if got := p.lease(t, script, "-x", "hostname:web", "-r", other.Address.String()); !strings.Contains(got, "told "+seven.String()) {
		t.Errorf("one that asks for the address and name of another is told: %s", got)
	}
	p.leads(t, "web.hostler", "NXDOMAIN") // a container cannot give itself a name

	all := children(os.Getpid())
	var dhcp string
	for _, pid := range all {
		line, _ := os.ReadFile("/proc/" + pid + "/cmdline") // it may have ended
		if strings.Contains(string(line), "--dhcp-range") {
			dhcp = pid
		}
	}
	status, err := os.ReadFile("/proc/" + dhcp + "/status")
	if err != nil || strings.Contains(string(status), "Uid:\t0") || !strings.Contains(string(status), "CapEff:\t0000000000001400") {
		t.Fatalf("the process has more power than over the network: %s, %v", status, err)
	}
	sockets, err := exec.Command("ss", "-Hlnup").Output()
	for line := range strings.Lines(string(sockets)) {
		if strings.Contains(line, "pid="+dhcp+",") && !strings.Contains(line, "%"+bridge+":67") {
			t.Errorf("it listens elsewhere: %s", line)
		}
	}
	if err != nil {
		t.Error(err)
	}
	if who, err := network.DHCP(bridge); err != nil || who != names.Program+", process "+dhcp {
		t.Errorf("DHCP in the network is served by %q, %v", who, err)
	}
	if who, err := network.DHCP("lo"); err != nil || who != "" {
		t.Errorf("DHCP at a device without it is served by %q, %v", who, err)
	}
	pid, err := strconv.Atoi(dhcp)
	if err == nil {
		err = syscall.Kill(pid, syscall.SIGKILL)
	}
	if err != nil {
		t.Fatal(err)
	}
	p.leases(t, script, "told "+seven.String())
	before := children(os.Getpid())
	s.Serve(zone(false, names.Lease{MAC: own.MAC, Address: seven.Next()}))
	p.leases(t, script, "told "+seven.Next().String())
	if after := children(os.Getpid()); !slices.Equal(before, after) {
		t.Errorf("after a change the processes are %q, were %q", after, before)
	}
	s.Serve(zone(true, own))
	p.leases(t, script, "told "+seven.String()+"/24 by "+gateway+", router , names at "+gateway)
	if problems := s.Problems(); len(problems) > 0 {
		t.Errorf("what is served is a problem: %v", problems)
	}
	s.Serve(nil)
	if got := children(os.Getpid()); len(got) != 0 {
		t.Errorf("processes are left: %q", got)
	}
}
