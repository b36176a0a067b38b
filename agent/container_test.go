package agent_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/hostler-io/hostler/agent"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/container/containertest"
	"github.com/hostler-io/hostler/protocol"
)

// TestContainerRestart: a container that runs gets another init, one that is stopped
// is started, and an agent that dies between the two leaves none stopped.
func TestContainerRestart(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		running := func() (init int) {
			t.Helper()
			info, err := w.lxc.Inspect(t.Context(), "ct-1")
			if err != nil || info.State != container.StateRunning {
				t.Fatalf("%+v, %v", info, err)
			}
			return info.InitPID
		}
		w.coord.order(actionID(1), creation(1, true))
		w.pass(time.Second)
		before := running()
		w.coord.order(actionID(2), on(protocol.KindRestart, 1))
		w.pass(time.Second)
		if running() == before {
			t.Error("its init is the same")
		}
		w.coord.order(actionID(3), on(protocol.KindStop, 1))
		w.pass(time.Second)
		w.coord.order(actionID(4), on(protocol.KindRestart, 1))
		w.pass(time.Second)
		before = running()
		for n := byte(1); n <= 4; n++ {
			w.expect(actionID(n), "start RUNNING", "succeed DONE ok")
		}
		w.lxc.Hang(containertest.OpStart)
		w.coord.order(actionID(5), on(protocol.KindRestart, 1))
		w.pass(time.Second)
		w.restart()
		w.lxc.Hang("")
		w.pass(time.Minute)
		if running() == before {
			t.Error("its init is the same after an attempt that was cut short")
		}
		if got := w.coord.told(actionID(5)); got[len(got)-1] != "succeed DONE ok" {
			t.Errorf("it ended: %q", got)
		}
	})
}

func TestContainerLife(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		w.lxc.Put(container.Info{Name: "theirs", State: container.StateRunning})
		w.coord.order(actionID(1), creation(1, false))
		asRoot := creation(2, false)
		asRoot.Args.(*protocol.CreateArgs).Privileged = true
		w.coord.order(actionID(10), asRoot)
		w.pass(time.Second)
		if got := w.state(1); got != container.StateStopped {
			t.Fatalf("created: %v", got)
		}
		w.coord.order(actionID(2), on(protocol.KindStart, 1))
		w.pass(time.Second)
		if got := w.state(1); got != container.StateRunning {
			t.Fatalf("started: %v", got)
		}
		// Behind the agent's back.
		if err := w.lxc.Enter("ct-1", container.StateStopped); err != nil {
			t.Fatal(err)
		}
		w.pass(5 * time.Second)
		if got := w.state(1); got != container.StateRunning {
			t.Errorf("a container that should run was not started again: %v", got)
		}
		w.coord.order(actionID(3), on(protocol.KindStop, 1))
		w.pass(time.Minute)
		if got := w.state(1); got != container.StateStopped {
			t.Errorf("stopped: %v", got)
		}
		all, err := w.agent.Containers(t.Context())
		if err != nil || len(all) != 3 || all[0].Name != "ct-1" || all[0].Intended != "stopped" || all[0].Privileged || !all[1].Privileged || !all[2].Foreign {
			t.Errorf("%+v, %v", all, err)
		}
		w.coord.order(actionID(4), on(protocol.KindDestroy, 1))
		w.coord.order(actionID(5), on(protocol.KindStart, 1)) // waits, and finds nothing
		w.pass(time.Second)
		if got := w.state(1); got != "" {
			t.Errorf("destroyed: %v", got)
		}
		for n := range byte(4) {
			w.expect(actionID(n+1), "start RUNNING", "succeed DONE ok")
		}
		w.expect(actionID(5), "accept NEW", "target_gone FAILED target_gone")
		info, err := w.lxc.Inspect(t.Context(), "theirs")
		if err != nil || info.State != container.StateRunning {
			t.Errorf("the foreign container: %+v, %v", info, err)
		}
	})
}

// TestOldActionsMissNewContainers: a container that has the name of one that is
// gone gets none of its actions, though both show the same name to people.
func TestOldActionsMissNewContainers(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		named := func(s protocol.Spec) protocol.Spec { s.Name = "ct-2"; return s }
		w.coord.order(actionID(1), named(creation(1, true)))
		w.pass(time.Second)
		w.coord.order(actionID(2), named(on(protocol.KindDestroy, 1)))
		w.pass(time.Second)
		w.coord.order(actionID(3), creation(2, true))
		w.pass(time.Second)
		for n := range byte(3) {
			w.expect(actionID(n+1), "start RUNNING", "succeed DONE ok")
		}
		exec := on(protocol.KindExec, 1)
		exec.Args = protocol.Command("true")
		for n, s := range []protocol.Spec{on(protocol.KindDestroy, 1), on(protocol.KindStop, 1), on(protocol.KindReset, 1), exec} {
			id := actionID(byte(n) + 4)
			w.coord.order(id, named(s))
			w.pass(time.Second)
			w.expect(id, "accept NEW", "target_gone FAILED target_gone")
		}
		if got := w.state(2); got != container.StateRunning {
			t.Errorf("the new container: %v", got)
		}
	})
}

func TestCreateAndStart(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		w.coord.order(actionID(1), creation(1, true))
		twin := creation(2, true)
		twin.Name = "ct-1"
		w.coord.order(actionID(2), twin)
		w.pass(time.Second)
		w.expect(actionID(1), "start RUNNING", "succeed DONE ok")
		w.expect(actionID(2), "accept NEW", "fail FAILED error")
		if got := w.state(1); got != container.StateRunning {
			t.Errorf("it is %v", got)
		}
	})
}

// TestCreateThatIsCutShortLeavesNothing: the name is free afterwards, whatever had
// been made when time was up. What cannot be removed stays known instead.
func TestCreateThatIsCutShortLeavesNothing(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		stuck := false
		w.lxc.SetFault(func(op containertest.Op, _ string) (bool, error) {
			switch {
			case op == containertest.OpCreate:
				return true, container.ErrTimeout
			case op == containertest.OpDestroy && stuck:
				return false, container.ErrBusy
			}
			return true, nil
		})
		w.coord.order(actionID(1), creation(1, false))
		w.pass(time.Second)
		w.expect(actionID(1), "start RUNNING", "fail FAILED error")
		if got := w.state(1); got != "" {
			t.Errorf("it is %v", got)
		}
		stuck = true
		second := creation(2, false)
		second.Name = "ct-1"
		w.coord.order(actionID(2), second)
		w.pass(time.Second)
		w.expect(actionID(2), "start RUNNING", "fail FAILED error")
		w.lxc.SetFault(nil)
		w.coord.order(actionID(3), on(protocol.KindDestroy, 2))
		w.pass(time.Second)
		w.expect(actionID(3), "start RUNNING", "succeed DONE ok")
		w.coord.order(actionID(4), creation(1, false))
		w.pass(time.Second)
		if got := w.state(1); got != container.StateStopped {
			t.Errorf("made anew it is %v", got)
		}
	})
}

// TestFailedCreateIsInNoInventory: while a creation goes on the host tells of its
// container. Once the end of one that failed is told, no list and no heartbeat has it:
// not even the newest one of before, by which the coordinator goes.
func TestFailedCreateIsInNoInventory(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		w.lxc.Hang(containertest.OpCreate)
		w.coord.order(actionID(1), creation(1, true))
		w.pass(time.Hour - 10*time.Second) // it may take an hour
		ended := false
		for range 600 {
			w.pass(100 * time.Millisecond)
			w.coord.see(func() {
				n := len(w.coord.reports)
				ended = ended || n > 0 && w.coord.reports[n-1].State.Final()
				if n := len(w.coord.beats); ended && n > 0 && len(w.coord.beats[n-1].Containers) != 0 {
					t.Fatalf("after the end the newest heartbeat tells %+v", w.coord.beats[n-1].Containers)
				}
			})
			if all := must(w.agent.Containers(t.Context())); ended && len(all) != 0 {
				t.Fatalf("after the end the host lists %+v", all)
			}
		}
		if !ended {
			t.Fatal("the creation has no end")
		}
	})
}

// TestCreationThatIsInterruptedTooOften: when the agent was ended under each attempt,
// what they have left is removed, and the name is free.
func TestCreationThatIsInterruptedTooOften(t *testing.T) {
	in(t, func(c *agent.Config) { c.Drain = time.Second }, func(t *testing.T, w *world) {
		w.lxc.Hang(containertest.OpCreate)
		w.coord.order(actionID(1), creation(1, true))
		for range 3 {
			w.pass(time.Second)
			w.restart()
		}
		w.pass(10 * time.Second)
		w.expect(actionID(1), "start RUNNING", "retry RUNNING", "retry RUNNING", "interrupt FAILED interrupted")
		if all, err := w.agent.Containers(t.Context()); err != nil || len(all) != 0 {
			t.Errorf("it is still there: %+v, %v", all, err)
		}
	})
}

// TestKilledHelper: who works on a container may be killed at any moment, by the
// machine's lack of memory say. The step is made again, but not for ever.
func TestKilledHelper(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		var kills map[containertest.Op]int
		w.lxc.SetFault(func(op containertest.Op, _ string) (bool, error) {
			if kills[op] == 0 {
				return true, nil
			}
			kills[op]--
			return kills[op]%2 == 0, container.ErrInterrupted
		})
		kills = map[containertest.Op]int{containertest.OpCreate: 2, containertest.OpStart: 1, containertest.OpStop: 2, containertest.OpDestroy: 1}
		w.coord.order(actionID(1), creation(1, false))
		w.pass(time.Second)
		w.expect(actionID(1), "start RUNNING", "retry RUNNING", "retry RUNNING", "succeed DONE ok")
		w.coord.order(actionID(2), on(protocol.KindStart, 1))
		w.pass(time.Second)
		w.expect(actionID(2), "start RUNNING", "retry RUNNING", "succeed DONE ok")
		w.coord.order(actionID(3), on(protocol.KindStop, 1))
		w.pass(time.Second)
		w.expect(actionID(3), "start RUNNING", "retry RUNNING", "retry RUNNING", "succeed DONE ok")
		w.coord.order(actionID(4), on(protocol.KindDestroy, 1))
		w.pass(time.Second)
		w.expect(actionID(4), "start RUNNING", "retry RUNNING", "succeed DONE ok")

		kills = map[containertest.Op]int{containertest.OpCreate: 3}
		w.coord.order(actionID(5), creation(2, false))
		w.pass(time.Second)
		w.expect(actionID(5), "start RUNNING", "retry RUNNING", "retry RUNNING", "interrupt FAILED interrupted")
		if got := w.state(2); got != "" {
			t.Errorf("what was never finished is %v", got)
		}
		w.coord.order(actionID(6), creation(2, false))
		w.pass(time.Second)
		w.expect(actionID(6), "start RUNNING", "succeed DONE ok")
	})
}

// TestCreateOfWhatIsThereHarmsNothing: an order that was issued once more and fails
// neither forgets nor removes the container.
func TestCreateOfWhatIsThereHarmsNothing(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		w.coord.order(actionID(1), creation(1, false))
		w.pass(time.Second)
		w.lxc.SetFault(func(op containertest.Op, _ string) (bool, error) {
			if op == containertest.OpCreate {
				return false, container.ErrTimeout
			}
			return true, nil
		})
		w.coord.order(actionID(2), creation(1, false))
		w.pass(time.Second)
		w.lxc.SetFault(nil)
		w.expect(actionID(2), "start RUNNING", "fail FAILED error")
		if got := w.state(1); got != container.StateStopped {
			t.Errorf("it is %v", got)
		}
		w.coord.order(actionID(3), on(protocol.KindStart, 1))
		w.pass(time.Second)
		w.expect(actionID(3), "start RUNNING", "succeed DONE ok")
	})
}

func TestRebootRestoresWithNobodyReachable(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		for n := range byte(20) {
			w.coord.order(actionID(n+1), creation(n+1, n%2 == 0))
		}
		w.pass(10 * time.Second)
		w.line.breaks(true)
		w.down()
		for n := range byte(20) {
			if err := w.lxc.Enter(string(creation(n+1, false).Name), container.StateStopped); err != nil {
				t.Fatal(err)
			}
		}
		w.boot = "boot-2"
		w.up()
		w.pass(5 * time.Second)
		for n := range byte(20) {
			want := container.StateStopped
			if n%2 == 0 {
				want = container.StateRunning
			}
			if got := w.state(n + 1); got != want {
				t.Errorf("container %d is %v, want %v", n+1, got, want)
			}
		}
	})
}

func TestAgentRestartTouchesNoContainer(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		w.coord.order(actionID(1), creation(1, true))
		w.pass(time.Second)
		w.lxc.SetFault(func(op containertest.Op, name string) (bool, error) {
			if op == containertest.OpStart || op == containertest.OpStop {
				t.Errorf("%s of %s", op, name)
			}
			return true, nil
		})
		w.restart()
		w.pass(time.Minute)
		w.lxc.SetFault(nil)
	})
}

func TestFiveFailuresBreakAContainer(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		w.coord.order(actionID(1), creation(1, true))
		w.pass(time.Second)
		tries := 0
		w.lxc.SetFault(func(op containertest.Op, _ string) (bool, error) {
			if op != containertest.OpStart {
				return true, nil
			}
			tries++
			return false, errors.New("no such device")
		})
		if err := w.lxc.Enter("ct-1", container.StateStopped); err != nil {
			t.Fatal(err)
		}
		w.pass(10 * time.Minute)
		if tries != 5 {
			t.Errorf("%d tries, want 5", tries)
		}
		alert := "container.broken/" + ctid(1).String()
		w.coord.see(func() {
			if len(w.coord.alerts) != 1 || w.coord.alerts[0].ID != alert || !w.coord.alerts[0].Raised {
				t.Errorf("alerts %+v", w.coord.alerts)
			}
		})
		w.restart() // it stays broken
		w.pass(10 * time.Minute)
		if tries != 5 {
			t.Errorf("it was tried again: %d", tries)
		}
		w.lxc.SetFault(nil)
		w.coord.order(actionID(2), on(protocol.KindReset, 1))
		w.pass(time.Minute)
		if got := w.state(1); got != container.StateRunning {
			t.Errorf("after the reset it is %v", got)
		}
		w.coord.see(func() {
			if len(w.coord.alerts) != 2 || w.coord.alerts[1].Raised {
				t.Errorf("alerts %+v", w.coord.alerts)
			}
		})
	})
}

// TestStopThatFailsBacksOff: it is tried for as long as it takes, but not without
// a pause.
func TestStopThatFailsBacksOff(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		w.coord.order(actionID(1), creation(1, true))
		w.pass(time.Second)
		stops := 0
		w.lxc.SetFault(func(op containertest.Op, _ string) (bool, error) {
			if op != containertest.OpStop || stops > 1000 {
				return true, nil
			}
			stops++
			return false, errors.New("it hangs in the kernel")
		})
		w.coord.order(actionID(2), on(protocol.KindStop, 1))
		w.pass(time.Hour)
		// 2 s, 4 s … 5 min, half of each random.
		if stops < 10 || stops > 40 {
			t.Errorf("%d stops within an hour of failures", stops)
		}
		w.lxc.SetFault(nil)
		w.pass(6 * time.Minute)
		if got := w.state(1); got != container.StateStopped {
			t.Errorf("when it can be stopped again it is %v", got)
		}
	})
}

func TestCrashLoopBacksOff(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		w.coord.order(actionID(1), creation(1, true))
		w.pass(time.Second)
		starts := 0
		w.lxc.SetFault(func(op containertest.Op, _ string) (bool, error) {
			if op == containertest.OpStart {
				starts++
			}
			return true, nil
		})
		for range 3600 {
			if w.state(1) == container.StateRunning {
				if err := w.lxc.Enter("ct-1", container.StateStopped); err != nil {
					t.Fatal(err)
				}
			}
			w.pass(time.Second)
		}
		// 1 s, 2 s … 5 min, half of each random: about twenty within the hour.
		if starts < 15 || starts > 35 {
			t.Errorf("%d starts within an hour of crashes", starts)
		}
		all, err := w.agent.Containers(t.Context())
		if err != nil || all[0].Broken != "" {
			t.Errorf("crashes do not break: %+v, %v", all, err)
		}
	})
}

func TestInterruptedStepsAreMadeAgain(t *testing.T) {
	in(t, func(c *agent.Config) { c.Drain = time.Second }, func(t *testing.T, w *world) {
		w.coord.order(actionID(1), creation(1, false))
		w.pass(time.Second)
		w.lxc.SetFault(func(op containertest.Op, _ string) (bool, error) {
			if op == containertest.OpStart {
				return false, container.ErrBusy
			}
			return true, nil
		})
		w.coord.order(actionID(2), on(protocol.KindStart, 1))
		w.pass(100 * time.Millisecond)
		w.expect(actionID(2), "start RUNNING", "fail FAILED error")
		w.lxc.SetFault(nil)
		w.pass(time.Minute)
		if got := w.state(1); got != container.StateRunning {
			t.Errorf("what a user wants is tried again: %v", got)
		}
	})
}

// slow is a runtime that takes its time to list.
type slow struct{ *containertest.Fake }

func (s slow) List(ctx context.Context) ([]container.Info, error) {
	select {
	case <-time.After(200 * time.Millisecond):
	case <-ctx.Done():
	}
	return s.Fake.List(ctx)
}

// TestFirstHeartbeatKnowsTheContainers: what a host tells when it comes back is
// what it has seen, not that it has not looked yet.
func TestFirstHeartbeatKnowsTheContainers(t *testing.T) {
	lazy := func(c *agent.Config) { c.Runtimes[0] = slow{c.Runtimes[0].(*containertest.Fake)} }
	in(t, lazy, func(t *testing.T, w *world) {
		w.coord.order(actionID(1), creation(1, false))
		w.pass(10 * time.Second)
		w.coord.see(func() { w.coord.beats = nil })
		w.restart()
		w.pass(time.Second)
		w.coord.see(func() {
			if len(w.coord.beats) == 0 {
				t.Fatal("no heartbeat came")
			}
			for _, b := range w.coord.beats {
				if len(b.Containers) != 1 || b.Containers[0].State != "stopped" {
					t.Errorf("a heartbeat tells %+v", b.Containers)
				}
			}
		})
	})
}

// TestStateIsKnownWhileACommandRuns: a command in a container that outlives the agent
// does not hide from the next one what the container is.
func TestStateIsKnownWhileACommandRuns(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		w.coord.order(actionID(1), creation(1, true))
		w.pass(10 * time.Second)
		exec := on(protocol.KindExec, 1)
		exec.Args = protocol.Command("sleep", "1h")
		w.coord.order(actionID(2), exec)
		w.pass(5 * time.Second)
		w.expect(actionID(2), "start RUNNING")
		w.restart()
		w.pass(5 * time.Second)
		all := must(w.agent.Containers(t.Context()))
		if len(all) != 1 || all[0].State != "running" {
			t.Errorf("after the restart the host has %+v", all)
		}
		w.pass(time.Hour)
	})
}
