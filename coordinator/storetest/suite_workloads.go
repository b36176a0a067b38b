package storetest

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/placement"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/unique"
)

// testWorkloads puts, replaces and removes unique workloads.
func testWorkloads(t *testing.T, s core.Store) {
	of := func(n byte, host protocol.HostID, counter uint64) core.Workload {
		return core.Workload{
			Workload: unique.Workload{CTID: protocol.CTID{6: 0x70, 8: 0x80, 9: n}, Name: "db", Host: host, Phase: unique.Held, Data: unique.DataNone, Move: unique.Move{To: "y", By: "bob", AtMS: 6}, Epoch: protocol.Epoch{Term: protocol.Term{Ring: 1, Counter: 2}, Counter: counter}},
			Spec:     []byte("{}"), Requester: "ann", Failed: map[protocol.HostID]core.Failure{"x": {AtMS: 3, Why: "it does not start"}}, ChangedMS: 7,
			Wants:   placement.Wants{Rules: []placement.Rule{{Labels: map[string]string{"site": "lab"}, Must: true}}, Near: []placement.Near{{Workload: "web", Score: 5}}, Priority: 4, After: []string{"dns"}},
			Holders: []protocol.HostID{"x", host}, DataHost: host, Restored: "made of backup nas:db-1",
			Moved:   core.MoveEnd{Move: unique.Move{To: "x", By: "ann", Reason: "new disks", AtMS: 4}, Why: "it is away", EndMS: 5},
			History: []core.WorkloadStep{{AtMS: 6, Host: "x", Phase: unique.Held}},
		}
	}
	put := func(w ...core.Workload) {
		t.Helper()
		update(t, s, func(tx core.Tx) error {
			for _, x := range w {
				if err := tx.Workloads.Put(x); err != nil {
					return err
				}
			}
			return nil
		})
	}
	want := func(what string, want ...core.Workload) {
		t.Helper()
		var got []core.Workload
		view(t, s, func(tx core.Tx) error { return values(tx.Workloads.List, &got) })
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	want("an empty store")
	put(of(2, "b", 1), of(1, "a", 1))
	want("two", of(1, "a", 1), of(2, "b", 1))
	put(of(1, "c", 2))
	view(t, s, func(tx core.Tx) error {
		if got, err := tx.Workloads.Get(of(1, "", 0).CTID); err != nil || got.Host != "c" {
			t.Errorf("it is %+v, %v", got, err)
		}
		if _, err := tx.Workloads.Get(of(9, "", 0).CTID); !errors.Is(err, core.ErrNotFound) {
			t.Errorf("one that is not there: %v", err)
		}
		return nil
	})
	want("one was replaced", of(1, "c", 2), of(2, "b", 1))
	update(t, s, func(tx core.Tx) error { return tx.Workloads.Remove(of(2, "", 0).CTID) })
	update(t, s, func(tx core.Tx) error { return tx.Workloads.Remove(of(9, "", 0).CTID) })
	want("one was removed", of(1, "c", 2))
}
