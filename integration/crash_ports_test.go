//go:build integration && hostlertest

package integration

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/protocol"
)

// portPoints have a port of the host lead to a container and free it, again and again,
// while the agent dies on the way. After each, the kernel has the rules that it should.
func portPoints(t *testing.T) {
	c := newWreck(t)
	l := c.addLimb(t, "edge-01", true)
	port := strconv.Itoa(int(netip.MustParseAddrPort(freeAddress(t)).Port()))
	number := 0
	c.strikes(t, strike{"A33", l.victim, func(t *testing.T) {
		number++
		id := newCTID()
		do := func(s protocol.Spec, rules int) {
			t.Helper()
			s.Target = id
			if got := c.end(t, l, c.step(t, l, s)); got.State != protocol.StateDone {
				t.Errorf("%s is %s", s.Kind, got)
			}
			if n := strings.Count(c.tool(t, "nft", "list", "ruleset"), "port "+id.String()+" "+port+":80/tcp"); n != rules {
				t.Errorf("after %s there are %d rules, want %d", s.Kind, n, rules)
			}
		}
		name := protocol.ContainerName(fmt.Sprintf("%s-%d", filepath.Base(c.dir), number)) // control groups are the machine's
		do(protocol.Spec{Kind: protocol.KindCreate, Name: name, Args: &protocol.CreateArgs{Template: "busybox"}}, 0)
		do(protocol.Spec{Kind: protocol.KindExpose, Args: &protocol.PortArgs{Ports: []string{port + ":80/tcp"}}}, 2)
		do(protocol.Spec{Kind: protocol.KindUnexpose, Args: &protocol.PortArgs{Ports: []string{port + "/tcp"}}}, 0)
		do(protocol.Spec{Kind: protocol.KindDestroy, Args: &protocol.StopArgs{GraceMS: 100}}, 0)
	}}, bridgeStrike(c, l, "A34"), bridgeStrike(c, l, "A35"))
}

// bridgeStrike makes a network and removes it. After each, the host has the bridge that it
// should.
func bridgeStrike(c *wreck, l *limb, step failpoint.Step) strike {
	return strike{step, l.victim, func(t *testing.T) {
		name := strings.ToLower(string(step))
		do := func(s protocol.Spec, there bool) {
			t.Helper()
			if got := c.end(t, l, c.step(t, l, s)); got.State != protocol.StateDone {
				t.Errorf("%s is %s", s.Kind, got)
			}
			if got := strings.Contains(c.tool(t, "ip", "-d", "link", "show", "type", "bridge"), "hstl-"+name+":"); got != there {
				t.Errorf("after %s the bridge is there: %v, want %v", s.Kind, got, there)
			}
		}
		do(protocol.Spec{Kind: protocol.KindNetworkCreate, Args: &protocol.NetworkArgs{Network: name}}, true)
		do(protocol.Spec{Kind: protocol.KindNetworkRemove, Args: &protocol.NetworkRemoveArgs{Network: name}}, false)
	}}
}
