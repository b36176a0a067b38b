package agent_test

import (
	"testing"
	"time"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/contract"
)

// TestSchedule: the host makes snapshots by itself, at once and then as often as it is
// asked, with what stays of them; restarts of the agent and clocks that jump change
// nothing about that. What people have made is not touched.
func TestSchedule(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		names := func() (all []string) {
			shots, err := w.lxc.Snapshots(t.Context(), "ct-1")
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range shots {
				all = append(all, s.Name)
			}
			return all
		}
		set := func(n byte, s contract.Schedule) {
			w.coord.order(actionID(n), protocol.Spec{Kind: protocol.KindSet, Target: ctid(1), Args: &protocol.SetArgs{Change: contract.Change{Schedules: contract.Schedules{Snapshot: &s}}}})
			w.pass(2 * time.Second)
		}
		w.coord.order(actionID(1), creation(1, false))
		w.coord.order(actionID(2), snapshotOf(1, "mine", false))
		w.pass(time.Second)
		set(3, contract.Schedule{EveryMS: 6 * 3600 * 1000, KeepDaily: 2})
		if got := names(); len(got) != 2 || got[0] != "mine" {
			t.Fatalf("at once there are %q", got)
		}
		w.pass(7 * time.Hour)
		if got := names(); len(got) < 2 {
			t.Errorf("after 7 hours there are %q", got)
		}
		w.restart()
		for range 3 {
			w.pass(24 * time.Hour)
		}
		got := names()
		if len(got) != 3 || got[0] != "mine" {
			t.Errorf("after 3 days and a restart there are %q, want the newest of two days beside what is mine", got)
		}
		set(4, contract.Schedule{Off: true})
		w.pass(24 * time.Hour)
		if after := names(); len(after) != len(got) || after[len(after)-1] != got[len(got)-1] {
			t.Errorf("switched off, there are %q", after)
		}
	})
}

// TestScheduleThatPauses: a snapshot that freezes its container, and whatever else is done
// to the container while something is due of it, leave noted that it was asked for.
func TestScheduleThatPauses(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		count := func() int {
			shots, err := w.lxc.Snapshots(t.Context(), "ct-1")
			if err != nil {
				t.Fatal(err)
			}
			return len(shots)
		}
		w.coord.order(actionID(1), creation(1, true))
		w.pass(time.Second)
		s := contract.Schedule{EveryMS: 6 * 3600 * 1000, Pause: true}
		w.coord.order(actionID(2), protocol.Spec{Kind: protocol.KindSet, Target: ctid(1), Args: &protocol.SetArgs{Change: contract.Change{Schedules: contract.Schedules{Snapshot: &s}}}})
		w.pass(5 * time.Hour)
		if got := count(); got != 1 {
			t.Errorf("within 5 hours it made %d snapshots, want 1 in 6 hours", got)
		}
		w.restart()
		w.pass(2 * time.Hour)
		if got := count(); got != 2 {
			t.Errorf("within 7 hours and over a restart it made %d snapshots, want 2", got)
		}
		if got := w.state(1); got != container.StateRunning {
			t.Errorf("it is %s after that", got)
		}
	})
}
