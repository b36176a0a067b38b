package agent_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler-io/hostler/agent"
	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/contract"
	"github.com/hostler-io/hostler/protocol/data"
	"github.com/hostler-io/hostler/protocol/limit"
	"github.com/hostler-io/hostler/protocol/setting"
)

// TestArrival: a container that comes from another host is kept as it was asked for, with
// its id; asking once more starts the container that is there. The host refuses a backup of
// another container, and a backup without the files of the volumes.
func TestArrival(t *testing.T) {
	net, s := &wires{}, &shelf{owned: make(map[string]int)}
	in(t, func(c *agent.Config) {
		c.Network, c.Limiter, c.Volumes = net, &kernel{limits: make(map[int]limit.Limits)}, s
		c.Backups = &archive{of: container.CTID(ctid(2).String()), volumes: map[string]container.Layer{"data": {}}, kept: setting.New{Template: "registry.example/web:1", Labels: []string{"app=web"}, Expose: []string{"22:22/tcp"}}}
	}, func(t *testing.T, w *world) {
		comes := func(n byte, volume string) protocol.Spec {
			spec := creation(n, true)
			spec.Kind, spec.Args = protocol.KindRestore, &protocol.RestoreArgs{Restore: data.Restore{
				BackupName: data.BackupName{Backup: "b"}, Start: true,
				Arrival: data.Arrival{KeepIdentity: true, Hostname: "www", Volumes: []string{volume + ":/srv"}, Expose: []string{"8080:80/tcp"}, StartOrder: 7},
			}}
			return spec
		}
		w.coord.order(actionID(1), comes(3, "other"))
		w.pass(time.Minute)
		w.coord.order(actionID(2), comes(2, "other"))
		w.pass(time.Minute)
		for n, want := range map[byte]string{1: "identity", 2: "volume other"} {
			if why := w.why(actionID(n)); !strings.Contains(why, want) {
				t.Errorf("action %d ended with %q, want %q", n, why, want)
			}
		}
		w.coord.order(actionID(3), comes(2, "data"))
		w.pass(time.Minute)
		w.expect(actionID(3), "start RUNNING", "succeed DONE ok")
		d, _, err := agent.Remembered(t.Context(), w.agent, "ct-2")
		if err != nil || d.Settings.Hostname != "www" || d.Settings.Start.Order != 7 || d.Template != "registry.example/web:1" || !slices.Equal(d.Labels, []string{"app=web"}) || s.owned["data"] != 1 {
			t.Errorf("it is kept as %+v, %v", d, err)
		}
		if got, want := net.lead(), []string{"8080:80/tcp 10.9.0.2"}; !slices.Equal(got, want) {
			t.Errorf("these lead: %q, want %q", got, want)
		}
		if err := w.lxc.Enter("ct-2", container.StateStopped); err != nil {
			t.Fatal(err)
		}
		w.coord.order(actionID(4), comes(2, "data"))
		w.pass(time.Minute)
		w.expect(actionID(4), "start RUNNING", "succeed DONE ok")
		if w.state(2) != container.StateRunning {
			t.Errorf("it is %s", w.state(2))
		}
	})
}

// TestDeparture: a container that is stopped to be moved is noted as that, with whether it
// was to run, however often it is asked for; a start or a plain stop of a person ends that.
func TestDeparture(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		w.coord.order(actionID(1), creation(1, true))
		w.pass(time.Minute)
		leave := on(protocol.KindStop, 1)
		leave.Args = &protocol.StopArgs{Departure: data.Departure{MovingTo: "edge-02"}}
		moving := func() *queue.Moving {
			d, _, err := agent.Remembered(t.Context(), w.agent, "ct-1")
			if err != nil {
				t.Fatal(err)
			}
			return d.Settings.Moving
		}
		n := byte(1)
		ask := func(s protocol.Spec) {
			n++
			w.coord.order(actionID(n), s)
			w.pass(time.Minute)
			w.expect(actionID(n), "start RUNNING", "succeed DONE ok")
		}
		for range 2 {
			ask(leave)
			if m := moving(); m == nil || *m != (queue.Moving{To: "edge-02", Ran: true}) || w.state(1) != container.StateStopped {
				t.Errorf("it is noted as %+v, and is %s", m, w.state(1))
			}
		}
		w.restart()
		w.pass(time.Minute)
		if w.state(1) != container.StateStopped || moving() == nil {
			t.Errorf("after a restart of the agent it is %s", w.state(1))
		}
		ask(on(protocol.KindStart, 1))
		if m := moving(); m != nil || w.state(1) != container.StateRunning {
			t.Errorf("it was started, and is noted as %+v", m)
		}
		ask(on(protocol.KindStop, 1))
		ask(leave)
		if m := moving(); m == nil || m.Ran {
			t.Errorf("it was stopped before, and is noted as %+v", m)
		}
	})
}

// TestLeaving: a container that has left is removed while its move is under way. One that was
// started since, or goes elsewhere, is left as it is.
func TestLeaving(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		w.coord.order(actionID(1), creation(1, true))
		w.pass(time.Minute)
		to := func(kind protocol.Kind, host string) protocol.Spec {
			s := on(kind, 1)
			s.Args = &protocol.StopArgs{Departure: data.Departure{MovingTo: host}}
			return s
		}
		n := byte(1)
		ask := func(s protocol.Spec, why string) {
			t.Helper()
			n++
			w.coord.order(actionID(n), s)
			w.pass(time.Minute)
			if got := w.why(actionID(n)); (got == "") != (why == "") || !strings.Contains(got, why) {
				t.Errorf("%s ended with %q, want %q", s.Kind, got, why)
			}
		}
		ask(snapshotOf(1, "before", false), "")
		ask(to(protocol.KindStop, "edge-02"), "")
		// What is on its way stays as it is: what is changed now would be lost.
		for _, s := range []protocol.Spec{
			snapshotOf(1, "late", false), rollbackOf(1, "before", false),
			{Kind: protocol.KindSnapshotRemove, Target: ctid(1), Args: &protocol.SnapshotRemoveArgs{SnapshotName: data.SnapshotName{Snapshot: "before"}}},
			{Kind: protocol.KindSet, Target: ctid(1), Args: &protocol.SetArgs{Change: contract.Change{Offline: "stop-after=2h"}}},
			{Kind: protocol.KindConfig, Target: ctid(1), Args: &protocol.ConfigArgs{Set: []string{"label.tier=back"}}},
			{Kind: protocol.KindRename, Target: ctid(1), Args: &protocol.RenameArgs{NewName: "late"}},
			{Kind: protocol.KindContainerUpgrade, Target: ctid(1), Args: &protocol.ContainerUpgradeArgs{Upgrade: setting.Upgrade{Image: "busybox"}}},
		} {
			ask(s, "is being moved to edge-02")
		}
		ask(on(protocol.KindStart, 1), "") // a person ends the move
		ask(snapshotOf(1, "late", false), "")
		ask(to(protocol.KindDestroy, "edge-02"), "is not being moved to edge-02")
		if w.state(1) != container.StateRunning {
			t.Errorf("a container that a person has started is %s", w.state(1))
		}
		ask(to(protocol.KindStop, "edge-03"), "")
		ask(to(protocol.KindDestroy, "edge-02"), "is not being moved to edge-02")
		ask(to(protocol.KindDestroy, "edge-03"), "")
		if _, _, err := agent.Remembered(t.Context(), w.agent, "ct-1"); err == nil {
			t.Error("a container that has left is there")
		}
	})
}

// why is how an action has failed.
func (w *world) why(id protocol.ActionID) (why string) {
	w.coord.see(func() {
		for _, r := range w.coord.reports {
			if r.Action == id && r.State == protocol.StateFailed {
				why = r.Detail
			}
		}
	})
	return why
}
