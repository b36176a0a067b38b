package sim

import (
	"cmp"
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hostler-io/hostler/placement"
	"github.com/hostler-io/hostler/unique"
)

var (
	seed   = flag.Uint64("seed", 1, "the first schedule that is played")
	seeds  = flag.Int("seeds", 6000, "how many schedules are played")
	update = flag.Bool("update", false, "write the logs of testdata anew")
)

// playAll plays schedules, and adds up what they came to. The first one that is wrong fails
// the test.
func playAll(t *testing.T, count int, draw func(uint64) World, wrong func(Report) string) (sum Report) {
	t.Helper()
	for n := *seed; n < *seed+uint64(count); n++ {
		got := Run(draw(n))
		if bad := wrong(got); bad != "" {
			t.Fatalf("-seed %d -seeds 1: %s", n, bad)
		}
		sum.Takeovers, sum.Moves, sum.Fences = sum.Takeovers+got.Takeovers, sum.Moves+got.Moves, sum.Fences+got.Fences
	}
	return sum
}

// broken are the rules that a play broke.
func broken(r Report) string {
	if len(r.Violations) == 0 {
		return ""
	}
	return fmt.Sprint(r.Violations)
}

// TestNeverTwice plays schedules by chance, and holds each to what must never be. In the
// end, when all faults are over, everything runs somewhere.
func TestNeverTwice(t *testing.T) {
	got := playAll(t, *seeds, Schedule, func(r Report) string {
		if len(r.Stopped) > 0 {
			return fmt.Sprintf("%s when all is well again, these run nowhere: %v", broken(r), r.Stopped)
		}
		return broken(r)
	})
	if got.Takeovers < *seeds || 4*got.Moves < *seeds {
		t.Errorf("%d takeovers and %d moves in %d schedules: the faults do nothing", got.Takeovers, got.Moves, *seeds)
	}
}

// TestRunsAgainInTime plays schedules in which one thing goes wrong: everything runs again as
// soon as a takeover and a start take.
func TestRunsAgainInTime(t *testing.T) {
	if w := SingleSchedule(1); promised(&w) == 0 {
		t.Fatal("nothing is promised")
	}
	if got := playAll(t, (*seeds+2)/3, SingleSchedule, broken); 3*got.Takeovers < *seeds {
		t.Errorf("%d takeovers in a third of %d schedules: the faults do nothing", got.Takeovers, *seeds)
	}
	for seed := range uint64(20) {
		if w := Schedule(seed); promised(&w) != 0 {
			t.Errorf("schedule %d has more than one fault, and a bound", seed)
		}
	}
}

// TestFencesByChance plays schedules with devices that fail: nothing runs twice, no host is
// fenced twice for one loss, none while our own side has failed, and none that is back.
func TestFencesByChance(t *testing.T) {
	got := playAll(t, (*seeds+2)/3, FencedSchedule, broken)
	if 3*got.Fences < *seeds || 3*got.Takeovers < *seeds {
		t.Errorf("%d fences and %d takeovers in a third of %d schedules: the faults do nothing", got.Fences, got.Takeovers, *seeds)
	}
}

// tight is a schedule whose times have no room beyond what clocks need that go wrong by 5 %: a
// takeover after 11 s, when a host may run what it holds for 10.5 s.
func tight(seed uint64) World {
	w := Schedule(seed)
	w.Timing = unique.Timing{TTL: 9 * time.Second, Kill: time.Second, DriftPermille: 50}
	for i := range w.Hosts {
		w.Hosts[i].DriftPermille *= 5
	}
	return w
}

// TestNeverTwiceWithoutRoom: what the times promise holds to the last.
func TestNeverTwiceWithoutRoom(t *testing.T) {
	if got := tight(1).Timing.Takeover(); got != 11*time.Second {
		t.Fatalf("takeover after %s", got)
	}
	if got := playAll(t, (*seeds+5)/6, tight, broken); 6*got.Takeovers < *seeds {
		t.Errorf("%d takeovers in a sixth of %d schedules: the faults do nothing", got.Takeovers, *seeds)
	}
}

// TestMoveKeepsItsRoom: what waits for room takes none of that to which a person moves
// something.
func TestMoveKeepsItsRoom(t *testing.T) {
	w, err := Parse(strings.NewReader(`
		lease ttl=15s kill=2s margin=1s
		host a memory=4GiB
		host b memory=4GiB
		host c memory=1GiB
		workload db on=a memory=3GiB
		workload web memory=3GiB
		at 0s drain b for 1m
		at 1m move db to b
		until 3m`))
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	w.Log = func(at time.Duration, text string) { fmt.Fprintln(&log, at, text) }
	if got := Run(w); got.Moves != 1 || len(got.Violations)+len(got.Stopped) > 0 || !strings.Contains(log.String(), "web goes to a") {
		t.Errorf("%+v\n%s", got, log.String())
	}
}

// TestOrderAfterALoss: what starts after another workload is placed when that runs again.
func TestOrderAfterALoss(t *testing.T) {
	w, err := Parse(strings.NewReader(`
		lease ttl=15s kill=2s margin=1s
		host a
		host b
		host c
		workload db on=a memory=1GiB
		workload web on=a memory=4GiB after=db
		at 1m power-off a
		until 3m`))
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	w.Log = func(at time.Duration, text string) { fmt.Fprintln(&log, at, text) }
	got := Run(w)
	rest := log.String()
	for _, next := range []string{"coordinator: db goes to", "coordinator: web waits: it waits for db, after which it starts", "starts db", "coordinator: web goes to", "starts web"} {
		_, after, found := strings.Cut(rest, next)
		if rest = after; !found {
			t.Errorf("%q comes too early, or never", next)
		}
	}
	if len(got.Violations)+len(got.Stopped) > 0 {
		t.Errorf("%+v\n%s", got, log.String())
	}
}

// TestSameSeedSameLog: a run is a function of its world.
func TestSameSeedSameLog(t *testing.T) {
	play := func() string {
		var b strings.Builder
		w := FencedSchedule(7)
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

// runsNowhere is a mistake that breaks no rule but that everything runs again in time.
const runsNowhere = "the end of a lease is never believed"

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
		"the drift is forgotten":                  decide(func(_ *unique.Workload, _ *unique.Holder, v *unique.View) { v.Timing.DriftPermille = 0 }),
		"it is taken over one look too early":     decide(func(_ *unique.Workload, h *unique.Holder, _ *unique.View) { h.HeardMS -= tick }),
		"maintenance is not asked for":            decide(func(_ *unique.Workload, h *unique.Holder, _ *unique.View) { h.Maintenance = false }),
		"hosts without a self-fence are believed": decide(func(_ *unique.Workload, h *unique.Holder, v *unique.View) { v.Min = unique.FenceNone }),
		"a guard alone is believed":               decide(func(_ *unique.Workload, h *unique.Holder, v *unique.View) { v.Min = unique.FenceGuard }),
		"paused hosts are believed":               decide(func(_ *unique.Workload, h *unique.Holder, _ *unique.View) { h.Pausable = false }),
		"what keeps running is not asked for":     decide(func(w *unique.Workload, _ *unique.Holder, _ *unique.View) { w.Keeps = false }),
		"a loss counts as a proof": decide(func(w *unique.Workload, h *unique.Holder, v *unique.View) {
			h.Off = v.NowMS-h.HeardMS > v.Timing.TTL.Milliseconds()
		}),
		"an old lease counts as a proof":         with(func(r *rules) { r.noEcho = true }),
		"nothing waits after a start":            with(func(r *rules) { r.noWindow = true }),
		"a host that is back is given work":      with(func(r *rules) { r.noTelling = true }),
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
		"nothing waits for others": {decide: unique.Decide, place: func(hosts []placement.Host, all []placement.Workload, s placement.Strategy) []placement.Placed {
			for i := range all {
				all[i].Waits = ""
			}
			return placement.Place(hosts, all, s)
		}},
		runsNowhere: {place: placement.Place, decide: func(w unique.Workload, h unique.Holder, v unique.View) (unique.Workload, bool) {
			got, changed := unique.Decide(w, h, v)
			if got.Phase == unique.Free && !h.Quiet && !h.Off {
				return w, false
			}
			return got, changed
		}},
		"no epoch is raised": {place: placement.Place, decide: func(w unique.Workload, h unique.Holder, v unique.View) (unique.Workload, bool) {
			got, changed := unique.Decide(w, h, v)
			got.Epoch = w.Epoch
			return got, changed
		}},
	} {
		// What is to be found: a mistake that another one hides is not.
		finds := cmp.Or(map[string]string{
			"an off is sent however late it is": "an off is sent to", "hosts are fenced at once after a start": "has just started", "what was fenced is forgotten": "a second time for one loss",
			"our own side is not suspected": "our own side", "our own side is not suspected for long": "our own side", "nothing waits for others": "is placed before", "no epoch is raised": "under epoch",
			"the drift is forgotten": "gets a new epoch while", "it is taken over one look too early": "gets a new epoch while", "maintenance is not asked for": "is in maintenance",
			"an off is believed by its exit code": "counts as off, and is on", "a start is not judged when it happens": "without a grant",
			"a host that is back is given work": "has not told what it has", runsNowhere: "runs nowhere for longer than",
		}[name], "at one time")
		draw := Schedule
		switch {
		case r.fencing != (fencing{}):
			draw = FencedSchedule
		case name == "the drift is forgotten", name == "it is taken over one look too early":
			draw = tight
		case name == runsNowhere:
			draw = SingleSchedule
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for n := uint64(1); n <= 20_000; n++ {
				for _, v := range run(draw(n), r).Violations {
					if strings.Contains(v, finds) {
						t.Logf("schedule %d: %s", n, v)
						return
					}
					if name == runsNowhere {
						t.Fatalf("schedule %d: it breaks another rule first: %s", n, v)
					}
				}
			}
			t.Error("nothing noticed it")
		})
	}
}

// TestReached: a play tells each second that it has come to, once and in order, up to its
// end, and comes to the same.
func TestReached(t *testing.T) {
	w := Schedule(1)
	want := fmt.Sprint(Run(w))
	var last time.Duration
	w.Reached = func(at time.Duration) {
		if at/time.Second <= last/time.Second || at > w.Until {
			t.Errorf("it has reached %s after %s, and ends at %s", at, last, w.Until)
		}
		last = at
	}
	if got := fmt.Sprint(Run(w)); got != want || last < w.Until-time.Second {
		t.Errorf("it has reached %s of %s, and came to %s, not %s", last, w.Until, got, want)
	}
}
