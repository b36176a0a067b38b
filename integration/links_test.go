//go:build integration

package integration

import (
	"testing"
	"time"

	"github.com/hostler-io/hostler/coordinator/presence"
)

// Ways to break the link of a host, as rules of the packet filter in its network.
const (
	refused = `table inet broken { chain out { type filter hook output priority 0; meta l4proto tcp reject with tcp reset; }; }`
	deaf    = `table netdev broken { chain in { type filter hook ingress device eth0 priority 0; drop; }; }`
	mute    = `table netdev broken { chain out { type filter hook egress device eth0 priority 0; drop; }; }`
)

// TestNetworkLinks breaks the links of three hosts, each in another way, while a fourth one
// loses its link every other second. The first three are late, then offline, each within the
// time that is documented, and stay so until their link is whole; the fourth is online all the
// time. Each order that was given meanwhile is done once.
func TestNetworkLinks(t *testing.T) {
	t.Parallel()
	l := newLab(t, "4")
	const flapping = "edge-04"
	links := map[string]string{"edge-01": refused, "edge-02": deaf, "edge-03": mute}
	from := l.events.mark()
	broken := time.Now()
	for host, rules := range links {
		file := l.path(host + ".nft")
		write(t, file, rules)
		l.in(t, host, "nft", "-f", file)
	}
	orders := map[string]string{} // of each host, the one that it gets while its link is broken
	given := func(host string) {
		orders[host] = l.submit(t, host, "sh", "-c", `echo once >>"$0"`, l.path(host+".done"))
	}
	for host := range links {
		given(host)
	}
	given(flapping)

	flaps := l.flap(t, flapping, presence.Away)
	t.Logf("the link of %s was lost %d times", flapping, flaps)
	bound := presence.Away + presence.Settle
	for host := range links {
		l.connectivity(t, from, host, "late")
		l.connectivity(t, from, host, "offline")
		if took := time.Since(broken); took > within(bound, 2*bound) {
			t.Errorf("%s was offline %v after its link had broken, want %v at most", host, took.Round(time.Second), bound)
		}
	}
	lost := map[string]bool{}
	for _, e := range l.events.since(from) {
		switch e.Type {
		case "host.online": // the first one of each may be that of the beginning
			if lost[e.Host] {
				t.Errorf("%s came online, and its link is broken: %v", e.Host, e.Data)
			}
		case "host.late", "host.offline":
			if lost[e.Host] = true; links[e.Host] == "" {
				t.Errorf("%s is taken for lost: %s: %v", e.Host, e.Type, e.Data)
			}
		}
	}

	back := l.events.mark()
	whole := time.Now()
	for host := range links {
		l.honest(t, host)
	}
	for host := range links {
		l.connectivity(t, back, host, "online")
	}
	t.Logf("all were online again after %v", time.Since(whole).Round(time.Millisecond))
	for host, id := range orders {
		l.done(t, id)
		if got := read(t, l.path(host+".done")); got != "once\n" {
			t.Errorf("the command of %s has run: %q", host, got)
		}
	}
	l.trusted(t)
}

// flap takes the link of a host away every other second for a while, and leaves it whole. It
// returns how often.
func (l *lab) flap(t testing.TB, host string, during time.Duration) (n int) {
	t.Helper()
	cable := l.nodes[host].Cable
	for begun := time.Now(); time.Since(begun) < during; n++ {
		l.tool(t, "ip", "link", "set", cable, "down")
		elapse(t, time.Second)
		l.tool(t, "ip", "link", "set", cable, "up")
		elapse(t, time.Second)
	}
	return n
}
