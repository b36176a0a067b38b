package coordinator_test

import (
	"testing"
	"testing/synctest"

	"github.com/hostler-io/hostler/coordinator/actions"
	"github.com/hostler-io/hostler/coordinator/coordtest"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/coordinator/sqlstore"
	"github.com/hostler-io/hostler/protocol"
)

// TestStatementsOfAnAction counts what one short command asks of the database, from its
// request to its result, the transactions themselves included: statements are most of
// what the coordinator does for it.
func TestStatementsOfAnAction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t).(*sqlstore.Store)
		f := coordtest.NewOn(t, store)
		h := f.AddHost("edge-07")
		h.Auto(func(h *coordtest.Host, o coordtest.Order) { h.Report(o.Done()) })
		h.Connect()
		synctest.Wait()
		secret := f.Token(core.RoleOperator)
		const actionsMeasured = 10
		var asked uint64
		for i := range 3 + actionsMeasured {
			before := store.Statements()
			by, err := f.Authenticate(secret)
			if err != nil {
				t.Fatal(err)
			}
			a, err := f.Coordinator().Actions().Propose(t.Context(), by, actions.Request{Host: h.ID, Spec: coordtest.RunSpec("true")})
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if i >= 3 { // what is read once is known by then
				asked += store.Statements() - before
			}
			if a, err = f.Coordinator().Actions().Get(t.Context(), a.ID); err != nil || a.State != protocol.StateDone {
				t.Fatalf("it is %s, %v", a.State, err)
			}
		}
		if each := float64(asked) / actionsMeasured; each > 17 {
			t.Errorf("%.1f statements for each action, want 17 at most", each)
		}
	})
}
