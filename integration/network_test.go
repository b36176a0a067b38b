//go:build integration

package integration

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/api"
)

const (
	// slowest is the slowest link that is promised to work, in bits per second.
	slowest = 9600
	// queue is what waits before a slow link, in bytes: 13 s of the slowest.
	queue = 16000
	// leaseReserve is what must be left of a lease at all times: a third of its
	// life, in seconds.
	leaseReserve = 30
	// still is how long a log may stand still that is followed over the slowest
	// link, in seconds: until it begins, the command is ordered and a connection made.
	still = 45
	// pace is how often an order is sent: what piles up behind a fault must be
	// done within the bound that holds for its end.
	pace = 300 * time.Millisecond
)

// in runs a program in the network of a node.
func (l *lab) in(t testing.TB, node string, argv ...string) {
	t.Helper()
	l.tool(t, append([]string{"nsenter", "--net", "--target", strconv.Itoa(l.nodes[node].PID), "--"}, argv...)...)
}

// lossy loses that many percent of the packets of a host, in each direction.
func (l *lab) lossy(t testing.TB, host string, percent int) {
	t.Helper()
	const rules = `table netdev loss {
	chain in { type filter hook ingress device eth0 priority 0; numgen random mod 100 < %[1]d drop; }
	chain out { type filter hook egress device eth0 priority 0; numgen random mod 100 < %[1]d drop; }
}
`
	file := l.path(host + ".nft")
	write(t, file, "add table netdev loss\ndelete table netdev loss\n"+fmt.Sprintf(rules, percent))
	l.in(t, host, "nft", "-f", file)
}

// slow lets a host send and be sent that many bits per second.
func (l *lab) slow(t testing.TB, host string, bits int) {
	t.Helper()
	shape := func(dev string) []string {
		return []string{"tc", "qdisc", "replace", "dev", dev, "root", "tbf", "rate", fmt.Sprintf("%dbit", bits), "burst", "1600", "limit", strconv.Itoa(queue)}
	}
	l.tool(t, shape(l.nodes[host].Cable)...)
	l.in(t, host, shape("eth0")...)
}

// honest ends loss and slowness.
func (l *lab) honest(t testing.TB, host string) {
	t.Helper()
	l.in(t, host, "nft", "flush", "ruleset")
	l.tool(t, "tc", "qdisc", "replace", "dev", l.nodes[host].Cable, "root", "pfifo", "limit", "1000")
	l.in(t, host, "tc", "qdisc", "replace", "dev", "eth0", "root", "pfifo", "limit", "1000")
}

// metric reads one of a host's agent.
func (l *lab) metric(t testing.TB, host, name string) float64 {
	t.Helper()
	for line := range strings.Lines(get(t, l.nodes[host].Socket, "/metrics")) {
		if v, ok := strings.CutPrefix(line, "hostler_agent_"+name+" "); ok {
			f, err := strconv.ParseFloat(strings.TrimSpace(v), 64)
			if err != nil {
				t.Fatalf("metric %s: %v", name, err)
			}
			return f
		}
	}
	t.Fatalf("the agent of %s has no metric %s", host, name)
	return 0
}

// leases checks that no lease was ever near its end.
func (l *lab) leases(t testing.TB, host string) {
	t.Helper()
	low := l.metric(t, host, "lease_lowest_seconds")
	t.Logf("the least that was left of a lease of %s: %.1f s", host, low)
	if low < leaseReserve {
		t.Errorf("a lease of %s came down to %.1f s, want %d s at least", host, low, leaseReserve)
	}
}

// trusted checks that no host is quarantined, all being honest.
func (l *lab) trusted(t testing.TB) {
	t.Helper()
	for _, h := range show[[]api.Host](t, l.world, "host", "ls") {
		if h.Quarantined != "" {
			t.Errorf("an honest host was quarantined: %s: %s", h.ID, h.Quarantined)
		}
	}
}

// arrive waits until all orders have ended and checks each of them; since is
// when the network became honest.
func (l *lab) arrive(t testing.TB, o *orders, since time.Time) {
	t.Helper()
	o.finish(t)
	took := time.Since(since)
	t.Logf("everything had arrived %v after the last fault", took.Round(time.Millisecond))
	if took > settled() {
		t.Errorf("it took %v until everything had arrived, want %v at most", took, settled())
	}
	l.trusted(t)
}

// TestNetworkLoses loses three of ten packets in both directions.
func TestNetworkLoses(t *testing.T) {
	t.Parallel()
	l := newLab(t, "2")
	from := l.events.mark()
	l.lossy(t, "edge-01", 30)
	const script = `while [ ! -e "$1" ]; do head -c 3000 /dev/urandom | tee -a "$0"; sleep 0.2; done`
	writer := l.start(t, "hostler", "run", "edge-01", "--timeout", "60m", "--", "sh", "-c", script, l.path("copy"), l.path("enough"))
	o := l.startOrders(l.path("witness"), pace)
	elapse(t, *chaosFor)
	o.more(t, 1)
	l.honest(t, "edge-01")
	calm := time.Now()
	write(t, l.path("enough"), "")
	l.arrive(t, o, calm)
	if got, want := writer.finish(t).exits(t, 0).stdout, read(t, l.path("copy")); got != want {
		t.Errorf("%d bytes of output arrived of %d, or they are others", len(got), len(want))
	}
	l.leases(t, "edge-01")
	l.steady(t, from, "edge-01")
}

// TestNetworkIsSlow follows a log of exactly as much as is kept over the slowest
// link. It may take for ever, but it never stands still, it delays no lease, and
// orders get through beside it.
func TestNetworkIsSlow(t *testing.T) {
	t.Parallel()
	l := newLab(t, "2")
	const size = 64 << 20
	from := l.events.mark()
	l.slow(t, "edge-01", slowest)
	const script = `head -c "$1" /dev/urandom | tee "$0"; while [ ! -e "$2" ]; do sleep 1; done`
	log := l.spawn(t, "log", l.env(), "sh", "-c", `hostler run edge-01 --timeout 60m -- sh -c "$@" | tee "$0" | sha256sum`, l.path("seen"), script, l.path("log"), strconv.Itoa(size), l.path("enough"))
	l.flows(t, l.path("seen"), max(*chaosFor, time.Minute))
	begun := time.Now()
	l.done(t, l.submit(t, "edge-01", "true"))
	t.Logf("beside the log, an order took %v", time.Since(begun).Round(time.Millisecond))
	for _, e := range l.events.since(from) {
		if e.Type == "host.offline" {
			t.Errorf("%s was taken for dead: %v", e.Host, e.Data)
		}
	}
	l.leases(t, "edge-01")
	l.honest(t, "edge-01")
	calm := time.Now()
	write(t, l.path("enough"), "")
	sum, _, _ := strings.Cut(log.finish(t).exits(t, 0).stdout, " ")
	if want, _, _ := strings.Cut(l.tool(t, "sha256sum", l.path("log")), " "); sum != want {
		t.Errorf("the log arrived as %s, it is %s", sum, want)
	}
	t.Logf("the rest of it took %v", time.Since(calm).Round(time.Millisecond))
	l.leases(t, "edge-01")
	l.steady(t, from, "edge-01")
	l.trusted(t)
}

// maxKept is how much of a stream a host keeps, with what its pipe holds.
const maxKept = 64<<20 + 1<<20

// TestNetworkStreamIsSlow follows a command that never stops writing over the
// slowest link: it waits for its reader, so that neither a lease nor the disk of
// its host suffers.
func TestNetworkStreamIsSlow(t *testing.T) {
	t.Parallel()
	l := newLab(t, "2")
	from := l.events.mark()
	l.slow(t, "edge-01", slowest)
	log := l.spawn(t, "log", l.env(), "sh", "-c", `exec hostler run edge-01 --timeout 60m -- yes >"$0"`, l.path("seen"))
	l.flows(t, l.path("seen"), max(*chaosFor, time.Minute))
	l.leases(t, "edge-01")
	files, err := filepath.Glob(filepath.Join(filepath.Dir(l.nodes["edge-01"].Socket), "runs", "*", "*", "stdout"))
	if err != nil || len(files) != 1 {
		t.Fatalf("the files of its output: %q, %v", files, err)
	}
	var st unix.Stat_t
	if err := unix.Stat(files[0], &st); err != nil {
		t.Fatal(err)
	}
	t.Logf("it has written %d bytes, which take %d of the disk", st.Size, st.Blocks*512)
	if st.Blocks*512 > maxKept || st.Size > maxKept {
		t.Errorf("it has written %d bytes, which take %d of the disk: want %d at most", st.Size, st.Blocks*512, maxKept)
	}
	log.end(t, kill)
	l.honest(t, "edge-01")
	l.done(t, l.submit(t, "edge-01", "pkill", "-x", "yes"))
	l.steady(t, from, "edge-01")
	l.trusted(t)
}

// flows watches a file for a while that a slow link fills, and fails if it
// stands still.
func (l *lab) flows(t testing.TB, file string, during time.Duration) {
	t.Helper()
	var size, longest int64
	begin := time.Now()
	for last := begin; time.Since(begin) < during; {
		elapse(t, time.Second)
		if info, err := os.Stat(file); err == nil && info.Size() > size {
			size, last = info.Size(), time.Now()
		}
		longest = max(longest, int64(time.Since(last)/time.Second))
	}
	t.Logf("in %v %d bytes of the log were seen, and nothing for %d s at most", during, size, longest)
	if longest > still {
		t.Errorf("nothing of the log was seen for %d s, want %d at most", longest, still)
	}
}

// TestNetworkIsSilent lets both sides hold connections whose other end
// hears nothing, for longer than either side's patience, while commands run.
func TestNetworkIsSilent(t *testing.T) {
	t.Parallel()
	l := newLab(t, "2")
	tick := strings.TrimSpace(l.must(t, "run", "edge-01", "--timeout", "10m", "--no-wait", "--", "sh", "-c", ticker, "begun", l.path("tickers"), l.path("enough")))
	l.state(t, tick, "RUNNING")
	o := l.startOrders(l.path("witness"), pace)
	o.more(t, 3)
	from := l.events.mark()
	l.dev(t, "partition", "edge-01").exits(t, 0)
	l.connectivity(t, from, "edge-01", "late")
	l.connectivity(t, from, "edge-01", "offline")
	l.steady(t, from, "edge-01")
	back := l.events.mark()
	calm := time.Now()
	l.dev(t, "heal", "edge-01").exits(t, 0)
	l.connectivity(t, back, "edge-01", "online")
	t.Logf("edge-01 was online again after %v", time.Since(calm).Round(time.Millisecond))
	l.arrive(t, o, calm)
	write(t, l.path("enough"), "")
	l.unnoticed(t, tick)
	if got := read(t, l.path("tickers")); got != "begun\n" {
		t.Errorf("the command has begun: %q", got)
	}
}

// TestNetworkChaos does all of it at random, to the host and to the
// coordinator, whose broker forgets everything each time.
func TestNetworkChaos(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(seed(t), 3))
	l := newLab(t, "1")
	o := l.startOrders(l.path("witness"), pace)
	faults := 0
	for begin := time.Now(); time.Since(begin) < *chaosFor; faults++ {
		switch random.IntN(6) {
		case 0:
			l.lossy(t, "edge-01", 10+random.IntN(40))
		case 1:
			l.slow(t, "edge-01", slowest<<random.IntN(8))
		case 2:
			l.dev(t, "partition", "edge-01").exits(t, 0)
		case 3:
			l.dev(t, "kill", "coordinator").exits(t, 0)
			l.dev(t, "heal", "coordinator").exits(t, 0)
		case 4:
			l.dev(t, "partition", "coordinator").exits(t, 0)
			elapse(t, time.Duration(random.IntN(5000))*time.Millisecond)
			l.dev(t, "heal", "coordinator").exits(t, 0)
		case 5:
			l.honest(t, "edge-01")
			l.dev(t, "heal", "edge-01").exits(t, 0)
		}
		elapse(t, time.Duration(random.IntN(4000))*time.Millisecond)
	}
	l.honest(t, "edge-01")
	l.dev(t, "heal", "edge-01").exits(t, 0)
	calm := time.Now()
	o.more(t, 1)
	l.arrive(t, o, calm)
	t.Logf("%d faults", faults)
}
