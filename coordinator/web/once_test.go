package web_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/coordinator/core"
)

// TestOnce: a request with a key takes effect once, however often it comes.
func TestOnce(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		ask := func(role core.TokenRole, path, key string, body any) reply {
			req := s.request(role, http.MethodPost, path, body)
			req.Header.Set("Idempotency-Key", key)
			return s.do(req)
		}
		count := func() int { return len(names(t, s, "/v1/actions", map[string][]string{}, "id")) }

		a := as[api.Action](t, ask(core.RoleOperator, "/v1/actions", "one", run("sleep", "1")), http.StatusAccepted)
		again := as[api.Action](t, ask(core.RoleOperator, "/v1/actions?wait=1s", "one", run("sleep", "1")), http.StatusAccepted)
		if a.ID != again.ID || count() != 1 {
			t.Errorf("%s and %s are %d actions", a.ID, again.ID, count())
		}
		wantProblem(t, ask(core.RoleOperator, "/v1/actions", "one", run("sleep", "2")), api.CodeConflict)
		other := as[api.Action](t, ask(core.RoleAdmin, "/v1/actions", "one", run("sleep", "1")), http.StatusAccepted)
		if other.ID == a.ID {
			t.Error("the key of one token is that of another")
		}
		create := api.NewAction{Host: "edge-07", Kind: "container.create", Name: "shop", Args: []byte(`{"template":"debian"}`)}
		first := as[api.Action](t, ask(core.RoleOperator, "/v1/actions", "shop", create), http.StatusAccepted)
		if second := as[api.Action](t, ask(core.RoleOperator, "/v1/actions", "shop", create), http.StatusAccepted); first.Target != second.Target || first.ID != second.ID {
			t.Errorf("two containers: %s and %s", first.Target, second.Target)
		}
		batch := api.NewBatch{Hosts: []string{"edge-07"}, Kind: "host.ping"}
		b := as[api.Batch](t, ask(core.RoleOperator, "/v1/batches", "all", batch), http.StatusAccepted)
		if same := as[api.Batch](t, ask(core.RoleOperator, "/v1/batches", "all", batch), http.StatusAccepted); same.ID != b.ID || same.Actions[0].ID != b.Actions[0].ID {
			t.Errorf("%+v is not %+v", same, b)
		}

		token := api.NewToken{Name: "bob", Role: "viewer"}
		wantProblem(t, ask(core.RoleViewer, "/v1/tokens", "bob", token), api.CodeRole)
		as[api.Token](t, ask(core.RoleAdmin, "/v1/tokens", "bob", token), http.StatusCreated)
		wantProblem(t, ask(core.RoleAdmin, "/v1/tokens", "bob", token), api.CodeConflict)
		if got := names(t, s, "/v1/tokens", map[string][]string{}, "name"); got[len(got)-1] != "bob" || len(got) != len(s.tokens)+1 {
			t.Errorf("the tokens are %s", got)
		}

		// What was refused may come in another form.
		wantProblem(t, ask(core.RoleOperator, "/v1/actions", "two", api.NewAction{Host: "nobody", Kind: "host.ping"}), api.CodeUnknownHost)
		as[api.Action](t, ask(core.RoleOperator, "/v1/actions", "two", api.NewAction{Host: "edge-07", Kind: "host.ping"}), http.StatusAccepted)
		wantProblem(t, ask(core.RoleOperator, "/v1/actions", "a key with spaces", run("true")), api.CodeInvalid)

		wait(25 * time.Hour)
		synctest.Wait()
		late := as[api.Action](t, ask(core.RoleOperator, "/v1/actions", "one", run("sleep", "3")), http.StatusAccepted)
		if late.ID == a.ID {
			t.Error("a key counts for longer than a day")
		}
	})
}

// TestTooManyRequests: who asks too often is told when to ask again.
func TestTooManyRequests(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		limits := as[api.Capabilities](t, s.call(core.RoleViewer, http.MethodGet, "/v1/capabilities", nil), http.StatusOK).Limits
		for range limits.Burst - 1 {
			if r := s.call(core.RoleViewer, http.MethodGet, "/v1/capabilities", nil); r.StatusCode != http.StatusOK {
				t.Fatalf("status %d: %s", r.StatusCode, r.body)
			}
		}
		r := s.call(core.RoleViewer, http.MethodGet, "/v1/capabilities", nil)
		wantProblem(t, r, api.CodeRateLimit)
		after, err := time.ParseDuration(r.Header.Get("Retry-After") + "s")
		if err != nil || after <= 0 {
			t.Fatalf("Retry-After is %q", r.Header.Get("Retry-After"))
		}
		as[api.Capabilities](t, s.call(core.RoleOperator, http.MethodGet, "/v1/capabilities", nil), http.StatusOK)
		wait(after)
		as[api.Capabilities](t, s.call(core.RoleViewer, http.MethodGet, "/v1/capabilities", nil), http.StatusOK)
	})
}

// TestLabelsAsTheyWereRead: of two who edit the same labels, the second is told.
func TestLabelsAsTheyWereRead(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		const path = "/v1/hosts/edge-07/labels"
		put := func(tag string, labels ...string) reply {
			req := s.request(core.RoleApprover, http.MethodPut, path, api.Labels{Labels: labels})
			req.Header.Set("If-Match", tag)
			return s.do(req)
		}
		tag := s.call(core.RoleViewer, http.MethodGet, path, nil).Header.Get("ETag")
		r := put(tag, "tier=db", "site=lab")
		if got := as[api.Labels](t, r, http.StatusOK).Labels; len(got) != 2 || got[0] != "site=lab" || r.Header.Get("ETag") == tag {
			t.Errorf("%v with %s", got, r.Header.Get("ETag"))
		}
		if p := wantProblem(t, put(tag, "site=home"), api.CodeChanged); p.Status != http.StatusPreconditionFailed {
			t.Errorf("status %d", p.Status)
		}
		req := s.request(core.RoleApprover, http.MethodPost, "/v1/hosts/edge-07/label", api.Relabel{Set: []string{"a=b"}})
		req.Header.Set("If-Match", tag)
		wantProblem(t, s.do(req), api.CodeChanged)
		as[api.Labels](t, put("*", "site=home"), http.StatusOK)
		wantProblem(t, put("site", "site=home"), api.CodeInvalid)
		wantProblem(t, put("*", "no label"), api.CodeInvalid)
		if p := wantProblem(t, put("", "site=lab"), api.CodeUnread); p.Status != http.StatusPreconditionRequired {
			t.Errorf("without a tag: status %d", p.Status)
		}
		as[api.Host](t, s.call(core.RoleApprover, http.MethodPost, "/v1/hosts/edge-07/label", api.Relabel{Set: []string{"a=b"}}), http.StatusOK) // the others stay
		as[api.Labels](t, put("*"), http.StatusOK)
	})
}
