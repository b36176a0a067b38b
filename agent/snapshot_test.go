package agent_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/container/containertest"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/data"
)

func snapshotOf(n byte, name string, pause bool) protocol.Spec {
	return protocol.Spec{Kind: protocol.KindSnapshot, Target: ctid(n), Args: &protocol.SnapshotArgs{NewSnapshot: data.NewSnapshot{SnapshotName: data.SnapshotName{Snapshot: name}, Pause: pause}}}
}

func rollbackOf(n byte, name string, restart bool) protocol.Spec {
	return protocol.Spec{Kind: protocol.KindRollback, Target: ctid(n), Args: &protocol.RollbackArgs{Rollback: data.Rollback{SnapshotName: data.SnapshotName{Snapshot: name}, Restart: restart}}}
}

// fate tells how an action has ended.
func (w *world) fate(n byte) string {
	w.t.Helper()
	told := w.coord.told(actionID(n))
	if len(told) == 0 {
		return ""
	}
	return told[len(told)-1]
}

// TestSnapshots: a container is kept as it is, and gets its files back; what runs is not
// touched unless it may be restarted.
func TestSnapshots(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		w.coord.order(actionID(1), creation(1, true))
		w.coord.order(actionID(2), snapshotOf(1, "s1", false))
		w.coord.order(actionID(3), snapshotOf(1, "s1", false))
		w.coord.order(actionID(4), rollbackOf(1, "s1", false))
		w.pass(time.Second)
		if got := []string{w.fate(2), w.fate(3), w.fate(4)}; !slices.Equal(got, []string{"succeed DONE ok", "fail FAILED error", "fail FAILED error"}) {
			t.Errorf("a snapshot, one of the same name, and a rollback of what runs: %q", got)
		}
		w.coord.order(actionID(5), rollbackOf(1, "s1", true))
		w.pass(time.Second)
		if got := w.state(1); w.fate(5) != "succeed DONE ok" || got != container.StateRunning {
			t.Errorf("the rollback: %q, it is %s", w.fate(5), got)
		}
		w.coord.order(actionID(6), on(protocol.KindStop, 1))
		w.coord.order(actionID(7), rollbackOf(1, "s1", true))
		w.pass(time.Second)
		if got := w.state(1); w.fate(7) != "succeed DONE ok" || got != container.StateStopped {
			t.Errorf("the rollback of what is to be stopped: %q, it is %s", w.fate(7), got)
		}
		w.coord.order(actionID(8), protocol.Spec{Kind: protocol.KindSnapshotRemove, Target: ctid(1), Args: &protocol.SnapshotRemoveArgs{SnapshotName: data.SnapshotName{Snapshot: "s1"}}})
		w.pass(time.Second)
		if all, err := w.lxc.Snapshots(t.Context(), "ct-1"); err != nil || len(all) > 0 || w.fate(8) != "succeed DONE ok" {
			t.Errorf("there are %+v, %v", all, err)
		}
	})
}

// TestPausedSnapshot: a container that was paused for a snapshot runs again, whatever
// becomes of the snapshot and of the agent; one that was frozen before stays so.
func TestPausedSnapshot(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		w.coord.order(actionID(1), creation(1, true))
		w.pass(time.Second)
		w.lxc.Hang(containertest.OpSnapshot)
		w.coord.order(actionID(2), snapshotOf(1, "s1", true))
		w.pass(time.Second)
		if got := w.state(1); got != container.StateFrozen {
			t.Errorf("while its snapshot is made it is %s", got)
		}
		w.restart()
		w.lxc.Hang("")
		w.pass(time.Minute)
		if got := w.state(1); got != container.StateRunning || w.fate(2) != "succeed DONE ok" {
			t.Errorf("it is %s, and the snapshot %q", got, w.fate(2))
		}
		w.coord.order(actionID(3), snapshotOf(1, "s1", true)) // the name is taken
		w.pass(time.Second)
		if got := w.state(1); got != container.StateRunning || !strings.HasPrefix(w.fate(3), "fail") {
			t.Errorf("it is %s, and the snapshot %q", got, w.fate(3))
		}
		w.coord.order(actionID(4), on(protocol.KindFreeze, 1))
		w.pass(time.Second)
		w.coord.order(actionID(5), snapshotOf(1, "s2", true))
		w.pass(time.Second)
		if got := w.state(1); got != container.StateFrozen || w.fate(5) != "succeed DONE ok" {
			t.Errorf("it is %s, and the snapshot %q", got, w.fate(5))
		}
	})
}

// TestRollbackOnce: a container that runs on the files of its snapshot is not rolled back
// once more by an attempt that was cut short after that.
func TestRollbackOnce(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		w.coord.order(actionID(1), creation(1, true))
		w.coord.order(actionID(2), snapshotOf(1, "s1", false))
		w.pass(time.Second)
		w.lxc.Hang(containertest.OpStart)
		w.coord.order(actionID(3), rollbackOf(1, "s1", true))
		w.pass(time.Second)
		w.restart()
		w.lxc.Hang("")
		w.pass(time.Minute)
		if got := w.lxc.Rollbacks("ct-1"); len(got) != 1 || w.fate(3) != "succeed DONE ok" || w.state(1) != container.StateRunning {
			t.Errorf("rolled back %q, %q, it is %s", got, w.fate(3), w.state(1))
		}
	})
}
