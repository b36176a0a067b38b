package agent_test

import (
	"errors"
	"testing"
	"time"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/container/containertest"
	"github.com/hostler-io/hostler/protocol"
)

func hang(n byte) protocol.Spec {
	s := on(protocol.KindExec, n)
	s.Args = &protocol.CommandArgs{Process: protocol.Process{Argv: []string{"hang"}}, TimeLimit: protocol.TimeLimit{TimeoutMS: protocol.NoTimeout}}
	return s
}

// TestStopNowWaitsForNobody: what runs in its container's lane ends as preempted,
// what waits stays, but for what would start the container again.
func TestStopNowWaitsForNobody(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		w.coord.order(actionID(1), creation(1, true))
		w.coord.order(actionID(2), creation(2, true))
		w.pass(time.Second)
		w.coord.order(actionID(3), hang(1))
		w.coord.order(actionID(4), on(protocol.KindStart, 1))
		w.coord.order(actionID(5), on(protocol.KindReset, 1))
		w.coord.order(actionID(6), hang(1))
		w.coord.order(actionID(7), on(protocol.KindDestroy, 1))
		w.coord.order(actionID(8), hang(2))
		w.coord.order(actionID(10), on(protocol.KindRestart, 1))
		w.pass(time.Second)
		w.expect(actionID(7), "accept NEW")
		w.stopped(actionID(3), 1)
		w.coord.now(actionID(9), on(protocol.KindStopNow, 1))
		w.pass(time.Second)
		w.expect(actionID(9), "start RUNNING", "succeed DONE ok")
		w.expect(actionID(3), "start RUNNING", "preempt FAILED preempted")
		w.expect(actionID(4), "accept NEW", "preempt FAILED preempted")
		w.expect(actionID(5), "accept NEW", "preempt FAILED preempted")
		w.expect(actionID(10), "accept NEW", "preempt FAILED preempted")
		w.expect(actionID(6), "accept NEW", "start RUNNING", "no_start FAILED no_start") // it is stopped
		w.expect(actionID(7), "accept NEW", "start RUNNING", "succeed DONE ok")
		w.expect(actionID(8), "start RUNNING")
		if got := w.state(2); got != container.StateRunning {
			t.Errorf("the other container is %v", got)
		}
	})
}

// stopped lets the command of an action end with its container, as the kernel does.
func (w *world) stopped(id protocol.ActionID, n byte) {
	w.lxc.SetFault(func(op containertest.Op, _ string) (bool, error) {
		if op == containertest.OpStop {
			w.cmds.mu.Lock()
			r := w.cmds.runs[id][1]
			w.cmds.mu.Unlock()
			r.killed.Store(true)
			r.once.Do(func() { close(r.cancel) })
			<-r.done
		}
		return true, nil
	})
}

// TestStopNowEndsOperations: a step of the container's life that hangs is ended,
// and what it would have come to does not count any more.
func TestStopNowEndsOperations(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		w.coord.order(actionID(1), creation(1, false))
		w.pass(time.Second)
		w.lxc.Hang(containertest.OpStart)
		w.coord.order(actionID(2), on(protocol.KindStart, 1))
		w.pass(time.Minute)
		w.expect(actionID(2), "start RUNNING")
		w.coord.now(actionID(3), on(protocol.KindStopNow, 1))
		w.pass(time.Second)
		w.expect(actionID(2), "start RUNNING", "preempt FAILED preempted")
		w.expect(actionID(3), "start RUNNING", "succeed DONE ok")
		w.lxc.Hang("")
		w.pass(10 * time.Minute)
		if got := w.state(1); got != container.StateStopped {
			t.Errorf("it was stopped and is %v", got)
		}
	})
}

// TestStopNowEndsCorrections: the agent's own start is no reason to wait either.
func TestStopNowEndsCorrections(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		w.coord.order(actionID(1), creation(1, true))
		w.pass(time.Second)
		w.lxc.Hang(containertest.OpStart)
		if err := w.lxc.Enter("ct-1", container.StateStopped); err != nil {
			t.Fatal(err)
		}
		w.pass(20 * time.Second)
		w.coord.now(actionID(2), on(protocol.KindStopNow, 1))
		w.pass(time.Second)
		w.expect(actionID(2), "start RUNNING", "succeed DONE ok")
		if m := w.agent.Metrics(); m.StartFailures != 0 {
			t.Errorf("%d starts count as failed", m.StartFailures)
		}
		w.lxc.Hang("")
		w.pass(10 * time.Minute)
		if got := w.state(1); got != container.StateStopped {
			t.Errorf("it was stopped and is %v", got)
		}
	})
}

// TestStopNowOfACreation: what is being made is not started afterwards.
func TestStopNowOfACreation(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		w.lxc.Hang(containertest.OpStart)
		w.coord.order(actionID(1), creation(1, true))
		w.pass(time.Second)
		w.coord.now(actionID(2), on(protocol.KindStopNow, 1))
		w.pass(time.Second)
		w.expect(actionID(1), "start RUNNING", "preempt FAILED preempted")
		w.expect(actionID(2), "start RUNNING", "succeed DONE ok")
		w.lxc.Hang("")
		w.pass(10 * time.Minute)
		if got := w.state(1); got != container.StateStopped {
			t.Errorf("it was stopped and is %v", got)
		}
	})
}

// TestStopNowSurvivesTheAgent: what was preempted is not taken up again.
func TestStopNowSurvivesTheAgent(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		w.coord.order(actionID(1), creation(1, true))
		w.pass(time.Second)
		w.lxc.Hang(containertest.OpStop)
		w.coord.now(actionID(2), on(protocol.KindStopNow, 1))
		w.pass(time.Second)
		w.expect(actionID(2), "start RUNNING")
		w.down()
		w.lxc.Hang("")
		w.up()
		w.pass(time.Minute)
		w.expect(actionID(2), "start RUNNING", "retry RUNNING", "succeed DONE ok")
		if got := w.state(1); got != container.StateStopped {
			t.Errorf("it is %v", got)
		}
	})
}

// TestOnlyStopNowPreempts: a control carries nothing else past those who wait.
func TestOnlyStopNowPreempts(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		w.coord.order(actionID(1), creation(1, true))
		w.pass(time.Second)
		w.coord.now(actionID(2), on(protocol.KindStop, 1))
		w.coord.now(actionID(3), on(protocol.KindStopNow, 7))
		w.pass(time.Second)
		w.expect(actionID(2), "refuse FAILED bad_spec")
		w.expect(actionID(3), "accept NEW", "target_gone FAILED target_gone")
		if got := w.state(1); got != container.StateRunning {
			t.Errorf("it is %v", got)
		}
	})
}

// TestRename: what waits for a container goes with it, and its old name is free.
func TestRename(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		w.coord.order(actionID(1), creation(1, false))
		w.coord.order(actionID(2), creation(2, false))
		w.pass(time.Second)
		rename := on(protocol.KindRename, 1)
		rename.Args = &protocol.RenameArgs{NewName: "db"}
		start := on(protocol.KindStart, 1)
		again := creation(3, false)
		again.Name = "ct-1"
		w.coord.order(actionID(3), rename)
		w.coord.order(actionID(4), start)
		w.coord.order(actionID(5), again)
		w.pass(time.Second)
		for n := range byte(3) {
			if got := w.coord.told(actionID(n + 3)); got[len(got)-1] != "succeed DONE ok" {
				t.Errorf("action %d: %q", n+3, got)
			}
		}
		info, err := w.lxc.Inspect(t.Context(), "db")
		if err != nil || info.State != container.StateRunning || string(info.CTID) != ctid(1).String() {
			t.Errorf("%+v, %v", info, err)
		}
		w.restart()
		w.pass(time.Minute)
		all, err := w.agent.Containers(t.Context())
		if err != nil || len(all) != 3 || all[0].Name != "ct-1" || all[0].CTID != ctid(3) || all[2].Name != "db" || all[2].Intended != "running" {
			t.Errorf("%+v, %v", all, err)
		}
		// One that runs stays as it is, and so does one whose new name is taken.
		rename.Args = &protocol.RenameArgs{NewName: "web"}
		w.coord.order(actionID(6), rename)
		taken := on(protocol.KindRename, 2)
		taken.Args = &protocol.RenameArgs{NewName: "db"}
		w.coord.order(actionID(7), taken)
		w.pass(time.Second)
		w.expect(actionID(6), "start RUNNING", "fail FAILED error")
		w.expect(actionID(7), "accept NEW", "fail FAILED error")
		if _, err := w.lxc.Inspect(t.Context(), "ct-2"); err != nil {
			t.Error(err)
		}
	})
}

// TestRenameThatWasCutShort: what was done although it was interrupted is done.
func TestRenameThatWasCutShort(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		w.coord.order(actionID(1), creation(1, false))
		w.pass(time.Second)
		w.lxc.SetFault(func(op containertest.Op, _ string) (bool, error) {
			if op == containertest.OpRename {
				return true, errors.New("the helper was killed")
			}
			return true, nil
		})
		rename := on(protocol.KindRename, 1)
		rename.Args = &protocol.RenameArgs{NewName: "db"}
		w.coord.order(actionID(2), rename)
		w.coord.order(actionID(3), on(protocol.KindStart, 1))
		w.pass(time.Second)
		got := w.coord.told(actionID(3))
		all, err := w.agent.Containers(t.Context())
		info, failed := w.lxc.Inspect(t.Context(), string(all[0].Name))
		if err != nil || failed != nil || got[len(got)-1] != "succeed DONE ok" || info.State != container.StateRunning {
			t.Errorf("%q, %+v, %+v, %v", got, all, info, errors.Join(err, failed))
		}
	})
}

// TestDestroyHoldsItsName: a container that is asked for while another of the name
// is being destroyed waits until the name is free.
func TestDestroyHoldsItsName(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		w.coord.order(actionID(1), creation(1, true))
		w.pass(time.Second)
		w.lxc.Hang(containertest.OpDestroy)
		w.coord.order(actionID(2), on(protocol.KindDestroy, 1))
		successor := creation(2, true)
		successor.Name = "ct-1"
		w.coord.order(actionID(3), successor)
		w.pass(time.Second)
		w.expect(actionID(2), "start RUNNING")
		w.expect(actionID(3), "accept NEW")
		w.lxc.Hang("")
		w.pass(time.Second)
		w.expect(actionID(2), "start RUNNING", "succeed DONE ok")
		w.expect(actionID(3), "accept NEW", "start RUNNING", "succeed DONE ok")
	})
}

// TestDaemonThatNeverBeganKeepsItsLane: of an attempt that is over without a start
// the next has the lane, and no other action with it.
func TestDaemonThatNeverBeganKeepsItsLane(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		w.cmds.lose = true
		daemon := command("hang")
		daemon.Args = &protocol.CommandArgs{Process: daemon.Process(), Daemon: true, Exclusive: true}
		w.coord.order(actionID(1), daemon)
		w.pass(time.Second)
		w.coord.order(actionID(2), creation(1, true))
		w.pass(time.Second)
		w.cmds.get(actionID(1), 1).dies()
		w.pass(time.Second)
		w.expect(actionID(1), "start RUNNING", "retry RUNNING")
		w.expect(actionID(2), "accept NEW")
	})
}

// TestDaemonLeavesItsLane: what waits for its container begins when it has begun,
// and the action goes on, over restarts of the agent too.
func TestDaemonLeavesItsLane(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		w.coord.order(actionID(1), creation(1, true))
		w.pass(time.Second)
		daemon := hang(1)
		daemon.Args = &protocol.CommandArgs{Process: daemon.Process(), Daemon: true}
		w.coord.order(actionID(2), daemon)
		after := on(protocol.KindExec, 1)
		after.Args = protocol.Command("true")
		w.coord.order(actionID(3), after)
		w.pass(10 * time.Minute)
		w.expect(actionID(2), "start RUNNING")
		if got := w.coord.told(actionID(3)); got[len(got)-1] != "succeed DONE ok" {
			t.Errorf("what waited: %q", got)
		}
		w.restart()
		w.coord.order(actionID(4), after)
		w.pass(time.Second)
		if got := w.coord.told(actionID(4)); got[len(got)-1] != "succeed DONE ok" {
			t.Errorf("after a restart: %q", got)
		}
		w.coord.cancel(actionID(2))
		w.pass(time.Second)
		w.expect(actionID(2), "start RUNNING", "tell RUNNING cancelling", "cancelled CANCELLED cancelled")
	})
}
