package agent_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hostler-io/hostler/agent"
	"github.com/hostler-io/hostler/agent/commands"
	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/protocol"
)

// wrote lets commands write, one after the other, and end.
func (w *world) wrote(text string, ids ...byte) {
	w.t.Helper()
	for _, n := range ids {
		w.coord.order(actionID(n), command("print", text, "1s"))
		w.pass(3 * time.Second)
		w.expect(actionID(n), "start RUNNING", "succeed DONE ok")
	}
}

// left tells whose output is there.
func (w *world) left() (ids []byte) {
	w.cmds.mu.Lock()
	defer w.cmds.mu.Unlock()
	for n := range byte(100) {
		if w.cmds.runs[actionID(n)] != nil {
			ids = append(ids, n)
		}
	}
	return ids
}

func (w *world) wantLeft(when string, want ...byte) {
	w.t.Helper()
	if got := w.left(); !slices.Equal(got, want) {
		w.t.Errorf("%s: output of %v is left, want %v", when, got, want)
	}
}

// TestOldRunsAreRemoved: what ended first goes first, what has not ended stays, and
// whoever asks is told.
func TestOldRunsAreRemoved(t *testing.T) {
	tune := func(c *agent.Config) { c.OutputTotal, c.OutputAge = 2500, time.Hour }
	in(t, tune, func(t *testing.T, w *world) {
		text := strings.Repeat("x", 1<<10)
		w.coord.order(actionID(1), command("print", text, "100h"))
		w.pass(time.Second)
		w.wrote(text, 2, 3)
		w.pass(10 * time.Minute)
		w.wantLeft("too much", 1, 3)
		if _, err := w.agent.Output(t.Context(), actionID(2), agent.LocalRoot, protocol.Stdout, 0, true, false); !errors.Is(err, commands.ErrGone) {
			t.Errorf("who asks for what is gone gets %v", err)
		}
		if r, err := w.agent.Output(t.Context(), actionID(3), agent.LocalRoot, protocol.Stdout, 0, true, false); err != nil {
			t.Errorf("who asks for what is there gets %v", err)
		} else {
			_ = r.Close()
		}
		if act, err := w.agent.Action(t.Context(), actionID(2)); err != nil || act.State != protocol.StateDone {
			t.Errorf("the action is %s, %v", act.State, err)
		}
		w.pass(time.Hour)
		w.wantLeft("too old", 1)
		w.restart()
		w.pass(10 * time.Minute)
		w.wantLeft("after a restart", 1)
	})
}

// TestRunsAreKeptForTheCoordinator: what it has still to fetch goes last, never for
// its age, and then it is told.
func TestRunsAreKeptForTheCoordinator(t *testing.T) {
	tune := func(c *agent.Config) { c.OutputTotal, c.OutputAge = 3500, time.Hour }
	in(t, tune, func(t *testing.T, w *world) {
		text := strings.Repeat("x", 1<<10)
		w.wrote(text, 1)
		w.line.breaks(true)
		w.pass(2 * time.Hour)
		w.wantLeft("nobody could fetch it", 1)
		spec, err := json.Marshal(command("print", text, "1s"))
		if err != nil {
			t.Fatal(err)
		}
		for n := byte(2); n <= 4; n++ {
			if _, err := w.agent.Propose(t.Context(), actionID(n), spec, "root"); err != nil {
				t.Fatal(err)
			}
			w.pass(3 * time.Second)
		}
		w.pass(10 * time.Minute)
		w.wantLeft("the budget decides", 2, 3, 4)
		w.pass(2 * time.Hour)
		w.line.heal()
		w.pass(time.Second)
		w.give(0)
		w.pass(time.Second)
		w.coord.see(func() {
			if !slices.Equal(w.coord.nothing, []int64{0}) {
				t.Errorf("nothing is there at %v, want 0", w.coord.nothing)
			}
		})
		w.pass(time.Minute)
		w.wantLeft("it may not have asked yet", 2, 3, 4)
		w.pass(10 * time.Minute)
		w.wantLeft("it has asked")
		w.line.hold(protocol.ChannelReceipt)
		w.coord.order(actionID(5), command("print", text, "1s"))
		w.pass(2 * time.Hour)
		w.wantLeft("its end was not receipted", 5)
	})
}

// TestNoCommandsAnyMore: an action of a host that ran commands when it was accepted
// ends when the host does not run them any more, and harms nothing.
func TestNoCommandsAnyMore(t *testing.T) {
	none := false
	in(t, func(c *agent.Config) {
		if none {
			c.Commands, c.RunDirs = nil, nil
		}
		c.HostRuns = 1
	}, func(t *testing.T, w *world) {
		w.coord.order(actionID(1), command("hang"))
		w.coord.order(actionID(2), command("true"))
		w.pass(time.Second)
		none = true
		w.restart()
		w.pass(2 * time.Second)
		w.expect(actionID(1), "start RUNNING", "interrupt FAILED interrupted")
		w.expect(actionID(2), "accept NEW", "fail FAILED error")
	})
}

// TestLargeOutputOutlivesNewerActions: what a command has written beyond what goes to
// the coordinator by itself stays for its time, however many actions end after it.
func TestLargeOutputOutlivesNewerActions(t *testing.T) {
	in(t, func(c *agent.Config) { c.OutputAge = time.Hour }, func(t *testing.T, w *world) {
		w.coord.order(actionID(1), command("bytes", strconv.Itoa(3*protocol.OutputKept)))
		w.pass(3 * time.Second)
		w.expect(actionID(1), "succeed DONE ok")
		w.wrote("little", 2)
		for n := range byte(queue.KeepActions + 10) {
			w.coord.order(actionID(100+n), protocol.Spec{Kind: protocol.KindPing})
		}
		w.pass(5 * time.Minute)
		w.wantLeft("after many others", 1)
		w.restart()
		w.pass(5 * time.Minute)
		r, err := w.agent.Output(t.Context(), actionID(1), agent.LocalRoot, protocol.Stdout, 0, true, false)
		if err != nil {
			t.Fatalf("after a restart: %v", err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		w.pass(time.Hour)
		w.wantLeft("after its time")
		if act := must(w.agent.Action(t.Context(), actionID(1))); act.ReportN != 0 {
			t.Errorf("its action is not forgotten: %+v", act)
		}
	})
}
