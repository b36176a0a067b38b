//go:build integration

package integration

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/hostler-io/hostler/api"
)

// chaosFor is how long the hostile broker plays: longer for make chaos.
var chaosFor = flag.Duration("chaos", 20*time.Second, "how long the transport is hostile")

// settled is the bound within which everything has arrived once the transport
// is honest again: twice that of the longest pause between two sendings, and the
// time that a busy machine takes.
func settled() time.Duration { return within(75*time.Second, 3*time.Minute) }

// seed is that of HOSTLER_SEED, or a new one, which is printed.
func seed(t testing.TB) uint64 {
	t.Helper()
	s := uint64(time.Now().UnixNano())
	if given := os.Getenv("HOSTLER_SEED"); given != "" {
		var err error
		if s, err = strconv.ParseUint(given, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("HOSTLER_SEED=%d", s)
	return s
}

// TestHostileTransport puts a broker that is not to be trusted between the
// built programs: it loses, repeats, delays, reorders, damages and invents
// messages in both directions, breaks connections and leaves them half open,
// while both sides are killed and the real broker forgets everything.
func TestHostileTransport(t *testing.T) {
	t.Parallel()
	s := seed(t)
	random := rand.New(rand.NewPCG(s, 2))
	w := newWorld(t)
	p := w.newProxy(t, s)
	p.carry(t, w, "edge-01")
	write(t, w.path("coordinator.toml"), read(t, w.path("coordinator.toml"))+fmt.Sprintf("addresses = [%q]\n", p.address()))
	w.coordinator.end(t, term)
	w.startCoordinator(t)
	h := w.addHost(t, "edge-01", false)

	// Eight kilobytes a tick for as long as it takes.
	const script = `while [ ! -e "$1" ]; do head -c 8000 /dev/urandom | tee -a "$0"; sleep 0.2; done`
	writer := w.start(t, "hostler", "run", "edge-01", "--timeout", "60m", "--", "sh", "-c", script, w.path("copy"), w.path("enough"))
	until(t, &writer.out.change, "output arrives", func() bool { return len(writer.out.String()) > 0 })
	o := w.startOrders(w.path("witness"), 0)

	faults := 0
	for begin := time.Now(); time.Since(begin) < *chaosFor; faults++ {
		p.set(harm{lose: random.IntN(30), double: random.IntN(30), late: random.IntN(30), spoil: random.IntN(15)})
		o.more(t, 1+random.IntN(4))
		switch random.IntN(9) {
		case 0:
			p.cut()
		case 1:
			p.freeze()
		case 2:
			h.agent.end(t, kill)
			h.startAlone(t)
		case 3:
			w.coordinator.end(t, kill)
			w.startCoordinator(t)
		case 4:
			w.coordinator.signal(t, hup)
		default:
			p.invent(random)
		}
	}
	p.set(harm{})
	calm := time.Now()
	write(t, w.path("enough"), "")
	o.finish(t)
	r := writer.finish(t).exits(t, 0)
	if took := time.Since(calm); took > settled() {
		t.Errorf("it took %v until everything had arrived, want %v at most", took, settled())
	} else {
		t.Logf("%d faults; everything had arrived after %v", faults, took)
	}
	if want := read(t, w.path("copy")); r.stdout != want {
		t.Errorf("%d bytes of output arrived of %d, or they are others", len(r.stdout), len(want))
	}
	host := show[api.Host](t, w, "host", "show", "edge-01")
	if host.Quarantined != "" {
		t.Errorf("an honest host was quarantined: %s", host.Quarantined)
	}
	w.quiet(t)
	h.unlocked(t)
}
