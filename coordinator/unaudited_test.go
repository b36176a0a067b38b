package coordinator_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/hostler-io/hostler/coordinator/actions"
	"github.com/hostler-io/hostler/coordinator/coordtest"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/coordinator/storetest"
	"github.com/hostler-io/hostler/protocol"
)

// unaudited is a store whose audit log takes no record while it is down.
type unaudited struct {
	core.Store
	down atomic.Bool
}

var errAuditDown = errors.New("the audit log is down")

func (s *unaudited) Update(ctx context.Context, fn func(core.Tx) error) error {
	return s.Store.Update(ctx, func(tx core.Tx) error {
		if s.down.Load() {
			tx.Audit = downLog{tx.Audit}
		}
		return fn(tx)
	})
}

type downLog struct{ core.AuditLog }

func (downLog) Append([]byte) error { return errAuditDown }

// TestNothingBeginsUnrecorded: while the audit log takes no record, no action is taken
// or cancelled, and no order leaves.
func TestNothingBeginsUnrecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &unaudited{Store: storetest.NewMem(storetest.Faults{})}
		f := coordtest.NewOn(t, store)
		h := f.AddHost("edge-07")
		before := propose(t, f, h)
		store.down.Store(true)
		request := actions.Request{Host: h.ID, Spec: coordtest.RunSpec("true")}
		if _, err := f.Coordinator().Actions().Propose(t.Context(), f.Admin(), request); !errors.Is(err, errAuditDown) {
			t.Errorf("an action: %v", err)
		}
		if _, err := f.Coordinator().Actions().Cancel(t.Context(), f.Admin(), before.ID); !errors.Is(err, errAuditDown) {
			t.Errorf("a cancel: %v", err)
		}
		h.Connect()
		if o := order(t, h); o.Item.Action != before.ID { // it was recorded when it was taken
			t.Errorf("the order is of %s", o.Item.Action)
		}
		noOrder(t, h)
		want(t, f, before.ID, protocol.StatePendingSchedule, "")
		store.down.Store(false)
		if after := propose(t, f, h); order(t, h).Item.Action != after.ID {
			t.Error("the next order is another")
		}
		all, err := f.Coordinator().Actions().List(t.Context(), core.ActionFilter{})
		if err != nil || len(all) != 2 {
			t.Errorf("%d actions are known, %v, want those that were recorded", len(all), err)
		}
	})
}
