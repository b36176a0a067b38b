//go:build integration

package integration

import (
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hostler-io/hostler/internal/linetest"
)

// relays numbers the devices of this process.
var relays atomic.Int32

// far puts each packet of a host late by as much, in each direction, until the end of the
// test: its cable leaves the bridge, a device of ours takes the place of it, and packets
// go from one to the other when they have waited.
func (l *lab) far(t *testing.T, host string, late time.Duration) {
	t.Helper()
	cable := l.nodes[host].Cable
	bridge, err := filepath.EvalSymlinks(filepath.Join("/sys/class/net", cable, "master"))
	if err != nil {
		t.Fatal(err)
	}
	name := "hlag" + strconv.Itoa(os.Getpid()%100000) + "-" + strconv.Itoa(int(relays.Add(1)))
	l.tool(t, "ip", "link", "set", cable, "nomaster")
	line, err := linetest.Delay(cable, name, late)
	if err != nil {
		t.Fatal(err)
	}
	l.tool(t, "ip", "link", "set", name, "master", filepath.Base(bridge), "up")
	t.Cleanup(func() {
		if err := line.Close(); err != nil {
			t.Errorf("the line of %s: %v", host, err)
		}
	})
}

// TestNetworkIsFar works over a line whose answers take two and a half seconds, as by
// satellite, which then loses eight of ten packets: the host is not taken for dead for its
// distance, each order runs once, and what the loss held up arrives after it.
func TestNetworkIsFar(t *testing.T) {
	t.Parallel()
	const late = 1250 * time.Millisecond
	l := newLab(t, "2")
	from := l.events.mark()
	l.far(t, "edge-01", late)
	begun := time.Now()
	l.done(t, l.submit(t, "edge-01", "true"))
	took := time.Since(begun)
	t.Logf("an order took %v", took.Round(time.Millisecond))
	if took < 2*late {
		t.Errorf("an order took %v over a line whose answers take %v", took, 2*late)
	}
	o := l.startOrders(l.path("witness"), pace)
	elapse(t, *chaosFor)
	o.more(t, 1)
	for _, e := range l.events.since(from) {
		if e.Type == "host.offline" {
			t.Errorf("%s was taken for dead: %v", e.Host, e.Data)
		}
	}
	l.leases(t, "edge-01")
	l.lossy(t, "edge-01", 80)
	elapse(t, *chaosFor)
	o.more(t, 1)
	l.in(t, "edge-01", "nft", "flush", "ruleset")
	calm := time.Now()
	l.arrive(t, o, calm)
	l.steady(t, from, "edge-01")
}
