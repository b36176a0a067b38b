package agent_test

import (
	"errors"
	"testing"
	"time"

	"github.com/hostler-io/hostler/agent"
	"github.com/hostler-io/hostler/protocol"
)

// TestSameIDOfBothSides: what is here wins, is told as a whole, and what was ordered
// under its id never begins.
func TestSameIDOfBothSides(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		here := []byte(`{"kind":"host.run","argv":["hang"],"timeout_ms":-1}`)
		w.line.breaks(true)
		act, err := w.agent.Propose(t.Context(), actionID(1), here, "root")
		if err != nil {
			t.Fatal(err)
		}
		w.coord.order(act.ID, command("true"))
		w.line.heal()
		w.pass(5 * time.Minute)
		w.coord.see(func() {
			var last protocol.Report
			for _, r := range w.coord.reports {
				if r.Action == act.ID {
					last = r
				}
			}
			if last.Digest != protocol.Sum(here) || string(last.Spec) != string(here) || last.State != protocol.StateRunning || last.Requester != "root" {
				t.Errorf("told: %+v", last)
			}
		})
		if n := w.cmds.begun; n != 1 {
			t.Errorf("%d commands have begun, want the one that was here", n)
		}
	})
}

// TestStopNowFindsRoom: where nothing more is taken a container can be stopped at
// once all the same.
func TestStopNowFindsRoom(t *testing.T) {
	in(t, func(c *agent.Config) { c.MaxOpen, c.HostRuns = 3, 1 }, func(t *testing.T, w *world) {
		w.coord.order(actionID(1), creation(1, true))
		w.pass(time.Second)
		for n := range byte(4) {
			w.coord.order(actionID(n+2), command("hang"))
		}
		w.pass(time.Second)
		w.expect(actionID(5), "refuse FAILED queue_full")
		w.coord.now(actionID(6), on(protocol.KindStopNow, 1))
		w.pass(time.Second)
		w.expect(actionID(6), "start RUNNING", "succeed DONE ok")
		act, err := w.agent.Propose(t.Context(), actionID(7), specOf(on(protocol.KindStopNow, 1)), "root")
		if err != nil {
			t.Errorf("of the host itself: %s, %v", act.State, err)
		}
	})
}

// TestTooManyOpenActions: beyond the limit nothing is taken and nothing is lost.
func TestTooManyOpenActions(t *testing.T) {
	in(t, func(c *agent.Config) { c.MaxOpen, c.HostRuns = 3, 1 }, func(t *testing.T, w *world) {
		for n := range byte(5) {
			w.coord.order(actionID(n+1), command("hang"))
		}
		w.pass(20 * time.Second)
		w.expect(actionID(1), "start RUNNING")
		w.expect(actionID(2), "accept NEW")
		w.expect(actionID(3), "accept NEW")
		w.expect(actionID(4), "refuse FAILED queue_full")
		w.expect(actionID(5), "refuse FAILED queue_full")
		if _, err := w.agent.Propose(t.Context(), actionID(6), []byte(`{"kind":"host.ping"}`), "root"); !errors.Is(err, agent.ErrFull) {
			t.Errorf("of the host itself: %v", err)
		}
		w.coord.cancel(actionID(3))
		w.coord.order(actionID(7), command("true"))
		w.coord.cancel(actionID(1))
		w.pass(20 * time.Second)
		w.expect(actionID(3), "accept NEW", "cancelled CANCELLED cancelled")
		w.expect(actionID(7), "accept NEW")
		w.expect(actionID(2), "accept NEW", "start RUNNING")
	})
}
