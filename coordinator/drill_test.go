package coordinator_test

import (
	"errors"
	"testing"

	"github.com/hostler-io/hostler/coordinator/actions"
	"github.com/hostler-io/hostler/coordinator/coordtest"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/protocol"
)

// TestDrillIsForAdmins: whoever may run commands may not cut a host off.
func TestDrillIsForAdmins(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		spec := []byte(`{"kind":"` + string(protocol.KindHostDrill) + `","fault":"partition","for_ms":10000}`)
		room := f.Coordinator().Actions()
		for _, role := range []core.TokenRole{core.RoleOperator, core.RoleApprover} {
			by := core.Actor{Name: "bob", Role: role}
			if _, err := room.Propose(t.Context(), by, actions.Request{Host: h.ID, Spec: spec}); !errors.Is(err, core.ErrRole) {
				t.Errorf("%s may ask for a drill: %v", role, err)
			}
			if _, err := room.Plan(t.Context(), by, actions.Request{Host: h.ID, Spec: spec}); !errors.Is(err, core.ErrRole) {
				t.Errorf("%s may plan a drill: %v", role, err)
			}
		}
		if _, err := room.Propose(t.Context(), f.Admin(), actions.Request{Host: h.ID, Spec: spec}); err != nil {
			t.Errorf("an admin may not: %v", err)
		}
		order(t, h)
	})
}
