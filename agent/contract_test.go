package agent_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/hostler-io/hostler/agent"
	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/contract"
)

// until makes a container that runs with an offline contract.
func (w *world) until(n byte, offline string) {
	w.t.Helper()
	s := creation(n, true)
	s.Args.(*protocol.CreateArgs).Offline = offline
	w.coord.order(actionID(n), s)
	w.pass(time.Second)
	w.expect(actionID(n), "start RUNNING", "succeed DONE ok")
}

// told is what the agent tells of a container.
func (w *world) told(n byte) agent.Container {
	w.t.Helper()
	all, err := w.agent.Containers(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	for _, c := range all {
		if c.CTID == ctid(n) {
			return c
		}
	}
	return agent.Container{}
}

func (w *world) wants(when string, n byte, want container.State) {
	w.t.Helper()
	if got := w.state(n); got != want {
		w.t.Errorf("%s: container %d is %v, want %v", when, n, got, want)
	}
}

// TestContractIsKept: a container whose host was cut off for too long is stopped, stays
// so whatever happens to the agent and the host, and runs again when the coordinator is
// heard. The one beside it goes on.
func TestContractIsKept(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		w.until(1, "stop-after=10m")
		w.until(2, "keep")
		w.pass(time.Hour)
		w.wants("while connected", 1, container.StateRunning)
		w.line.breaks(true)
		w.pass(9 * time.Minute)
		w.wants("before its time", 1, container.StateRunning)
		w.pass(2 * time.Minute)
		w.wants("after its time", 1, container.StateStopped)
		w.wants("after its time", 2, container.StateRunning)
		if c := w.told(1); c.Intended != "running" || !strings.Contains(c.Waits, "stop-after=10m") || c.Failures != 0 || c.Broken != "" {
			t.Errorf("it tells %+v", c)
		}
		w.restart()
		w.pass(time.Minute)
		w.wants("after a restart of the agent", 1, container.StateStopped)
		w.down()
		if err := w.lxc.Enter("ct-2", container.StateStopped); err != nil {
			t.Fatal(err)
		}
		w.boot, w.begun = "boot-2", time.Now()
		w.up()
		w.pass(time.Minute)
		w.wants("after a reboot", 1, container.StateStopped)
		w.wants("after a reboot", 2, container.StateRunning)
		if err := w.lxc.Enter("ct-1", container.StateRunning); err != nil {
			t.Fatal(err)
		}
		w.pass(5 * time.Minute)
		w.wants("started behind the agent's back", 1, container.StateStopped)
		d, _, err := agent.Remembered(t.Context(), w.agent, "ct-1")
		if err != nil || len(d.Ends) != 2 || d.Ends[0].Cause != queue.CauseContract || d.Ends[1].Cause != queue.CauseContract {
			t.Errorf("it has ended by %+v, %v", d.Ends, err)
		}
		w.line.heal()
		w.pass(30 * time.Second)
		w.wants("when the coordinator is heard", 1, container.StateRunning)
		if c := w.told(1); c.Waits != "" {
			t.Errorf("it tells %+v", c)
		}
		w.line.breaks(true)
		w.pass(9 * time.Minute)
		w.wants("cut off again", 1, container.StateRunning)
		w.pass(2 * time.Minute)
		w.wants("cut off again, for too long", 1, container.StateStopped)
	})
}

// TestContractSurvivesCrashes: neither an agent that is restarted again and again nor a
// host that reboots gives a container more time than a minute for each reboot.
func TestContractSurvivesCrashes(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		w.until(1, "stop-after=30m")
		w.line.breaks(true)
		for range 25 {
			w.pass(time.Minute)
			w.restart()
		}
		w.pass(time.Second)
		w.wants("before its time", 1, container.StateRunning)
		w.down()
		w.boot, w.begun = "boot-2", time.Now()
		if err := w.lxc.Enter("ct-1", container.StateStopped); err != nil {
			t.Fatal(err)
		}
		w.up()
		w.pass(3 * time.Minute)
		w.wants("after a reboot, with time left", 1, container.StateRunning)
		w.pass(3 * time.Minute)
		w.wants("after its time", 1, container.StateStopped)
	})
}

// TestContractRefusesStarts: nothing starts a container whose contract is used up, and
// that is no failure of the container.
func TestContractRefusesStarts(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		w.until(1, "stop-after=1m")
		w.line.breaks(true)
		w.pass(2 * time.Minute)
		w.wants("after its time", 1, container.StateStopped)
		for n, kind := range []protocol.Kind{protocol.KindStart, protocol.KindRestart, protocol.KindReset} {
			id := actionID(byte(10 + n))
			s, err := json.Marshal(on(kind, 1))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := w.agent.Propose(t.Context(), id, s, agent.LocalRoot); err != nil {
				t.Fatal(err)
			}
			w.pass(time.Minute)
			act, err := w.agent.Action(t.Context(), id)
			if err != nil || act.State != protocol.StateFailed || !strings.Contains(act.Detail, "stop-after=1m") {
				t.Errorf("%s: %s %q, %v", kind, act.State, act.Detail, err)
			}
			w.wants(string(kind), 1, container.StateStopped)
		}
		w.line.heal()
		w.pass(time.Minute)
		w.wants("when the coordinator is heard", 1, container.StateRunning)
		if c := w.told(1); c.Failures != 0 || c.Broken != "" {
			t.Errorf("it tells %+v", c)
		}
	})
}

// TestContractIsSet: it takes effect at once, on a host that is cut off too.
func TestContractIsSet(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		w.until(1, "")
		change := func(offline string) protocol.Spec {
			s := on(protocol.KindSet, 1)
			s.Args = &protocol.SetArgs{Change: contract.Change{Offline: offline, Class: "cloned"}}
			return s
		}
		w.coord.order(actionID(2), change("stop-after=120m"))
		w.pass(time.Second)
		w.expect(actionID(2), "start RUNNING", "succeed DONE ok")
		if c := w.told(1); c.Offline != "stop-after=2h" || c.Class != "cloned" {
			t.Errorf("it tells %+v", c)
		}
		w.line.breaks(true)
		w.pass(3 * time.Hour)
		w.wants("after its time", 1, container.StateStopped)
		s, err := json.Marshal(change("keep"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.agent.Propose(t.Context(), actionID(3), s, agent.LocalRoot); err != nil {
			t.Fatal(err)
		}
		w.pass(5 * time.Second)
		w.wants("without its contract", 1, container.StateRunning)
	})
}

// TestLossyLineStopsNothing: a line on which messages are lost is no absence.
func TestLossyLineStopsNothing(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		w.until(1, "stop-after=30s")
		for range 100 {
			w.line.breaks(false)
			w.pass(20 * time.Second)
			w.wants("on a line that breaks", 1, container.StateRunning)
		}
	})
}
