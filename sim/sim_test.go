package sim

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler-io/hostler/fence"
	"github.com/hostler-io/hostler/placement"
	"github.com/hostler-io/hostler/unique"
)

var (
	seed   = flag.Uint64("seed", 1, "the first schedule that is played")
	seeds  = flag.Int("seeds", 3000, "how many schedules are played")
	update = flag.Bool("update", false, "write the logs of testdata anew")
)

// brief are times as short as the inequality lets them be, so that a schedule is brief.
func brief() unique.Timing {
	return unique.Timing{TTL: 9 * time.Second, Kill: 1500 * time.Millisecond, DriftPermille: 10, Margin: 500 * time.Millisecond}
}

// schedule draws a world: hosts with clocks that drift, workloads, and at least three
// faults, all of which are over before the end.
func schedule(seed uint64) World {
	r := rand.New(rand.NewPCG(seed, 2))
	w := World{Seed: seed, Timing: brief(), Min: unique.FenceGuard, Loss: r.IntN(100), Latency: time.Duration(10+r.IntN(300)) * time.Millisecond, Until: 150 * time.Second, Calm: 20 * time.Second}
	for i := range 5 + r.IntN(3) {
		h := Host{Name: fmt.Sprintf("h%d", i), Has: placement.Size{CPU: 8000, Memory: 8 << 30}, Fence: unique.FenceGuard, DriftPermille: r.Int64N(21) - 10}
		if r.IntN(3) == 0 { // a slow link beside fast ones
			h.Latency = time.Duration(1000+r.IntN(4000)) * time.Millisecond
		}
		switch r.IntN(6) {
		case 0:
			h.Fence = unique.FenceNone
		case 1:
			h.Pausable = true
		}
		w.Hosts = append(w.Hosts, h)
	}
	for i := range 20 {
		x := Workload{Name: fmt.Sprintf("w%02d", i), On: w.Hosts[r.IntN(len(w.Hosts))].Name, Size: placement.Size{CPU: 500, Memory: 256 << 20}, Keeps: r.IntN(10) == 0}
		if r.IntN(10) == 0 {
			x.Data = unique.DataLocal
		}
		w.Workloads = append(w.Workloads, x)
	}
	kinds := []FaultKind{Cut, Cut, PowerOff, StopAgent, KillAgent, Unkillable, OldDisk, Restart, CutAll, Drain, Maintenance, Pause}
	for range 3 + r.IntN(4) {
		f := Fault{At: time.Duration(15_000+r.IntN(60_000)) * time.Millisecond, Kind: kinds[r.IntN(len(kinds))], Host: w.Hosts[r.IntN(len(w.Hosts))].Name, For: time.Duration(500+r.IntN(40_000)) * time.Millisecond}
		if f.Kind == Pause { // no lease survives that of a host that is not declared
			i := slices.IndexFunc(w.Hosts, func(h Host) bool { return h.Pausable })
			if i < 0 {
				f.Kind = Cut
			} else {
				f.Host = w.Hosts[i].Name
			}
		}
		w.Faults = append(w.Faults, f)
	}
	for range r.IntN(4) { // often in the middle of a fault
		w.Faults = append(w.Faults, Fault{At: time.Duration(10_000+r.IntN(80_000)) * time.Millisecond, Kind: Move, Workload: fmt.Sprintf("w%02d", r.IntN(20)), Host: w.Hosts[r.IntN(len(w.Hosts))].Name})
	}
	return w
}

// TestNeverTwice plays schedules by chance, and holds each to what must never be. In the
// end, when all faults are over, everything runs somewhere.
func TestNeverTwice(t *testing.T) {
	takeovers, moves := 0, 0
	for i := range *seeds {
		n := *seed + uint64(i)
		w := schedule(n)
		got := Run(w)
		takeovers, moves = takeovers+got.Takeovers, moves+got.Moves
		if len(got.Violations) > 0 {
			t.Fatalf("-seed %d -seeds 1: %v", n, got.Violations)
		}
		if len(got.Stopped) > 0 {
			t.Fatalf("-seed %d -seeds 1: when all is well again, these run nowhere: %v", n, got.Stopped)
		}
	}
	if takeovers < *seeds || 4*moves < *seeds {
		t.Errorf("%d takeovers and %d moves in %d schedules: the faults do nothing", takeovers, moves, *seeds)
	}
}

// fenced is a schedule with devices for all hosts but the first, and with their faults, one
// at a time of each device: no code survives one that lies and is mixed up at once.
func fenced(seed uint64) World {
	w := schedule(seed)
	r := rand.New(rand.NewPCG(seed, 3))
	w.Fencing, w.Witness = fence.DefaultPolicy(), true
	w.Fencing.Grace, w.Fencing.Reconnect, w.Fencing.PerHour = time.Duration(r.IntN(1000))*time.Millisecond, 3*time.Second, 10
	w.Fencing.Order = []fence.Order{fence.Auto, fence.LeaseFirst, fence.DeviceFirst}[r.IntN(3)]
	with := func(name string, hosts ...string) {
		d := Device{Name: name, Hosts: hosts, Level: 1, Tries: 2, Try: time.Duration(4+r.IntN(6)) * time.Second, Delay: time.Duration(r.IntN(2)*r.IntN(6)) * time.Second}
		f := Fault{At: time.Duration(10_000+r.IntN(60_000)) * time.Millisecond, Host: name, For: time.Duration(5_000+r.IntN(40_000)) * time.Millisecond}
		kinds := []FaultKind{DeviceHangs, DeviceLies, DeviceMixed, ""}
		if f.Kind = kinds[r.IntN(len(kinds))]; f.Kind != "" {
			w.Faults = append(w.Faults, f)
		}
		// The lies of one that cannot be asked are not found.
		d.NoStatus = f.Kind != DeviceLies && r.IntN(4) == 0
		w.Devices = append(w.Devices, d)
	}
	var rack []string
	for i := range w.Hosts[1:] {
		h := &w.Hosts[i+1]
		if h.Pinned = r.IntN(3) == 0; i%2 == 0 {
			rack = append(rack, h.Name) // one device for several, which keep it busy for one another
			continue
		}
		with("of-"+h.Name, h.Name)
	}
	with("rack", rack...)
	return w
}

// TestFencesByChance plays schedules with devices that fail: nothing runs twice, no host is
// fenced twice for one loss, none while our own side has failed, and none that is back.
func TestFencesByChance(t *testing.T) {
	fences, takeovers := 0, 0
	for i := range (*seeds + 2) / 3 {
		n := *seed + uint64(i)
		got := Run(fenced(n))
		fences, takeovers = fences+got.Fences, takeovers+got.Takeovers
		if len(got.Violations) > 0 {
			t.Fatalf("-seed %d -seeds 1: %v", n, got.Violations)
		}
	}
	if 3*fences < *seeds || 3*takeovers < *seeds {
		t.Errorf("%d fences and %d takeovers in a third of %d schedules: the faults do nothing", fences, takeovers, *seeds)
	}
}

// TestSameSeedSameLog: a run is a function of its world.
func TestSameSeedSameLog(t *testing.T) {
	play := func() string {
		var b strings.Builder
		w := fenced(7)
		w.Log = func(at time.Duration, text string) { fmt.Fprintln(&b, at, text) }
		fmt.Fprintln(&b, Run(w))
		return b.String()
	}
	first := play()
	if len(first) < 1000 {
		t.Errorf("hardly anything happened: %s", first)
	}
	for range 5 {
		if again := play(); again != first {
			t.Fatal("the same seed gave another log")
		}
	}
}

// TestPlantedMistakesAreFound plants mistakes, one at a time, into the code that decides
// and into hosts: schedules by chance find each.
func TestPlantedMistakesAreFound(t *testing.T) {
	decide := func(change func(*unique.Workload, *unique.Holder, *unique.View)) rules {
		return rules{place: placement.Place, decide: func(w unique.Workload, h unique.Holder, v unique.View) (unique.Workload, bool) {
			x := w
			change(&x, &h, &v)
			got, changed := unique.Decide(x, h, v)
			got.Keeps = w.Keeps
			return got, changed
		}}
	}
	as := rules{decide: unique.Decide, place: placement.Place}
	with := func(change func(*rules)) rules { r := as; change(&r); return r }
	for name, r := range map[string]rules{
		"the time to kill is forgotten": decide(func(_ *unique.Workload, h *unique.Holder, v *unique.View) {
			if h.HeardMS > 0 {
				h.HeardMS -= 2100
			}
		}),
		"the lease is over at its time to live": decide(func(_ *unique.Workload, h *unique.Holder, v *unique.View) {
			if v.NowMS-h.HeardMS >= v.Timing.TTL.Milliseconds() {
				h.HeardMS = 1 - 1<<40
			}
		}),
		"hosts without a self-fence are believed": decide(func(_ *unique.Workload, h *unique.Holder, v *unique.View) { v.Min = unique.FenceNone }),
		"paused hosts are believed":               decide(func(_ *unique.Workload, h *unique.Holder, _ *unique.View) { h.Pausable = false }),
		"what keeps running is not asked for":     decide(func(w *unique.Workload, _ *unique.Holder, _ *unique.View) { w.Keeps = false }),
		"a loss counts as a proof": decide(func(w *unique.Workload, h *unique.Holder, v *unique.View) {
			h.Off = v.NowMS-h.HeardMS > v.Timing.TTL.Milliseconds()
		}),
		"an old lease counts as a proof":         with(func(r *rules) { r.noEcho = true }),
		"nothing waits after a start":            with(func(r *rules) { r.noWindow = true }),
		"a grant counts from its arrival":        with(func(r *rules) { r.fromReceipt = true }),
		"a start is not judged when it happens":  with(func(r *rules) { r.noRecheck = true }),
		"an off is believed by its exit code":    with(func(r *rules) { r.exitCode = true }),
		"an off is sent however late it is":      with(func(r *rules) { r.lateOff = true }),
		"hosts are fenced at once after a start": with(func(r *rules) { r.noSettling = true }),
		"what was fenced is forgotten":           with(func(r *rules) { r.forgets = true }),
		"our own side is not suspected":          with(func(r *rules) { r.neverUs = true }),
		"our own side is not suspected for long": with(func(r *rules) { r.briefUs = true }),
		"a move waits for no proof": {place: placement.Place, decide: func(w unique.Workload, h unique.Holder, v unique.View) (unique.Workload, bool) {
			h.Quiet = h.Quiet || w.Moving() && w.Phase == unique.Withheld
			return unique.Decide(w, h, v)
		}},
		"no epoch is raised": {place: placement.Place, decide: func(w unique.Workload, h unique.Holder, v unique.View) (unique.Workload, bool) {
			got, changed := unique.Decide(w, h, v)
			got.Epoch = w.Epoch
			return got, changed
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for n := uint64(1); n <= 3000; n++ {
				w := schedule(n)
				if r.fencing != (fencing{}) {
					w = fenced(n)
				}
				if got := run(w, r); len(got.Violations) > 0 {
					t.Logf("schedule %d: %s", n, got.Violations[0])
					return
				}
			}
			t.Error("nothing noticed it")
		})
	}
}
