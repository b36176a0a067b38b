package contract_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hostler-io/hostler/protocol/contract"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"": "keep", "keep": "keep", "stop-after=30s": "stop-after=30s", "stop-after=90m": "stop-after=1h30m", "stop-after=2h": "stop-after=2h",
		"stop-after=48h": "stop-after=2d", "stop-after=366d": "stop-after=366d", "stop-after=1h30m5s": "stop-after=1h30m5s",
	} {
		o, err := contract.Parse(text)
		if err != nil || o.String() != want {
			t.Errorf("%q: %q, %v; want %q", text, o, err, want)
		}
	}
	for _, text := range []string{"stop", "stop-after", "stop-after=", "stop-after=5", "stop-after=29s", "stop-after=367d", "stop-after=-2h", "stop-after=1500ms", "stop-after 2h", "keep=1", "KEEP", "stop-after=65537d"} {
		if o, err := contract.Parse(text); err == nil {
			t.Errorf("%q is %q", text, o)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{"keep", "stop-after=2h", "stop-after=90m", "stop-after=7d", "stop-after=1h30m5s", "stop-after=9223372036s"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		o, err := contract.Parse(text)
		if err != nil {
			return
		}
		again, err := contract.Parse(o.String())
		if err != nil || again != o {
			t.Errorf("%q is %q, which is %q, %v", text, o, again, err)
		}
	})
}

// TestAbsence holds the number that is kept to the truth: whatever ends the agent or the
// host, and however often, it is never more than the time for which the host was on and
// cut off, nor less than that without the last minute of each boot and the time in which
// no agent ran at all.
func TestAbsence(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var (
			kept, a  contract.Absence
			boot     = "a"
			now      = int64(5_000)
			truth    int64 // for which the host is on and cut off
			lacks    int64 // what of it may be forgotten
			restarts int
		)
		keep := func() { kept = a.At(now) }
		begin := func() {
			a = kept.Begun(boot, now)
			kept = a
			restarts++
		}
		begin()
		truth, lacks = 0, 0
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.SampledFrom([]string{"pass", "pass", "pass", "hear", "restart", "reboot", "power"}).Draw(t, "step") {
			case "pass": // the loop looks each second
				for range rapid.IntRange(1, 300).Draw(t, "seconds") {
					now += 1000
					truth += 1000
					if a.Due(kept, now, true) {
						keep()
					}
				}
			case "hear":
				now += 10
				a = a.Heard(now)
				truth, lacks = 0, 0
				if a.Due(kept, now, true) {
					keep()
				}
			case "restart": // killed, and up again after a while
				gap := int64(rapid.IntRange(0, 20_000).Draw(t, "gap"))
				if kept.MS == 0 { // it was heard less than a minute before
					lacks += contract.KeepEvery.Milliseconds() + gap
				}
				now += gap
				truth += gap
				begin()
			case "reboot": // in order: what there is is kept
				if a.Away(now) > 0 {
					keep()
				}
				boot, now = boot+"+", int64(rapid.IntRange(1, 20_000).Draw(t, "boot"))
				begin()
			case "power":
				lacks += contract.KeepEvery.Milliseconds() + 1000
				boot, now = boot+"+", int64(rapid.IntRange(1, 20_000).Draw(t, "boot"))
				begin()
			}
			got := a.At(now).MS
			if got > truth+int64(restarts) || got < truth-lacks {
				t.Fatalf("it says %d ms, and it was %d ms, of which %d may be forgotten", got, truth, lacks)
			}
		}
	})
}

// TestIdleWritesNothing: on a host that is connected, and on one whose containers go on
// for ever, nothing is written for the time that passes.
func TestIdleWritesNothing(t *testing.T) {
	a := contract.Absence{}.Begun("a", 1000)
	kept := a
	for now := int64(1000); now < 3_600_000; now += 5000 {
		if a.Due(kept, now, false) {
			t.Fatalf("without contracts it is written at %d", now)
		}
	}
	a = a.Heard(3_600_000)
	if !a.Due(kept, 3_600_000, false) {
		t.Error("that the coordinator was heard is not written")
	}
	kept = a
	for now := int64(3_600_000); now < 7_200_000; now += 5000 {
		a = a.Heard(now)
		if a.Due(kept, now, true) {
			t.Fatalf("while the coordinator is heard it is written at %d", now)
		}
	}
}

// TestPreviewIsTheDecision runs the decision second by second, and holds the preview to
// what comes of it.
func TestPreviewIsTheDecision(t *testing.T) {
	words := rapid.SampledFrom([]string{"keep", "stop-after=30s", "stop-after=45s", "stop-after=2m", "stop-after=5m"})
	rapid.Check(t, func(t *rapid.T) {
		w := contract.Workload{
			Name: "web", Intended: rapid.SampledFrom([]string{contract.Running, contract.Stopped}).Draw(t, "intended"),
			Class: rapid.SampledFrom([]string{"pinned", "cloned"}).Draw(t, "class"), Offline: words.Draw(t, "offline"),
		}
		away := time.Duration(rapid.IntRange(0, 400).Draw(t, "away")) * time.Second
		period := time.Duration(rapid.IntRange(0, 400).Draw(t, "period")) * time.Second
		f := contract.Preview([]contract.Workload{w}, away, period, false)[0]
		before, _ := w.Wanted(away)
		stops, in := false, time.Duration(0)
		for at := time.Duration(0); at <= period; at += time.Second {
			if state, _ := w.Wanted(away + at); state == contract.Stopped && before == contract.Running && !stops {
				stops, in = true, at
			}
		}
		end, _ := w.Wanted(away + period)
		if f.Then != end || f.Stops != stops || f.StopsIn != in {
			t.Fatalf("%+v of %+v, cut off for %s and another %s; it comes to %s, stops %v after %s", f, w, away, period, end, stops, in)
		}
	})
}

// TestUniqueStopsWithItsLease: what a unique container does while its host is cut off.
func TestUniqueStopsWithItsLease(t *testing.T) {
	for name, c := range map[string]struct {
		w      contract.Workload
		reboot bool
		then   string
	}{
		"its lease ends":             {contract.Workload{Offline: "lease", Up: true}, false, contract.Stopped},
		"it keeps":                   {contract.Workload{Offline: "keep", Up: true}, false, contract.Running},
		"it keeps, but for a reboot": {contract.Workload{Offline: "keep", Up: true}, true, contract.Stopped},
		"it does not run yet":        {contract.Workload{Offline: "keep"}, false, contract.Stopped},
		"it has no lease":            {contract.Workload{Offline: "lease", Lease: "none", Up: true}, false, contract.Stopped},
	} {
		c.w.Name, c.w.Class, c.w.Intended = "db", contract.Unique, contract.Running
		f := contract.Preview([]contract.Workload{c.w}, 0, time.Hour, c.reboot)[0]
		if f.Then != c.then || f.Then == contract.Stopped && f.Why == "" {
			t.Errorf("%s: %+v", name, f)
		}
	}
	for _, c := range []struct{ class, offline string }{{"unique", "stop-after=1h"}, {"pinned", "lease"}, {"", "lease"}, {"cloned", "lease"}} {
		if contract.CheckClass(c.class, c.offline) == nil {
			t.Errorf("class %q with contract %q", c.class, c.offline)
		}
	}
}

func TestPreview(t *testing.T) {
	all := contract.Preview([]contract.Workload{
		{Name: "theirs"},
		{Name: "db", Intended: contract.Running, Class: "pinned", Offline: "keep"},
		{Name: "web", Intended: contract.Running, Class: "cloned", Offline: "stop-after=2h"},
		{Name: "old", Intended: contract.Running, Class: "pinned", Offline: "keep", Broken: "no such file"},
		{Name: "off", Intended: contract.Stopped, Class: "pinned", Offline: "keep"},
	}, time.Hour, 90*time.Minute, true)
	if len(all) != 4 {
		t.Fatalf("%+v", all)
	}
	db, web, old, off := all[0], all[1], all[2], all[3]
	if db.Then != contract.Running || db.Stops || db.Why == "" {
		t.Errorf("%+v", db)
	}
	if web.Then != contract.Stopped || !web.Stops || web.StopsIn != time.Hour || web.Why == "" {
		t.Errorf("%+v", web)
	}
	if old.Then != contract.Stopped || old.Why == "" || off.Then != contract.Stopped || off.Why != "" {
		t.Errorf("%+v, %+v", old, off)
	}
}

// TestCheckChange: a unique container stays unique, and stays with its contract.
func TestCheckChange(t *testing.T) {
	for _, c := range []struct {
		class, offline, toClass, toOffline string
		ok                                 bool
	}{
		{"pinned", "keep", "cloned", "stop-after=8h", true},
		{"unique", "lease", "unique", "lease", true},
		{"unique", "keep", "unique", "keep", true},
		{"unique", "lease", "unique", "keep", false},
		{"unique", "keep", "unique", "lease", false},
		{"unique", "lease", "unique", "stop-after=8h", false},
		{"unique", "keep", "pinned", "keep", false},
		{"pinned", "keep", "unique", "keep", false},
		{"pinned", "keep", "pinned", "lease", false},
	} {
		if err := contract.CheckChange(c.class, c.offline, c.toClass, c.toOffline); (err == nil) != c.ok {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
