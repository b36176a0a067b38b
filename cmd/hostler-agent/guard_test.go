package main

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/guard"
	"github.com/hostler-io/hostler/unique"
)

// TestResetInTime: what the guard does is what coordinators count on.
func TestResetInTime(t *testing.T) {
	if guard.ResetWithin > unique.ResetTime {
		t.Errorf("the guard has the machine reset within %s, and coordinators count on %s", guard.ResetWithin, unique.ResetTime)
	}
	if guard.RebootWithin > unique.RebootTime {
		t.Errorf("the guard restarts the machine within %s, and coordinators count on %s", guard.RebootWithin, unique.RebootTime)
	}
}

// TestSelfFenceIsWhatWasSeen: a host shows a watchdog if it was armed for the test of the
// guard, and else tells a person why it does not.
func TestSelfFenceIsWhatWasSeen(t *testing.T) {
	for name, c := range map[string]struct {
		watchdog string
		dog      guard.Watchdog
		want     unique.SelfFence
		problem  string
	}{
		"none is wanted":   {"", guard.Watchdog{}, unique.FenceGuard, ""},
		"armed":            {"/dev/watchdog", guard.Watchdog{Path: "/dev/watchdog", Armed: true}, unique.FenceWatchdog, ""},
		"busy":             {"/dev/watchdog", guard.Watchdog{Error: "it is busy"}, unique.FenceGuard, "it is busy"},
		"an earlier guard": {"/dev/watchdog", guard.Watchdog{}, unique.FenceGuard, "earlier version"},
	} {
		n := &node{log: slog.New(slog.DiscardHandler), config: config{Unique: uniqueConfig{Guard: true, Watchdog: c.watchdog}}}
		if got := n.fenced(c.dog); got != c.want || len(n.needs) != min(1, len(c.watchdog)) {
			t.Errorf("%s: %s, and %v is found", name, got, n.needs)
		}
		for _, need := range n.needs {
			if problem := need.Problem; (problem == nil) != (c.problem == "") || problem != nil && !strings.Contains(problem.Error(), c.problem) {
				t.Errorf("%s: %v", name, problem)
			}
		}
	}
}

func TestWatchdogSetting(t *testing.T) {
	for path, want := range map[string]string{"": "", "/dev/watchdog1": "", "watchdog": "no absolute path"} {
		err := uniqueConfig{Pausable: pausableAuto, Guard: true, Watchdog: path}.check()
		if (err == nil) != (want == "") {
			t.Errorf("%q: %v", path, err)
		}
	}
	if err := (uniqueConfig{Pausable: pausableAuto, Watchdog: "/dev/watchdog"}).check(); err == nil || !strings.Contains(err.Error(), "unique.guard") {
		t.Errorf("without a guard: %v", err)
	}
}

// TestRestartIsShownWhenItWasSeen: a host shows that its guard restarts it if the guard was
// ready for that when it was tested, and else tells a person why it does not.
func TestRestartIsShownWhenItWasSeen(t *testing.T) {
	for name, c := range map[string]struct {
		wanted, boxed bool
		shown         guard.Reboot
		problem       string
	}{
		"is not wanted":    {},
		"ready":            {true, false, guard.Reboot{Ready: true}, ""},
		"no key":           {true, false, guard.Reboot{Error: "the kernel has no such key"}, "no such key"},
		"an earlier guard": {true, false, guard.Reboot{}, "earlier version"},
		"in a container":   {true, true, guard.Reboot{}, "is a container"},
	} {
		n := &node{log: slog.New(slog.DiscardHandler), config: config{Unique: uniqueConfig{Guard: true, Reboot: c.wanted}}}
		if got := n.reboots(c.shown, c.boxed); got != c.shown.Ready || (len(n.needs) != 0) != c.wanted {
			t.Errorf("%s: %t, and %v is found", name, got, n.needs)
		}
		for _, need := range n.needs {
			if problem := need.Problem; (problem == nil) != (c.problem == "") || problem != nil && !strings.Contains(problem.Error(), c.problem) {
				t.Errorf("%s: %v", name, problem)
			}
		}
	}
	if err := (uniqueConfig{Pausable: pausableAuto, Reboot: true}).check(); err == nil || !strings.Contains(err.Error(), "unique.guard") {
		t.Errorf("without a guard: %v", err)
	}
}
