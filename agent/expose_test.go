package agent_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hostler-io/hostler/agent"
	"github.com/hostler-io/hostler/agent/containers"
	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/container/containertest"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/port"
)

// wires are the network of a host: what leads where, as it was last applied.
type wires struct {
	mu      sync.Mutex
	leads   []string
	named   []string // containers that run
	applied int
	broken  error
	failed  map[string]error
	listens map[string]string // who has a port
}

func (*wires) First() queue.Network {
	return queue.Network{Bridge: "br-test", IPv4: netip.MustParsePrefix("10.9.0.0/24"), Made: true}
}

func (*wires) Can(queue.Network) error                     { return nil }
func (*wires) Ensure(context.Context, queue.Network) error { return nil }
func (*wires) Remove(context.Context, queue.Network) error { return nil }

func (*wires) Plan(n queue.Network, ipv6 bool, _ []queue.Network) (queue.Network, error) {
	n.Bridge, n.IPv4 = "br-"+n.Name, netip.MustParsePrefix("10.10.0.0/24")
	if ipv6 {
		n.IPv6 = netip.MustParsePrefix("fd10::/64")
	}
	return n, nil
}

func (w *wires) Apply(_ context.Context, _ []queue.Network, all []containers.Exposed, names []containers.Named) (map[string]error, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.broken != nil {
		return w.failed, w.broken
	}
	w.applied++
	w.leads, w.named = nil, nil
	for _, n := range names {
		if n.Running {
			w.named = append(w.named, fmt.Sprintf("%s %s", n.Name, n.Address))
		}
	}
	for _, e := range all {
		w.leads = append(w.leads, fmt.Sprintf("%s %s", e.Port, e.Address))
	}
	return w.failed, nil
}

func (w *wires) Listener(m port.Mapping) (string, error) { return w.listens[m.Outer()], nil }

func (w *wires) lead() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.leads)
}

func exposing(n byte, ports ...string) protocol.Spec {
	return protocol.Spec{Kind: protocol.KindExpose, Target: ctid(n), Args: &protocol.PortArgs{Ports: ports}}
}

func unexposing(n byte, ports ...string) protocol.Spec {
	return protocol.Spec{Kind: protocol.KindUnexpose, Target: ctid(n), Args: &protocol.PortArgs{Ports: ports}}
}

// TestExpose: ports lead to their containers from the end of the action on, over
// restarts of the agent and what others do to the rules, until they are freed or the
// container goes. A port that somebody has is refused, and who has it is said.
func TestExpose(t *testing.T) {
	net := &wires{listens: map[string]string{"22/tcp": "sshd, process 7"}}
	in(t, func(c *agent.Config) { c.Network = net }, func(t *testing.T, w *world) {
		n := byte(0)
		do := func(s protocol.Spec, want string) {
			t.Helper()
			n++
			w.coord.order(actionID(n), s)
			w.pass(time.Second)
			act := must(w.agent.Action(t.Context(), actionID(n)))
			if got := string(act.State) + " " + act.Detail; !strings.Contains(got, want) {
				t.Errorf("%s ends as %q, want %q", s.Kind, got, want)
			}
		}
		leads := func(want ...string) {
			t.Helper()
			if got := net.lead(); !slices.Equal(got, want) {
				t.Errorf("these lead: %q, want %q", got, want)
			}
		}
		do(creation(1, true), "DONE")
		second := creation(2, false)
		second.Args.(*protocol.CreateArgs).Expose = []string{"53:53/udp"}
		do(second, "DONE")
		leads("53:53/udp 10.9.0.3")
		do(exposing(1, "8080:80", "8443:443/tcp"), "DONE")
		leads("8080:80/tcp 10.9.0.2", "8443:443/tcp 10.9.0.2", "53:53/udp 10.9.0.3")
		do(exposing(1, "8080:80"), "DONE")
		do(exposing(2, "8080:80"), "port 8080/tcp of this host leads to container ct-1")
		do(exposing(1, "8080:81"), "leads to port 80 of this container")
		do(exposing(2, "22:22"), "port 22/tcp of this host is taken by sshd, process 7")
		third := creation(3, false)
		third.Args.(*protocol.CreateArgs).Expose = []string{"22:22"}
		do(third, "is taken by sshd")
		third.Args.(*protocol.CreateArgs).Expose = []string{"8443:1"}
		do(third, "leads to container ct-1")
		leads("8080:80/tcp 10.9.0.2", "8443:443/tcp 10.9.0.2", "53:53/udp 10.9.0.3")

		// Somebody flushes all rules; the agent starts anew with a kernel that has none.
		net.mu.Lock()
		net.leads = nil
		net.mu.Unlock()
		w.pass(time.Minute)
		leads("8080:80/tcp 10.9.0.2", "8443:443/tcp 10.9.0.2", "53:53/udp 10.9.0.3")
		w.down()
		net.leads = nil
		w.up()
		w.pass(time.Second)
		leads("8080:80/tcp 10.9.0.2", "8443:443/tcp 10.9.0.2", "53:53/udp 10.9.0.3")

		do(unexposing(1, "8443/tcp", "53/udp"), "DONE")
		leads("8080:80/tcp 10.9.0.2", "53:53/udp 10.9.0.3")
		do(on(protocol.KindDestroy, 2), "DONE")
		leads("8080:80/tcp 10.9.0.2")

		// A port that the kernel has refused belongs to no container afterwards.
		net.mu.Lock()
		net.broken = errors.New("no packet filter")
		net.mu.Unlock()
		do(exposing(1, "8443:443"), "no packet filter")
		net.mu.Lock()
		net.broken = nil
		net.failed = map[string]error{"": errors.New("bridge of another program")}
		net.mu.Unlock()
		do(exposing(1, "8443:443"), "bridge of another program")
		net.mu.Lock()
		net.failed = map[string]error{"other": errors.New("no uplink")}
		net.mu.Unlock()
		do(exposing(1, "8444:444"), "DONE") // it is of no concern to it
		do(unexposing(1, "8444/tcp"), "DONE")
		w.pass(time.Minute)
		leads("8080:80/tcp 10.9.0.2")
		if len(must(w.lxc.List(t.Context()))) != 1 {
			t.Error("the container that could not be exposed is left")
		}
	})
}

// TestExposeInterrupted: the agent dies while a port is exposed; its next process does
// that to the end.
func TestExposeInterrupted(t *testing.T) {
	net := &wires{}
	in(t, func(c *agent.Config) { c.Network = net }, func(t *testing.T, w *world) {
		w.coord.order(actionID(1), creation(1, false))
		w.pass(time.Second)
		w.lxc.Hang(containertest.OpInspect) // the look at it after the rules
		w.coord.order(actionID(2), exposing(1, "8080:80"))
		w.pass(time.Second)
		w.down()
		net.leads = nil
		w.lxc.Hang("")
		w.up()
		w.pass(time.Minute)
		if got := net.lead(); !slices.Equal(got, []string{"8080:80/tcp 10.9.0.2"}) {
			t.Errorf("these lead: %q", got)
		}
		w.expect(actionID(2), "start RUNNING", "succeed DONE ok")
	})
}

// TestExposeWithoutNetwork: a host whose containers have no network says so.
func TestExposeWithoutNetwork(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		w.coord.order(actionID(1), creation(1, true))
		w.coord.order(actionID(2), exposing(1, "8080:80"))
		w.pass(time.Second)
		if got := w.coord.told(actionID(2)); !slices.Contains(got, "refuse FAILED unsupported") {
			t.Errorf("without a network: %q", got)
		}
		if w.state(1) != container.StateRunning {
			t.Errorf("the container is %s", w.state(1))
		}
	})
}

// TestNetworkThatContradictsItself: an isolated network is not connected to machines
// elsewhere.
func TestNetworkThatContradictsItself(t *testing.T) {
	net := &wires{}
	in(t, func(c *agent.Config) { c.Network = net }, func(t *testing.T, w *world) {
		for n, want := range map[byte]string{1: "refuse FAILED bad_spec", 2: "succeed DONE ok"} {
			args := protocol.NetworkArgs{Network: fmt.Sprint("net-", n), VLAN: 7, Isolated: n == 1}
			w.coord.order(actionID(n), protocol.Spec{Kind: protocol.KindNetworkCreate, Args: &args})
			w.pass(time.Second)
			if got := w.coord.told(actionID(n)); !slices.Contains(got, want) {
				t.Errorf("isolated %v: %q, want %q", args.Isolated, got, want)
			}
		}
	})
}
