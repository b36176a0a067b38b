//go:build integration && heavy

package integration

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/integration/copiestest"
)

// awaitLeases waits until the unique containers of the fleet are as ok wants them, by name.
func (w *world) awaitLeases(t testing.TB, what string, within time.Duration, ok func(map[string]api.Lease) bool) map[string]api.Lease {
	t.Helper()
	for end := time.Now().Add(within); ; elapse(t, 200*time.Millisecond) {
		out := w.must(t, "lease", "ls", "-o", "json")
		var all []api.Lease
		if err := json.Unmarshal([]byte(out), &all); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		named := make(map[string]api.Lease, len(all))
		for _, l := range all {
			named[l.Name] = l
		}
		if ok(named) {
			return named
		}
		if time.Now().After(end) {
			t.Fatalf("%s: not after %s: %s", what, within, out)
		}
	}
}

// pulses makes the image of containers that write each 10 ms that they run, and the directory
// to which they write.
func (w *world) pulses(t testing.TB) (image, shared string) {
	t.Helper()
	pulse := w.path("pulse")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", pulse, "./cmd/pulse")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	image, shared = w.pulseImage(t, pulse), w.path("beats")
	mkdir(t, shared)
	if err := os.Chmod(shared, 0o755); err != nil {
		t.Fatal(err)
	}
	return image, shared
}

// pulse starts a unique container, which writes to the file of its name in shared.
func (w *world) pulse(t testing.TB, image, shared, where string) {
	t.Helper()
	_, name, _ := strings.Cut(where, "/")
	file := filepath.Join(shared, name)
	write(t, file, "")
	if err := os.Chmod(file, 0o666); err != nil { // each host's copy is another user
		t.Fatal(err)
	}
	w.must(t, "ct", "create", where, image, "--runtime", "lxc", "--class", "unique", "--data", "none",
		"--mount", shared+":/beats", "--start", "--", "/pulse", "/beats/"+name)
}

// TestDrainOfTenWorkloads: a host that is drained gives ten unique containers to another one. By
// what the copies write every 10 ms, none of them ever runs twice.
func TestDrainOfTenWorkloads(t *testing.T) {
	t.Parallel()
	w, _, _ := uniqueWorld(t)
	image, shared := w.pulses(t)
	names := make([]string, 10)
	for i := range names {
		names[i] = fmt.Sprintf("u%d", i)
		w.pulse(t, image, shared, "edge-01/"+names[i])
	}
	w.must(t, "host", "drain", "edge-01")
	w.awaitLeases(t, "all are on edge-02", 100*time.Second, func(named map[string]api.Lease) bool {
		return !slices.ContainsFunc(names, func(n string) bool { l := named[n]; return l.Host != "edge-02" || l.Phase != "held" })
	})
	for _, name := range names {
		w.container(t, "edge-02/"+name, "runs", func(c ct) bool { return c.State == "running" })
		beats, err := copiestest.Parse(read(t, filepath.Join(shared, name)))
		if err != nil {
			t.Fatal(err)
		}
		v := copiestest.Judge(beats, nil)
		if len(v.Wrong) > 0 || v.Overlaps > 0 || v.Takeovers != 1 || v.Copies != 2 {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

// TestTwentyOfTwentyOneHosts: 20 hosts of 21 are gone at once. The coordinator suspects its own
// side and takes nothing from them, for longer than a takeover takes, but for the container of the
// host that a person says is off. All others go on where they were when their hosts are back, and
// none ever runs twice.
func TestTwentyOfTwentyOneHosts(t *testing.T) {
	const ttl = 45 * time.Second // 21 agents share this machine
	w, hosts := uniqueFleet(t, 21, ttl)
	image, shared := w.pulses(t)
	for _, h := range hosts {
		w.pulse(t, image, shared, h.name+"/u"+h.name[len("edge-"):])
	}
	at := func(l api.Lease) string { return "edge-" + strings.TrimPrefix(l.Name, "u") }
	before := w.awaitLeases(t, "all are held", patience, func(named map[string]api.Lease) bool {
		return len(named) == len(hosts) && !slices.ContainsFunc(slices.Collect(maps.Values(named)), func(l api.Lease) bool { return l.Host != at(l) || l.Phase != "held" })
	})
	for _, h := range hosts[1:] {
		h.agent.signal(t, kill)
	}
	elapse(t, ttl+15*time.Second) // a takeover takes 50 s
	w.awaitLeases(t, "all are where they were", 0, func(named map[string]api.Lease) bool {
		return !slices.ContainsFunc(slices.Collect(maps.Values(named)), func(l api.Lease) bool { return l.Host != at(l) || l.Epoch != before[l.Name].Epoch })
	})
	if out := w.cli(t, "why", "u02"); !strings.Contains(out.stdout, "our own side may be what failed") {
		t.Errorf("why u02: %s", out.stdout)
	}
	const off = "edge-06"
	w.must(t, "host", "confirm-fenced", off, "--reason", "unplugged it myself", "--yes", "--key", "ann")
	w.awaitLeases(t, "the container of the host that is off runs elsewhere", patience, func(named map[string]api.Lease) bool {
		return named["u06"].Host == "edge-01" && named["u06"].Phase == "held"
	})
	w.container(t, "edge-01/u06", "runs", func(c ct) bool { return c.State == "running" })
	for _, h := range hosts[1:] {
		h.startAlone(t)
	}
	after := w.awaitLeases(t, "all are held where they were", 2*ttl, func(named map[string]api.Lease) bool {
		return !slices.ContainsFunc(slices.Collect(maps.Values(named)), func(l api.Lease) bool { return l.Name != "u06" && l.Host != at(l) || l.Phase != "held" })
	})
	for _, h := range hosts {
		name, where := "u"+h.name[len("edge-"):], h.name
		if where == off {
			where = "edge-01"
		}
		w.container(t, where+"/"+name, "runs", func(c ct) bool { return c.State == "running" })
		if moved := h.name == off; moved != (after[name].Epoch != before[name].Epoch) {
			t.Errorf("%s has epoch %s, and had %s", name, after[name].Epoch, before[name].Epoch)
		}
		beats, err := copiestest.Parse(read(t, filepath.Join(shared, name)))
		if err != nil {
			t.Fatal(err)
		}
		copies, takeovers := 2, 0 // the guard has killed the first one at the end of its lease
		switch h.name {
		case "edge-01":
			copies = 1
		case off:
			takeovers = 1
		}
		if v := copiestest.Judge(beats, nil); len(v.Wrong) > 0 || v.Overlaps > 0 || v.Copies != copies || v.Takeovers != takeovers {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

// TestLossThatDoesNotFit: in a full fleet the workload of the highest priority takes the room
// that is left, and of the other one it is said what it waits for. It is back with its host.
func TestLossThatDoesNotFit(t *testing.T) {
	t.Parallel()
	w, a, _ := uniqueWorld(t)
	cpu := fmt.Sprintf("cpu=%d%%", 40*runtime.NumCPU()) // two are in a host, three are not
	for _, c := range []struct{ name, host, priority string }{{"low", "edge-01", "1"}, {"high", "edge-01", "10"}, {"other", "edge-02", "5"}} {
		w.must(t, "ct", "create", "--place", "--prefer", "host="+c.host+":50", c.name, "--template", "busybox", "--class", "unique", "--data", "none", "--limit", cpu, "--priority", c.priority, "--start")
	}
	w.awaitLeases(t, "all are there", patience, func(named map[string]api.Lease) bool {
		return named["low"].Host == "edge-01" && named["high"].Host == "edge-01" && named["other"].Host == "edge-02"
	})
	a.agent.end(t, kill)
	lost := w.awaitLeases(t, "one has moved", patience, func(named map[string]api.Lease) bool {
		return named["high"].Host == "edge-02" && named["high"].Phase == "held" && named["low"].Phase == "free" && named["low"].Why != ""
	})
	if l := lost["low"]; !strings.Contains(l.Why, "edge-02: not enough processors") || lost["other"].Host != "edge-02" {
		t.Errorf("what does not fit says %q, and the others are %+v", l.Why, lost)
	}
	if out := w.cli(t, "why", "low"); !strings.Contains(out.stdout, "not enough processors") {
		t.Errorf("why low: %s", out.stdout)
	}
	w.container(t, "edge-02/high", "runs", func(c ct) bool { return c.State == "running" })
	a.start(t)
	w.awaitLeases(t, "the other one is back with its host", patience, func(named map[string]api.Lease) bool {
		return named["low"].Host == "edge-01" && named["low"].Phase == "held"
	})
	w.container(t, "edge-01/low", "runs", func(c ct) bool { return c.State == "running" })
}

// TestUniqueOnAnOldDisk: a host returns with the disk of before a takeover. Its old copy is not
// started, also when a person lets the host in again, and is kept.
func TestUniqueOnAnOldDisk(t *testing.T) {
	t.Parallel()
	w, a, b := uniqueWorld(t)
	w.must(t, "ct", "create", "edge-01/db", "--template", "busybox", "--class", "unique", "--data", "none", "--start")
	first := w.lease(t)
	a.agent.end(t, term)
	backup := w.path("edge-01.backup")
	w.copyTo(t, a.dir, backup)
	a.start(t)
	w.container(t, "edge-01/db", "runs", func(c ct) bool { return c.State == "running" })
	pid := a.initPID(t, "db")

	a.agent.end(t, kill)
	w.awaitLease(t, "edge-02 holds it", func(l api.Lease) bool { return l.Host == "edge-02" && l.Phase == "held" })
	if alive(pid) {
		t.Fatal("it still runs on edge-01 when edge-02 is to start it")
	}
	w.placed(t, "edge-02", "db")
	second := w.lease(t)
	if second.Epoch == first.Epoch {
		t.Fatalf("the epoch is still %s", second.Epoch)
	}
	w.copyTo(t, backup, a.dir)
	from := w.events.mark()
	a.startAlone(t)
	a.quarantined(t, from)
	a.readmitted(t)
	w.container(t, "edge-01/db", "is kept, and stays stopped", func(c ct) bool { return c.State == "stopped" && c.Intended == "running" && c.Waits != "" })
	if out, err := exec.Command("lxc-start", "-P", a.path("lxc"), "-n", "db").CombinedOutput(); err == nil {
		t.Errorf("the copy with the old epoch is started by hand on edge-01: %s", out)
	}
	if got := b.initPID(t, "db"); !alive(got) || w.lease(t).Epoch != second.Epoch {
		t.Errorf("edge-02 runs process %d under %+v, want epoch %s", got, w.lease(t), second.Epoch)
	}
	told(t, b.initPID(t, "db"), second.Epoch)
}
