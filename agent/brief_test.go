package agent_test

import (
	"testing"
	"time"

	"github.com/hostler-io/hostler/protocol"
)

// TestStartIsReportedWithTheEnd: a brief command is one report, a longer one is reported
// as running soon, and its first byte does not wait for that.
func TestStartIsReportedWithTheEnd(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		w.coord.order(actionID(1), command("sleep", "20ms"))
		w.pass(22 * time.Millisecond)
		w.expect(actionID(1), "succeed DONE ok")
		w.pass(time.Second) // and nothing follows
		w.expect(actionID(1), "succeed DONE ok")
		w.coord.see(func() {
			if r := w.coord.reports[len(w.coord.reports)-1]; r.AcceptedMS == 0 || r.StartedMS == 0 || r.Attempt != 1 {
				t.Errorf("of its start the report says %d, %d, attempt %d", r.AcceptedMS, r.StartedMS, r.Attempt)
			}
		})
		w.coord.order(actionID(2), command("print", "a", "1m"))
		w.pass(time.Millisecond)
		w.expect(actionID(2))
		w.coord.see(func() {
			if out := string(w.coord.out[protocol.Stdout]); out != "a" {
				t.Errorf("of the output %q arrived at once", out)
			}
		})
		w.pass(25 * time.Millisecond)
		w.expect(actionID(2), "start RUNNING")
		w.pass(time.Minute)
		w.expect(actionID(2), "start RUNNING", "succeed DONE ok")
	})
}

// TestStartIsReportedAfterARestart: what has begun and was not reported yet is reported
// by the next process, also when nothing else moves it; nor does a cancel lose it.
func TestStartIsReportedAfterARestart(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		w.coord.order(actionID(1), command("hang"))
		w.pass(time.Millisecond)
		w.restart()
		w.pass(2 * time.Second)
		w.expect(actionID(1), "start RUNNING")
		w.coord.order(actionID(2), command("hang"))
		w.pass(time.Millisecond)
		w.coord.cancel(actionID(2))
		w.pass(time.Second)
		w.expect(actionID(2), "tell RUNNING cancelling", "cancelled CANCELLED cancelled")
		if act, err := w.agent.Action(t.Context(), actionID(2)); err != nil || act.State != protocol.StateCancelled {
			t.Errorf("%+v, %v", act, err)
		}
	})
}
