package commands

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/runner"
)

// TestRecovered is the table of what becomes of attempts that an earlier process
// began: every verdict, for the kinds that run commands.
func TestRecovered(t *testing.T) {
	const again = protocol.Event("again")
	end := func(e End) Found { return Found{Verdict: runner.Exited, End: e, Emptied: e.Emptied} }
	for _, kind := range []protocol.Kind{protocol.KindRun, protocol.KindExec} {
		for _, c := range []struct {
			name    string
			found   Found
			attempt int
			want    protocol.Event
			gone    bool
		}{
			{"ended well", end(End{Emptied: true}), 1, protocol.EventSucceed, false},
			{"ended badly", end(End{Exit: protocol.Exit{Code: 3}}), 1, protocol.EventExit, false},
			{"by a signal", end(End{Exit: protocol.Exit{Code: 137, Signal: 9}}), 1, protocol.EventSignal, false},
			{"by the time limit", end(End{Exit: protocol.Exit{Code: 143, Signal: 15, TimedOut: true}}), 1, protocol.EventTimeout, false},
			{"by a cancel", end(End{Exit: protocol.Exit{Code: 143, Signal: 15, Cancelled: true}, Emptied: true}), 1, protocol.EventCancelled, false},
			{"by a cancel that left something", end(End{Exit: protocol.Exit{Code: 143, Signal: 15, Cancelled: true}}), 1, protocol.EventSignal, false},
			{"not found", end(End{Exit: protocol.Exit{Code: 127, Error: "not_found"}, NeverBegan: true}), 1, protocol.EventNoStart, false},
			{"rebooted", Found{Verdict: runner.Rebooted, Emptied: true}, 1, protocol.EventInterrupt, true},
			{"died", Found{Verdict: runner.Died, Emptied: true}, 1, protocol.EventInterrupt, true},
			{"died, nobody knows", Found{Verdict: runner.Died}, 1, protocol.EventInterrupt, false},
			{"never began", Found{Verdict: runner.NeverBegan, Emptied: true}, 1, again, true},
			{"never began again", Found{Verdict: runner.NeverBegan, Emptied: true}, maxUnbegun, protocol.EventNoStart, false},
		} {
			o := recovered(&protocol.Spec{Kind: kind}, c.attempt, c.found)
			got := o.Step.Event
			if o.Again {
				got = again
			}
			if got != c.want || o.Gone != c.gone {
				t.Errorf("%s, %s: %q, gone %v, want %q, %v", kind, c.name, got, o.Gone, c.want, c.gone)
			}
			if got == again {
				continue
			}
			if _, _, err := protocol.StateRunning.Next(got, protocol.OwnerAgent, ""); err != nil {
				t.Errorf("%s, %s: %v", kind, c.name, err)
			}
		}
	}
}

// TestInterruptedTellsItsOutput: whoever follows has to know where it ends.
func TestInterruptedTellsItsOutput(t *testing.T) {
	left := []protocol.Output{{FD: protocol.Stdout, Bytes: 300}}
	o := recovered(&protocol.Spec{Kind: protocol.KindRun}, 1, Found{Verdict: runner.Died, Emptied: true, End: End{Output: left}})
	if diff := cmp.Diff(left, o.Step.Output); diff != "" {
		t.Error(diff)
	}
}

// TestRecoveredIdempotent is the same for a kind that may be repeated.
func TestRecoveredIdempotent(t *testing.T) {
	spec := &protocol.Spec{Kind: protocol.KindStart} // three attempts
	for _, v := range []runner.Verdict{runner.Rebooted, runner.Died} {
		for attempt, again := range map[int]bool{1: true, 2: true, 3: false} {
			if o := recovered(spec, attempt, Found{Verdict: v, Emptied: true}); o.Again != again || !o.Gone {
				t.Errorf("%s after attempt %d: again %v, gone %v", v, attempt, o.Again, o.Gone)
			}
		}
	}
	if o := recovered(spec, 1, Found{Verdict: runner.Died}); o.Again || o.Gone || o.Step.Event != protocol.EventInterrupt {
		t.Errorf("died, and something may be left: %+v", o)
	}
}
