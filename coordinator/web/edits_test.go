package web_test

import (
	"bytes"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/coordinator/actions"
	"github.com/hostler-io/hostler/coordinator/coordtest"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/protocol"
)

// edited is something that people edit, and how.
type edited struct {
	role         core.TokenRole // that may edit it
	path         string
	first, other any    // what is put there
	meanwhile    func() // changes what is shown of it, and not what people set
	removed      bool   // it can be removed
}

// check checks that it changes only for requesters who have read it as it is.
func (e edited) check(t *testing.T, s *site) {
	t.Helper()
	send := func(method, tag string, body any) reply {
		t.Helper()
		req := s.request(e.role, method, e.path, body)
		req.Header.Set("If-Match", tag)
		return s.do(req)
	}
	read := func(known string) reply {
		t.Helper()
		req := s.request(core.RoleViewer, http.MethodGet, e.path, nil)
		req.Header.Set("If-None-Match", known)
		return s.do(req)
	}
	audit := func() []byte { return s.call(core.RoleViewer, http.MethodGet, "/v1/audit?limit=50", nil).body }

	made := "" // without a tag, if it is not there by itself
	if !e.removed {
		made = "*"
	}
	if r := send(http.MethodPut, made, e.first); r.StatusCode != http.StatusOK || r.Header.Get("ETag") == "" {
		t.Fatalf("with the tag %q: status %d, ETag %q: %s", made, r.StatusCode, r.Header.Get("ETag"), r.body)
	}
	stale := read("").Header.Get("ETag")
	if r := read(stale); r.StatusCode != http.StatusNotModified {
		t.Errorf("read again: status %d", r.StatusCode)
	}
	right := send(http.MethodPut, stale, e.other).Header.Get("ETag")
	if r := read(stale); r.StatusCode != http.StatusOK || r.Header.Get("ETag") != right || right == stale {
		t.Fatalf("after a change with the right tag: status %d, ETag %q, then %q, was %q", r.StatusCode, right, r.Header.Get("ETag"), stale)
	}

	before, written := read("").body, audit()
	for name, c := range map[string]struct{ tag, code string }{
		"that is missing":   {"", api.CodeUnread},
		"stale":             {stale, api.CodeChanged},
		"of something else": {`"0123456789abcdef"`, api.CodeChanged},
		"of words":          {`"the newest"`, api.CodeChanged},
		"without quotes":    {right[1 : len(right)-1], api.CodeInvalid},
		"weak":              {"W/" + right, api.CodeInvalid},
		"empty":             {`""`, api.CodeInvalid},
		"without a setting": {`"-0123456789abcdef"`, api.CodeInvalid},
	} {
		refused := []reply{send(http.MethodPut, c.tag, e.first)}
		if e.removed {
			refused = append(refused, send(http.MethodDelete, c.tag, nil))
		}
		for _, r := range refused {
			want := map[string]int{api.CodeChanged: http.StatusPreconditionFailed, api.CodeUnread: http.StatusPreconditionRequired, api.CodeInvalid: http.StatusBadRequest}[c.code]
			if p := wantProblem(t, r, c.code); p.Status != want {
				t.Errorf("a tag %s: status %d, want %d", name, p.Status, want)
			}
		}
		if r := read(""); !bytes.Equal(r.body, before) || r.Header.Get("ETag") != right || !bytes.Equal(audit(), written) {
			t.Errorf("a tag %s was refused, and it is %s now, was %s", name, r.body, before)
		}
	}

	e.meanwhile()
	if r := read(right); r.StatusCode != http.StatusOK || bytes.Equal(r.body, before) {
		t.Errorf("what is shown has changed: status %d, %s, was %s", r.StatusCode, r.body, before)
	}
	for _, c := range []struct {
		tag    string
		status int
	}{{right, http.StatusOK}, {right, http.StatusPreconditionFailed}, {"*", http.StatusOK}} {
		if r := send(http.MethodPut, c.tag, e.first); r.StatusCode != c.status {
			t.Errorf("with the tag %s: status %d, want %d: %s", c.tag, r.StatusCode, c.status, r.body)
		}
	}
	if !e.removed {
		return
	}
	last := read("").Header.Get("ETag")
	if r := send(http.MethodDelete, last, nil); r.StatusCode != http.StatusNoContent {
		t.Errorf("remove as it was read: status %d: %s", r.StatusCode, r.body)
	}
	wantProblem(t, send(http.MethodPut, last, e.first), api.CodeChanged)
	wantProblem(t, send(http.MethodDelete, last, nil), api.CodeChanged)
	wantProblem(t, send(http.MethodDelete, "*", nil), api.CodeNotFound)
	wantProblem(t, read(""), api.CodeNotFound)
}

// TestWishesAsTheyWereRead: of two who say where a container may be, the second is told.
func TestWishesAsTheyWereRead(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		s.host.Auto(coordtest.Succeed(""))
		if _, err := s.f.Coordinator().Actions().Propose(t.Context(), s.f.Admin(), actions.Request{
			Host: "edge-07", Spec: coordtest.Spec(protocol.Spec{Kind: protocol.KindCreate, Target: protocol.CTID(protocol.NewActionID(1, [10]byte{9: 77})), Name: "db", Args: &protocol.CreateArgs{Template: "busybox", Class: "unique", Data: "none"}}),
		}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		s.f.Coordinator().Workloads().Tick(t.Context())
		edited{
			role: core.RoleOperator, path: "/v1/placement/db",
			first: api.Wishes{Prefer: []string{"site=lab:50"}}, other: api.Wishes{Prefer: []string{"site=lab:60"}, Priority: 3},
			meanwhile: func() { s.f.AddHost("edge-06") },
		}.check(t, s)
	})
}

// TestFenceDevicesAsTheyWereRead: of two who set a fence device, the second is told.
func TestFenceDevicesAsTheyWereRead(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		device := func(delay string) api.NewFenceDevice {
			return api.NewFenceDevice{Agent: "fence_blind", Delay: delay, Hosts: []api.NewFenceTarget{{Host: "edge-07"}}}
		}
		edited{
			role: core.RoleAdmin, path: "/v1/fence-devices/bmc", first: device("5s"), other: device("6s"), removed: true,
			meanwhile: func() {
				wait(time.Minute)
				as[api.FenceDevice](t, s.call(core.RoleOperator, http.MethodPost, "/v1/fence-devices/bmc/test", nil), http.StatusOK)
			},
		}.check(t, s)
	})
}

// TestAutoRulesAsTheyWereRead: of two who set a rule that approves hosts, the second is told.
func TestAutoRulesAsTheyWereRead(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		rule := func(count int) api.NewAutoRule {
			return api.NewAutoRule{Selector: "site=lab", Subnets: []string{"198.51.100.0/24"}, Count: count, TTL: "1h"}
		}
		edited{
			role: core.RoleAdmin, path: "/v1/auto-approve-rules/lab", first: rule(2), other: rule(3), removed: true,
			meanwhile: func() {
				invite := as[api.Invite](t, s.call(core.RoleApprover, http.MethodPost, "/v1/invites", api.NewInvite{TTL: "1h", Labels: []string{"site=lab"}}), http.StatusCreated)
				_, ask := joinOverHTTP(t, s, invite.Code)
				ask()
			},
		}.check(t, s)
	})
}
