package unique

import (
	"strings"
	"testing"
	"time"

	"github.com/hostler-io/hostler/protocol"
)

// TestTakeoverIsLaterThanTheKill holds the default to the number of the design, and every
// configuration to the inequality.
func TestTakeoverIsLaterThanTheKill(t *testing.T) {
	if got := Default().Takeover(); got != 118*time.Second {
		t.Errorf("takeover after %s, want 118s", got)
	}
	for name, c := range map[string]struct {
		change func(*Timing)
		want   string // within the error; empty: it is taken
	}{
		"default":        {func(*Timing) {}, ""},
		"longer":         {func(t *Timing) { t.Wait = 5 * time.Minute }, ""},
		"as it must be":  {func(t *Timing) { t.Wait = 118 * time.Second }, ""},
		"too early":      {func(t *Timing) { t.Wait = 117 * time.Second }, "use at least 1m58s"},
		"at the end":     {func(t *Timing) { t.Wait = t.TTL }, "use at least"},
		"no drift":       {func(t *Timing) { t.DriftPermille = 0 }, "lease.drift"},
		"negative":       {func(t *Timing) { t.Margin = -time.Second }, "lease.margin"},
		"no time":        {func(t *Timing) { t.TTL = 0 }, "lease.ttl"},
		"no kill":        {func(t *Timing) { t.Kill = 0 }, "lease.kill"},
		"short for test": {func(t *Timing) { t.TTL, t.Kill, t.Margin = 3*time.Second, time.Second, 0 }, ""},
	} {
		timing := Default()
		c.change(&timing)
		err := timing.Check()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if err == nil && timing.Takeover() <= timing.TTL+timing.Kill {
			t.Errorf("%s: takeover after %s, although a host may hold what it has for %s", name, timing.Takeover(), timing.TTL+timing.Kill)
		}
	}
}

// held is a workload on host a, and what is known of it long after a start.
func held() (Workload, Holder, View) {
	w := Workload{Name: "db", Host: "a", Phase: Held, Epoch: protocol.Epoch{Term: protocol.Term{Ring: 1, Counter: 1}, Counter: 7}, Data: DataNone}
	return w, Holder{HeardMS: 1_000_000, Fence: FenceGuard}, View{Timing: Default(), Min: FenceGuard, NowMS: 1_000_000, StartedMS: 1}
}

// TestLostHostIsTakenOver follows a workload from the loss of its host to the next one.
func TestLostHostIsTakenOver(t *testing.T) {
	w, h, v := held()
	at := func(s int64) Workload {
		t.Helper()
		v.NowMS = h.HeardMS + s*1000
		w, _ = Decide(w, h, v)
		return w
	}
	if at(89); w.Phase != Held {
		t.Errorf("after 89s it is %s", w.Phase)
	}
	if at(90); w.Phase != Withheld || !strings.Contains(w.Why, "host a is lost") {
		t.Errorf("after 90s it is %s: %s", w.Phase, w.Why)
	}
	if at(117); w.Phase != Withheld {
		t.Errorf("a second before its takeover it is %s", w.Phase)
	}
	if _, err := w.Place("b", v.term()); err == nil {
		t.Error("a workload that its host may still run was placed")
	}
	if at(118); w.Phase != Free || w.Epoch.Counter != 8 {
		t.Errorf("after 118s it is %s under %v", w.Phase, w.Epoch)
	}
	w, err := w.Place("b", v.term())
	if err != nil || w.Host != "b" || w.Phase != Held || w.Epoch.Counter != 8 || w.Epoch.Term.Counter != 2 {
		t.Errorf("placed: %+v, %v", w, err)
	}
}

func (v View) term() protocol.Term { return protocol.Term{Ring: 1, Counter: 2} }

// TestHeardAgainKeeps: a host that comes back before its lease has ended keeps what it has.
func TestHeardAgainKeeps(t *testing.T) {
	w, h, v := held()
	v.NowMS += 100_000
	w, _ = Decide(w, h, v)
	h.HeardMS = v.NowMS
	if w, changed := Decide(w, h, v); !changed || w.Phase != Held || w.Epoch.Counter != 7 {
		t.Errorf("%+v, %v", w, changed)
	}
}

// TestWhatProves goes through what may and may not show that a lost workload does not run.
func TestWhatProves(t *testing.T) {
	late := Default().Takeover().Milliseconds()
	for name, c := range map[string]struct {
		change func(*Workload, *Holder, *View)
		free   bool
		why    string
	}{
		"the lease is over":            {func(*Workload, *Holder, *View) {}, true, "lease"},
		"a millisecond early":          {func(_ *Workload, _ *Holder, v *View) { v.NowMS-- }, false, "may still be good"},
		"no self-fence":                {func(_ *Workload, h *Holder, _ *View) { h.Fence = FenceNone }, false, "self-fence none, want guard"},
		"a self-fence of no name":      {func(_ *Workload, h *Holder, _ *View) { h.Fence = "certainly" }, false, "self-fence none"},
		"a watchdog is wanted":         {func(_ *Workload, _ *Holder, v *View) { v.Min = FenceWatchdog }, false, "want watchdog"},
		"a watchdog is there":          {func(_ *Workload, h *Holder, v *View) { h.Fence, v.Min = FenceWatchdog, FenceWatchdog }, true, "lease"},
		"it goes on without a lease":   {func(w *Workload, _ *Holder, _ *View) { w.Keeps = true }, false, "keep"},
		"it may be paused":             {func(_ *Workload, h *Holder, _ *View) { h.Pausable = true }, false, "paused"},
		"another may grant":            {func(_ *Workload, h *Holder, _ *View) { h.Unsure = true }, false, "has not confirmed the new ring"},
		"off":                          {func(w *Workload, h *Holder, v *View) { w.Keeps, h.Off, v.NowMS = true, true, v.NowMS-late+1 }, true, "is off"},
		"a person says so":             {func(w *Workload, h *Holder, v *View) { w.Keeps, h.Confirmed = true, true }, true, "person"},
		"it says so":                   {func(w *Workload, h *Holder, v *View) { w.Keeps, h.Quiet = true, true }, true, "says"},
		"maintenance":                  {func(_ *Workload, h *Holder, _ *View) { h.Maintenance = true }, false, ""},
		"we have just begun":           {func(_ *Workload, _ *Holder, v *View) { v.StartedMS = v.NowMS - late + 1 }, false, ""},
		"we have begun, and it is off": {func(_ *Workload, h *Holder, v *View) { h.Off, v.StartedMS = true, v.NowMS }, false, ""},
	} {
		w, h, v := held()
		w.Phase = Withheld
		v.NowMS = h.HeardMS + late
		c.change(&w, &h, &v)
		got, _ := Decide(w, h, v)
		if (got.Phase == Free) != c.free || !strings.Contains(got.Why, c.why) || got.Phase == Free && got.Epoch.Counter != 8 {
			t.Errorf("%s: %s (%s) under %d", name, got.Phase, got.Why, got.Epoch.Counter)
		}
	}
}

// TestNothingIsWithheld names what is no reason to take a workload from its host.
func TestNothingIsWithheld(t *testing.T) {
	for name, change := range map[string]func(*Workload, *Holder, *View){
		"our side failed":  func(_ *Workload, _ *Holder, v *View) { v.OurSide = true },
		"maintenance":      func(_ *Workload, h *Holder, _ *View) { h.Maintenance = true },
		"a start":          func(_ *Workload, _ *Holder, v *View) { v.StartedMS = v.NowMS - 1 },
		"it is stopped":    func(w *Workload, _ *Holder, _ *View) { w.Stopped = true },
		"it was not heard": func(_ *Workload, h *Holder, v *View) { h.HeardMS, v.StartedMS = 0, v.NowMS-117_999 },
	} {
		w, h, v := held()
		v.NowMS = h.HeardMS + 10*Default().Takeover().Milliseconds()
		change(&w, &h, &v)
		if got, changed := Decide(w, h, v); changed {
			t.Errorf("%s: it is %s", name, got.Phase)
		}
	}
}

// TestMoves: a workload that is to move leaves a host that is there, and only when that
// says so.
func TestMoves(t *testing.T) {
	w, h, v := held()
	w.Moves = true
	w, _ = Decide(w, h, v)
	if w.Phase != Withheld {
		t.Fatalf("it is %s", w.Phase)
	}
	if w, _ = Decide(w, h, v); w.Phase != Withheld || !strings.Contains(w.Why, "not stopped") {
		t.Errorf("%s: %s", w.Phase, w.Why)
	}
	h.Quiet = true
	if w, _ = Decide(w, h, v); w.Phase != Free {
		t.Errorf("%s: %s", w.Phase, w.Why)
	}
}

// TestWatchdogsAreInTime: the default times count on a watchdog.
func TestWatchdogsAreInTime(t *testing.T) {
	if kill := Default().Kill; ResetTime > kill {
		t.Errorf("a watchdog resets within %s, and a host has %s to kill", ResetTime, kill)
	}
}

func TestVanished(t *testing.T) {
	for _, c := range []struct {
		there, gone int
		want        bool
	}{{1, 1, false}, {2, 2, false}, {3, 3, true}, {6, 3, true}, {7, 3, false}, {21, 20, true}, {100, 49, false}, {100, 50, true}} {
		if got := Vanished(c.there, c.gone); got != c.want {
			t.Errorf("%d of %d: %v", c.gone, c.there, got)
		}
	}
}

// TestQuiet: an outage of our own is suspected when no host was heard for half a lease, be it
// that none is missed yet; not where two hosts are silent, which may be by chance, nor at once
// after a start.
func TestQuiet(t *testing.T) {
	timing := Default()
	half := timing.TTL.Milliseconds() / 2
	for _, c := range []struct {
		there            int
		now, newest, was int64
		want             bool
	}{{3, 1_000_000 + half, 1_000_000, 0, true}, {3, 1_000_000 + half - 1, 1_000_000, 0, false}, {2, 2_000_000, 1_000_000, 0, false},
		{9, 1_000_000, 0, 999_000, false}, {9, 1_000_000 + half, 0, 1_000_000, true}} {
		if got := Quiet(View{Timing: timing, NowMS: c.now, StartedMS: c.was}, c.there, c.newest); got != c.want {
			t.Errorf("%+v: %t", c, got)
		}
	}
	var s Suspicion
	v := View{Timing: timing, NowMS: half}
	if !s.Ours(v, 3, 0, 0) {
		t.Error("it is not suspected")
	}
	if v.NowMS += half; !s.Ours(v, 3, 0, v.NowMS) { // a host that lost one message more than the others is missed now
		t.Error("it is not suspected any more when the first host is back")
	}
}

// TestSuspicionLasts: our own side is suspected for one takeover time after hosts have begun
// to come back.
func TestSuspicionLasts(t *testing.T) {
	v := View{Timing: Default()}
	var s Suspicion
	for _, c := range []struct {
		atS         int64
		there, gone int
		want        bool
	}{{0, 6, 2, false}, {10, 6, 3, true}, {20, 6, 6, true}, {21, 6, 2, true}, {137, 6, 0, true}, {138, 6, 0, false}, {139, 6, 2, false}} {
		v.NowMS = c.atS * 1000
		if got := s.Ours(v, c.there, c.gone, v.NowMS); got != c.want {
			t.Errorf("at %d s with %d of %d gone: %v", c.atS, c.gone, c.there, got)
		}
	}
}

// TestNextRingWins: whatever epoch a stolen key has granted, a coordinator of the next ring
// places the workload under a higher one.
func TestNextRingWins(t *testing.T) {
	w, _, _ := held()
	stolen := protocol.Epoch{Term: protocol.Term{Ring: w.Epoch.Term.Ring, Counter: protocol.MaxInteger}, Counter: protocol.MaxInteger}
	w, err := w.freed("its host has stopped it").Place(w.Host, protocol.Term{Ring: stolen.Term.Ring + 1, Counter: 1})
	if err != nil || w.Epoch.Compare(stolen) <= 0 {
		t.Errorf("it is placed under %s, %v, and the host has stored %s", w.Epoch, err, stolen)
	}
}
