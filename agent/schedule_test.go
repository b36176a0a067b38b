package agent_test

import (
	"testing"
	"time"

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
