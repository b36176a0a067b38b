package web_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/coordinator/coordtest"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/protocol"
)

func TestApprovalsOverHTTP(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		const approver = core.RoleApprover
		ann, bob := s.f.Trust.AddPerson("ann", "ann"), s.f.Trust.AddPerson("bob", "bob")
		a, b := s.waiting(1), s.waiting(2)
		targets := []protocol.Target{{Host: a.Host, Action: a.ID}, {Host: b.Host, Action: b.ID}}
		named := []api.Target{{Host: "edge-12", Action: a.ID.String()}, {Host: "edge-12", Action: b.ID.String()}}
		both := func(k *coordtest.Key) api.NewApproval {
			return api.NewApproval{Approval: s.f.Approval(k, a.Spec, time.Hour, nil, targets...), Targets: named}
		}
		path := "/v1/actions/" + a.ID.String()

		// Without the person's key a token only looks.
		wantProblem(t, s.call(core.RoleAdmin, http.MethodPost, "/v1/approvals", both(coordtest.NewKey("mallory"))), api.CodeDenied)
		wantProblem(t, s.call(approver, http.MethodPost, path+"/approve", api.NewApproval{Approval: []byte("yes")}), api.CodeInvalid)
		if got := as[api.Action](t, s.call(core.RoleViewer, http.MethodGet, path, nil), http.StatusOK); got.Shown != "waits for approval" || len(got.Needs) != 1 || got.Needs[0].Missing != 2 {
			t.Errorf("it waits as %+v", got)
		}

		given := as[[]api.Approved](t, s.call(approver, http.MethodPost, "/v1/approvals", both(ann)), http.StatusOK)
		if len(given) != 2 || given[0].State != "PENDING_APPROVE" || given[0].Missing != 1 || given[1].Code != "" {
			t.Errorf("answered %+v", given)
		}
		as[api.Action](t, s.call(approver, http.MethodPost, "/v1/actions/"+b.ID.String()+"/deny", nil), http.StatusOK)
		given = as[[]api.Approved](t, s.call(approver, http.MethodPost, "/v1/approvals", both(bob)), http.StatusOK)
		if given[0].State != "PENDING_SCHEDULE" || given[0].Missing != 0 || given[1].Code != api.CodeConflict || given[1].State != "CANCELLED" || given[1].Detail == "" {
			t.Errorf("answered %+v", given)
		}
		got := as[api.Action](t, s.call(core.RoleViewer, http.MethodGet, path, nil), http.StatusOK)
		if len(got.Approvals) != 2 || got.Approvals[0].Person != "ann" || !got.Approvals[0].Counts || got.Approvals[1].Key != bob.Key().String() {
			t.Errorf("approved as %+v", got.Approvals)
		}
		wantProblem(t, s.call(approver, http.MethodPost, path+"/deny", api.Reason{Reason: "late"}), api.CodeConflict)

		// One that names other actions is not for this one.
		c := s.waiting(3)
		wantProblem(t, s.call(approver, http.MethodPost, "/v1/actions/"+c.ID.String()+"/approve", both(ann)), api.CodeInvalid)
		wantProblem(t, s.call(approver, http.MethodPost, "/v1/approvals", api.NewApproval{Approval: []byte("x"), Targets: []api.Target{{Host: "Edge 12", Action: "1"}}}), api.CodeInvalid)
	})
}

func TestDryRun(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		got := as[api.Action](t, s.call(core.RoleOperator, http.MethodPost, "/v1/actions?dry_run=true", run("true")), http.StatusOK)
		if got.State != "PENDING_SCHEDULE" || got.Needs != nil || got.Digest != protocol.Sum(coordtest.RunSpec("true")).String() {
			t.Errorf("it would be %+v", got)
		}
		if all := as[[]api.Action](t, s.call(core.RoleViewer, http.MethodGet, "/v1/actions", nil), http.StatusOK); len(all) != 0 {
			t.Errorf("it was done: %+v", all)
		}
		wantProblem(t, s.call(core.RoleViewer, http.MethodPost, "/v1/actions?dry_run=true", run("true")), api.CodeRole)
	})
}

func TestKeys(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		ann := s.f.Trust.AddPerson("ann", "ann")
		all := as[[]api.Key](t, s.call(core.RoleViewer, http.MethodGet, "/v1/keys", nil), http.StatusOK)
		found := false
		for _, k := range all {
			found = found || k.Key == ann.Key().String() && k.Person == "ann" && k.Roles[0] == "person"
		}
		if !found || len(all) != 2 {
			t.Errorf("keys: %+v", all)
		}
	})
}
