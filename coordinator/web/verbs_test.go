package web_test

import (
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/coordinator/coordtest"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/protocol"
)

// TestVerbsInEveryState asks every verb of an action in every state that it may be
// in: what makes no sense is a conflict that changes nothing, and cancelling what
// has ended is answered with how it ended.
func TestVerbsInEveryState(t *testing.T) {
	bring := map[protocol.State]func(h *coordtest.Host, o coordtest.Order){
		protocol.StateNew: func(h *coordtest.Host, o coordtest.Order) {
			r := o.Started(h)
			r.Event, r.State, r.Attempt = protocol.EventAccept, protocol.StateNew, 0
			h.Report(r)
		},
		protocol.StateRunning: func(h *coordtest.Host, o coordtest.Order) { h.Report(o.Started(h)) },
		protocol.StateDone:    coordtest.Succeed(""),
		protocol.StateFailed: func(h *coordtest.Host, o coordtest.Order) {
			h.Report(o.Started(h))
			r := o.Done()
			r.Event, r.State, r.Reason, r.Exit = protocol.EventExit, protocol.StateFailed, protocol.ReasonExit, &protocol.Exit{Code: 1}
			h.Report(r)
		},
		protocol.StateCancelled: func(h *coordtest.Host, o coordtest.Order) { h.Report(o.Cancelled()) },
		protocol.StateLost: func(h *coordtest.Host, o coordtest.Order) {
			h.Report(protocol.Report{Action: o.Item.Action, Event: protocol.EventTell, HaveOrder: 9})
		},
		protocol.StatePendingSchedule: func(*coordtest.Host, coordtest.Order) {},
	}
	for _, state := range protocol.States() {
		act := bring[state]
		if state == protocol.StatePendingApprove {
			continue // its verbs have their own tests, with a policy that asks for approval
		}
		if act == nil {
			t.Fatalf("nobody knows how to bring an action to %s", state)
		}
		onSite(t, func(t *testing.T, s *site) {
			s.host.Auto(act)
			a := as[api.Action](t, s.call(core.RoleOperator, http.MethodPost, "/v1/actions", run("true")), http.StatusAccepted)
			synctest.Wait()
			path := "/v1/actions/" + a.ID
			now := func() api.Action {
				return as[api.Action](t, s.call(core.RoleViewer, http.MethodGet, path, nil), http.StatusOK)
			}
			before := now()
			if before.State != string(state) {
				t.Fatalf("it is %s, want %s", before.State, state)
			}
			if (before.Waits == nil) != state.Final() {
				t.Errorf("%s: it waits for %+v", state, before.Waits)
			}
			for verb, body := range map[string]any{
				"/approve": api.NewApproval{Approval: []byte("{}")}, "/deny": api.Reason{Reason: "no"},
			} {
				r := s.call(core.RoleAdmin, http.MethodPost, path+verb, body)
				if r.StatusCode != http.StatusConflict && r.StatusCode != http.StatusBadRequest {
					t.Errorf("%s of %s: status %d: %s", verb, state, r.StatusCode, r.body)
				}
				if got := now(); got.State != before.State || got.Reason != before.Reason {
					t.Errorf("%s of %s made it %s %s", verb, state, got.State, got.Reason)
				}
			}
			if r := s.call(core.RoleViewer, http.MethodGet, path+"/output", nil); r.StatusCode != http.StatusOK {
				t.Errorf("output of %s: status %d: %s", state, r.StatusCode, r.body)
			}
			want := http.StatusAccepted
			if state.Final() {
				want = http.StatusOK
			}
			got := as[api.Action](t, s.call(core.RoleOperator, http.MethodPost, path+"/cancel", nil), want)
			if got.State != before.State || got.Cancelling == state.Final() {
				t.Errorf("cancel of %s made it %s, cancelling %v", state, got.State, got.Cancelling)
			}
			if again := as[api.Action](t, s.call(core.RoleOperator, http.MethodPost, path+"/cancel", nil), want); again.State != got.State {
				t.Errorf("a second cancel of %s made it %s", state, again.State)
			}
			synctest.Wait()
			if n := len(s.host.Controls()); !state.Final() && n != 1 || state.Final() && n > 0 {
				t.Errorf("cancel of %s sent %d controls", state, n)
			}
			ask := run("true")
			ask.ID = a.ID
			as[api.Action](t, s.call(core.RoleOperator, http.MethodPost, "/v1/actions", ask), want)
			ask = run("false")
			ask.ID = a.ID
			wantProblem(t, s.call(core.RoleOperator, http.MethodPost, "/v1/actions", ask), api.CodeConflict)
		})
	}
}
