package agent_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/runner"
	"github.com/hostler-io/hostler/runner/rundir"
)

func (w *world) detail(id protocol.ActionID) string {
	w.t.Helper()
	act, err := w.agent.Action(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	return act.Detail
}

// stoppedSupervisor is one that was stopped.
func stoppedSupervisor() runner.Sight {
	return runner.Sight{Supervisor: runner.Process{PID: 99, State: 'T'}, Silent: true, Alive: []runner.Process{{PID: 123, State: 'S'}, {PID: 124, State: 'S'}}}
}

// TestStuckSupervisorIsSeen: a supervisor that does not answer is told of, and no
// more when it answers again; before its command should have ended it is left alone.
func TestStuckSupervisorIsSeen(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		w.coord.order(actionID(1), command("hang"))
		w.pass(time.Second)
		w.cmds.seen(stoppedSupervisor())
		w.pass(24 * time.Hour)
		w.expect(actionID(1), "start RUNNING", "tell RUNNING") // once
		if got := w.detail(actionID(1)); got != "stuck: its supervisor (process 99) is stopped and does not answer; kill -CONT 99 lets it go on" {
			t.Errorf("it is said: %q", got)
		}
		w.cmds.seen(runner.Sight{})
		w.pass(time.Minute)
		if got := w.detail(actionID(1)); got != "" || w.cmds.abandoned.Load() != 0 {
			t.Errorf("it answers, and it is said: %q; %d were killed", got, w.cmds.abandoned.Load())
		}
	})
}

// TestLimitOutlivesTheSupervisor: a supervisor that does not keep the limit, or end
// what is cancelled, loses its command half a minute after the grace.
func TestLimitOutlivesTheSupervisor(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		limited := command("hang")
		limited.SetTimeLimit(time.Minute.Milliseconds())
		w.cmds.seen(stoppedSupervisor())
		w.coord.order(actionID(1), limited)
		w.pass(95 * time.Second)
		if w.cmds.abandoned.Load() != 0 {
			t.Error("it was killed before its time")
		}
		w.pass(45 * time.Second)
		got := w.coord.told(actionID(1))
		if w.cmds.abandoned.Load() != 1 || got[len(got)-1] != "interrupt FAILED interrupted" {
			t.Errorf("%d were killed, reports %q", w.cmds.abandoned.Load(), got)
		}
		if got := w.detail(actionID(1)); !strings.HasPrefix(got, "its supervisor (process 99) did not answer 30s after") {
			t.Errorf("it is said: %q", got)
		}
	})
}

// TestCancelOutlivesTheSupervisor: likewise; and what is left is named meanwhile.
func TestCancelOutlivesTheSupervisor(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		w.cmds.deaf = true
		w.coord.order(actionID(1), command("hang"))
		w.pass(time.Second)
		w.cmds.seen(stoppedSupervisor())
		w.coord.cancel(actionID(1))
		w.pass(35 * time.Second)
		want := "cancelling: its supervisor (process 99) is stopped and does not answer; kill -CONT 99 lets it go on; 2 processes of it are still alive: 123 (S) 124 (S)"
		if got := w.detail(actionID(1)); got != want || w.cmds.abandoned.Load() != 0 {
			t.Errorf("it is said: %q", got)
		}
		w.pass(45 * time.Second)
		got := w.coord.told(actionID(1))
		if w.cmds.abandoned.Load() != 1 || got[len(got)-1] != "cancelled CANCELLED cancelled" {
			t.Errorf("%d were killed, reports %q", w.cmds.abandoned.Load(), got)
		}
	})
}

// TestCommandThatCannotBeCancelledHasTime: when its end was asked for and the host
// cannot bring it about, its supervisor is not killed for being silent once.
func TestCommandThatCannotBeCancelledHasTime(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		w.cmds.cannot = true
		w.coord.order(actionID(1), command("hang"))
		w.pass(time.Second)
		w.coord.cancel(actionID(1))
		w.pass(time.Hour)
		w.cmds.seen(stoppedSupervisor())
		w.pass(time.Hour)
		if got := w.detail(actionID(1)); w.cmds.abandoned.Load() != 0 || got != "stuck: its supervisor (process 99) is stopped and does not answer; kill -CONT 99 lets it go on" {
			t.Errorf("%d were killed; it is said: %q", w.cmds.abandoned.Load(), got)
		}
	})
}

// TestUnkillableIsSeen: a supervisor that answers is never killed: it waits for what
// the kernel does not let go of, and so does the action.
func TestUnkillableIsSeen(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		w.cmds.deaf = true
		w.coord.order(actionID(1), command("hang"))
		w.pass(time.Second)
		w.cmds.seen(runner.Sight{Supervisor: runner.Process{PID: 99, State: 'S'}, Alive: []runner.Process{{PID: 123, State: 'D'}}})
		w.coord.cancel(actionID(1))
		w.pass(time.Hour)
		w.expect(actionID(1), "start RUNNING", "tell RUNNING cancelling", "tell RUNNING cancelling")
		want := "cancelling: 1 process of it is still alive: 123 (D); process 123 is in state D since 2000-01-01T00:00:30Z: it waits for a device or a file system, and no signal reaches it before that answers"
		if got := w.detail(actionID(1)); got != want || w.cmds.abandoned.Load() != 0 {
			t.Errorf("it is said: %q; %d were killed", got, w.cmds.abandoned.Load())
		}
	})
}

// TestBlockedIsSeen: a process that waits for the kernel is named while it does so
// for long, also before its command should have ended, and no more thereafter.
func TestBlockedIsSeen(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		forEver := command("hang")
		forEver.SetTimeLimit(protocol.NoTimeout)
		w.coord.order(actionID(1), forEver)
		w.pass(time.Second)
		see := func(all ...runner.Process) {
			w.cmds.seen(runner.Sight{Supervisor: runner.Process{PID: 99, State: 'S'}, Alive: all})
		}
		see(runner.Process{PID: 123, State: 'D'}, runner.Process{PID: 124, State: 'S'})
		w.pass(30 * time.Second)
		if got := w.detail(actionID(1)); got != "" {
			t.Errorf("at the first sight it is said: %q", got)
		}
		w.pass(24 * time.Hour)
		w.expect(actionID(1), "start RUNNING", "tell RUNNING") // once
		if got := w.detail(actionID(1)); !strings.HasPrefix(got, "stuck: process 123 is in state D since 2000-01-01T00:00:30Z: it waits for a device") {
			t.Errorf("it is said: %q", got)
		}
		see(runner.Process{PID: 123, State: 'S'}, runner.Process{PID: 124, State: 'D'})
		w.pass(30 * time.Second)
		if got := w.detail(actionID(1)); got != "" {
			t.Errorf("it goes on, and it is said: %q", got)
		}
	})
}

// TestRealStuckSupervisor stops a supervisor for good: its command ends all the same
// when its time is over, and nothing of it is left.
func TestRealStuckSupervisor(t *testing.T) {
	r := newRig(t)
	id := r.propose("/bin/sh", "-c", "echo begun; sleep 600") // its limit is a minute
	if got := r.first(id); got != "begun" {
		t.Fatalf("first line %q", got)
	}
	dir := rundir.Dir(filepath.Join(r.dir, "runs", id.String(), "1"))
	holder, err := dir.Holder()
	if err != nil {
		t.Fatal(err)
	}
	start, err := dir.Start()
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(holder.PID, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // should it still be there
		if ticks, err := rundir.StartTicks(holder.PID); err == nil && ticks == holder.StartTicks {
			_ = syscall.Kill(holder.PID, syscall.SIGKILL)
		}
		_ = rundir.Leaf(start.Leaf).Kill()
	})
	r.later.Store(2 * time.Minute.Milliseconds()) // the boot clock goes on
	act := r.wait(id)
	if act.Reason != protocol.ReasonInterrupted || !strings.Contains(act.Detail, "did not answer") {
		t.Errorf("it is %+v", act)
	}
	if _, err := os.Stat(start.Leaf); !os.IsNotExist(err) {
		t.Errorf("its leaf: %v", err)
	}
}
