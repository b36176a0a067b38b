package bridges

import (
	"errors"
	"net/netip"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/agent/containers"
	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/network"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/port"
)

// inNetwork runs a test on a thread with networks of its own, which end with it.
func inNetwork(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and it ends with the namespace
		err := unix.Unshare(unix.CLONE_NEWNET)
		defer func() { done <- err }()
		if err == nil {
			test(t)
		}
	}()
	if err := <-done; err != nil {
		t.Fatalf("new network namespace (this test needs root): %v", err)
	}
}

// tool runs a program in the network of the test, and returns what it prints.
func tool(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Errorf("%s %q: %v: %s", name, args, err, out)
		runtime.Goexit()
	}
	return string(out)
}

// first is the network that there is from the start.
var first = queue.Network{Bridge: "hlt-first", IPv4: netip.MustParsePrefix("10.213.60.0/24"), Made: true}

func testBridges() *Bridges { return New(Config{First: first, Mark: "test"}) }

func made(name, pool string) queue.Network {
	return queue.Network{Name: name, Bridge: devicePrefix + name, IPv4: netip.MustParsePrefix(pool), Made: true}
}

// TestNetworksThatFail: what is wrong with one network does not keep others from their
// ports, and an isolated one is not used without its rules.
func TestNetworksThatFail(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		b := testBridges()
		foreign, back, lab := made("foreign", "10.213.61.0/24"), made("back", "10.213.62.0/24"), made("lab", "10.213.63.0/24")
		lab.Isolated = true
		tool(t, "ip", "link", "add", foreign.Bridge, "type", "bridge")
		exposed := func(n queue.Network, number uint16) containers.Exposed {
			return containers.Exposed{CTID: protocol.CTID{1}, Address: n.IPv4.Addr().Next().Next(), Network: n.Name, Port: port.Mapping{Host: number, Container: 80, Protocol: "tcp"}}
		}
		nets := []queue.Network{b.First(), foreign, back, lab}
		failed, err := b.Apply(t.Context(), nets, []containers.Exposed{exposed(foreign, 8080), exposed(back, 8081)}, nil)
		if err != nil || len(failed) != 1 || !errors.Is(failed["foreign"], network.ErrForeign) {
			t.Errorf("with a bridge of another program: %v, %v", failed, err)
		}
		if got := tool(t, "nft", "list", "ruleset"); !strings.Contains(got, "dnat ip to 10.213.62.2:80") || !strings.Contains(got, "hstl-lab leads nowhere") {
			t.Errorf("the other networks have the rules\n%s", got)
		}
		if got := tool(t, "ip", "-o", "link"); !strings.Contains(got, "hstl-back") {
			t.Errorf("the other networks have the devices\n%s", got)
		}

		// An agent that has begun anew and knows one network takes nothing from the others.
		if err := testBridges().Ensure(t.Context(), back); err != nil {
			t.Error(err)
		}
		if got := tool(t, "nft", "list", "ruleset"); !strings.Contains(got, "hstl-lab leads nowhere") || !strings.Contains(got, "10.213.62.2") {
			t.Errorf("after a start of the agent there are the rules\n%s", got)
		}

		tool(t, "nft", "delete", "table", "inet", "hostler")
		tool(t, "nft", "add", "table", "inet", "hostler")
		tool(t, "nft", "add", "chain", "inet", "hostler", "forward", "{ type filter hook input priority 0; }")
		if err := b.Ensure(t.Context(), lab); !errors.Is(err, network.ErrNotIsolated) {
			t.Errorf("an isolated network without rules is prepared: %v", err)
		}
		if got := tool(t, "ip", "-o", "link"); strings.Contains(got, lab.Bridge) {
			t.Errorf("the isolated network has a bridge:\n%s", got)
		}
		if err := b.Ensure(t.Context(), back); err != nil {
			t.Errorf("another network is not prepared: %v", err)
		}
		tool(t, "nft", "delete", "table", "inet", "hostler")
		if err := b.Ensure(t.Context(), lab); err != nil {
			t.Error(err)
		}
		if got := tool(t, "ip", "-o", "link"); !strings.Contains(got, lab.Bridge) {
			t.Errorf("the isolated network has no bridge:\n%s", got)
		}
	})
}

// TestUplinkThatIsAway: the device by which a network is connected is chosen once. While it
// is away, containers start all the same, and what is wrong is told.
func TestUplinkThatIsAway(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		b := testBridges()
		vlan := queue.Network{Name: "vlan", VLAN: 7, IPv4: netip.MustParsePrefix("10.213.64.0/24")}
		if _, err := b.Plan(vlan, false, nil); err == nil || !strings.Contains(err.Error(), "no default route") {
			t.Errorf("a host without a default route plans %v", err)
		}
		tool(t, "ip", "link", "add", "hlt-up", "type", "bridge")
		tool(t, "ip", "address", "add", "192.0.2.1/24", "dev", "hlt-up")
		tool(t, "ip", "link", "set", "hlt-up", "up")
		tool(t, "ip", "route", "add", "default", "via", "192.0.2.2")
		n, err := b.Plan(vlan, false, nil)
		if err != nil || n.Uplink != "hlt-up" {
			t.Errorf("the network goes by %q, %v", n.Uplink, err)
		}
		tool(t, "ip", "link", "del", "hlt-up")
		if err := b.Ensure(t.Context(), n); err == nil {
			t.Error("a network without its uplink is made")
		}
		n.Made = true
		if err := b.Ensure(t.Context(), n); err != nil {
			t.Errorf("a container does not start while the uplink is away: %v", err)
		}
		failed, err := b.Apply(t.Context(), []queue.Network{b.First(), n}, nil, nil)
		if why := failed["vlan"]; err != nil || why == nil || !strings.Contains(why.Error(), "hlt-up") {
			t.Errorf("that the uplink is away is told as %v, %v", failed, err)
		}
		n.Isolated = true
		if failed, err := b.Apply(t.Context(), []queue.Network{b.First(), n}, nil, nil); err != nil || len(failed) > 0 {
			t.Errorf("an isolated network is connected: %v, %v", failed, err)
		}
	})
}
