package web_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/coordinator/coordtest"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/coordinator/storetest"
	"github.com/hostler-io/hostler/coordinator/web"
	"github.com/hostler-io/hostler/protocol"
)

func TestConfig(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := coordtest.New(t)
		for _, cfg := range []web.Config{{}, {Coordinator: f.Coordinator()}, {Version: "0.1.0"}} {
			if _, err := web.New(cfg); err == nil {
				t.Errorf("New took %+v", cfg)
			}
		}
	})
}

func TestEveryFailureIsAProblem(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		const viewer, operator, admin = core.RoleViewer, core.RoleOperator, core.RoleAdmin
		missing := "/v1/actions/01890a5d-ac96-774b-bcce-b302099a8057"
		for name, c := range map[string]struct {
			role         core.TokenRole
			method, path string
			body         any
			code         string
		}{
			"root":                  {"", "GET", "/", nil, api.CodeNotFound},
			"unknown route":         {viewer, "GET", "/v1/nothing", nil, api.CodeNotFound},
			"unknown route of none": {"", "GET", "/v1/nothing", nil, api.CodeUnauthentic},
			"wrong method":          {viewer, "POST", "/v1/hosts", nil, api.CodeMethod},
			"unknown method":        {viewer, "PURGE", "/v1/hosts", nil, api.CodeMethod},
			"no such host":          {viewer, "GET", "/v1/hosts/nobody", nil, api.CodeUnknownHost},
			"no such action":        {viewer, "GET", missing, nil, api.CodeNotFound},
			"no such output":        {viewer, "GET", missing + "/output", nil, api.CodeNotFound},
			"short prefix":          {viewer, "GET", "/v1/actions/018", nil, api.CodeBadReference},
			"no such token":         {admin, "DELETE", "/v1/tokens/none", nil, api.CodeNotFound},
			"unknown query":         {viewer, "GET", "/v1/hosts?colour=red", nil, api.CodeInvalid},
			"limit too high":        {viewer, "GET", "/v1/hosts?limit=1001", nil, api.CodeInvalid},
			"unknown state":         {viewer, "GET", "/v1/actions?state=HAPPY", nil, api.CodeInvalid},
			"unknown stream":        {viewer, "GET", missing + "/output?stream=stdin", nil, api.CodeInvalid},
			"wait for nonsense":     {operator, "POST", "/v1/actions?wait=soon", run("true"), api.CodeInvalid},
			"wait too long":         {operator, "POST", "/v1/actions?wait=1d", run("true"), api.CodeInvalid},
			"no body":               {operator, "POST", "/v1/actions", nil, api.CodeInvalid},
			"no JSON":               {operator, "POST", "/v1/actions", "host=edge-07", api.CodeInvalid},
			"unknown member":        {operator, "POST", "/v1/actions", `{"host":"edge-07","spec":"e30=","argv":["true"]}`, api.CodeInvalid},
			"member missing":        {operator, "POST", "/v1/actions", `{"host":"edge-07"}`, api.CodeInvalid},
			"spec is no base64":     {operator, "POST", "/v1/actions", `{"host":"edge-07","spec":"!"}`, api.CodeInvalid},
			"spec breaks its rules": {operator, "POST", "/v1/actions", api.NewAction{Host: "edge-07", Spec: []byte(`{"kind":"host.run"}`)}, api.CodeInvalid},
			"action id is none":     {operator, "POST", "/v1/actions", api.NewAction{ID: "7", Host: "edge-07", Spec: coordtest.RunSpec("true")}, api.CodeInvalid},
			"host id is none":       {operator, "POST", "/v1/actions", api.NewAction{Host: "Edge 07", Spec: coordtest.RunSpec("true")}, api.CodeInvalid},
			"host does not exist":   {operator, "POST", "/v1/actions", api.NewAction{Host: "nobody", Spec: coordtest.RunSpec("true")}, api.CodeUnknownHost},
			"batch of nobody":       {operator, "POST", "/v1/batches", api.NewBatch{Spec: coordtest.RunSpec("true")}, api.CodeInvalid},
			"batch id is none":      {operator, "POST", "/v1/batches", api.NewBatch{ID: "7", Hosts: []string{"edge-07"}, Spec: coordtest.RunSpec("true")}, api.CodeInvalid},
			"host named twice":      {operator, "POST", "/v1/batches", api.NewBatch{Hosts: []string{"edge-07", "edge-07"}, Spec: coordtest.RunSpec("true")}, api.CodeInvalid},
			"batch without a spec":  {operator, "POST", "/v1/batches", api.NewBatch{Hosts: []string{"edge-07"}}, api.CodeInvalid},
			"too many hosts":        {operator, "POST", "/v1/batches", api.NewBatch{Hosts: manyHosts(501), Spec: coordtest.RunSpec("true")}, api.CodeInvalid},
			"no such batch":         {viewer, "GET", "/v1/batches/01890a5d-ac96-774b-bcce-b302099a8057", nil, api.CodeNotFound},
			"following no batch":    {viewer, "GET", "/v1/batches/01890a5d-ac96-774b-bcce-b302099a8057/events", nil, api.CodeNotFound},
			"not quarantined":       {admin, "POST", "/v1/hosts/edge-07/readmit", nil, api.CodeConflict},
			"role does not exist":   {admin, "POST", "/v1/tokens", api.NewToken{Name: "x", Role: "king"}, api.CodeInvalid},
			"life is no duration":   {admin, "POST", "/v1/tokens", api.NewToken{Name: "x", Role: "viewer", TTL: "-1h"}, api.CodeInvalid},
			"body too large":        {operator, "POST", "/v1/actions", `{"spec":"` + strings.Repeat("A", 65<<10) + `"}`, api.CodeTooLarge},
			"no such event":         {viewer, "GET", "/v1/events?after=99999", nil, api.CodeGone},
			"event id is no number": {viewer, "GET", "/v1/events?after=x", nil, api.CodeInvalid},
			"enrolment is no JSON":  {"", "POST", "/enrol/v1/begin", "{", api.CodeInvalid},
			"enrolment was lost":    {"", "POST", "/enrol/v1/offer", `{"session":"00112233445566778899aabbccddeeff","offer":"","nonce_a":"","sig":"","proof":""}`, api.CodeGone},
			"enrolment too large":   {"", "POST", "/enrol/v1/begin", strings.Repeat("A", 65<<10), api.CodeTooLarge},
			"enrolment by GET":      {"", "GET", "/enrol/v1/begin", nil, api.CodeMethod},
		} {
			p := wantProblem(t, s.call(c.role, c.method, c.path, c.body), c.code)
			if t.Failed() {
				t.Fatalf("%s: %+v", name, p)
			}
		}
	})
}

func manyHosts(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("edge-%d", i))
	}
	return all
}

// endless is a body that is declared and never comes.
type endless struct{ read chan struct{} }

func (e endless) Read(b []byte) (int, error) {
	select {
	case e.read <- struct{}{}:
	default:
	}
	return len(b), nil
}

func TestDeclaredBodyIsRefusedUnread(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		req := s.request("", http.MethodPost, "/enrol/v1/begin", nil)
		read := make(chan struct{}, 1)
		req.Body, req.ContentLength = io.NopCloser(endless{read}), 256<<20
		req.Header.Set("Expect", "100-continue")
		s.client.Transport.(*http.Transport).ExpectContinueTimeout = time.Hour
		wantProblem(t, s.do(req), api.CodeTooLarge)
		if len(read) > 0 {
			t.Error("the server asked for the body")
		}
	})
}

func TestTokens(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		tok := as[api.Token](t, s.call(core.RoleAdmin, http.MethodPost, "/v1/tokens", api.NewToken{Name: "bob", Role: "viewer", TTL: "1h"}), http.StatusCreated)
		ask := func(header string) reply {
			req := s.request("", http.MethodGet, "/v1/hosts", nil)
			req.Header.Set("Authorization", header)
			return s.do(req)
		}
		if r := ask("Bearer " + tok.Secret); r.StatusCode != http.StatusOK {
			t.Errorf("a new token: status %d: %s", r.StatusCode, r.body)
		}
		for _, header := range []string{"", "Bearer", "Bearer ", "Bearer hst_AAAA", "Basic " + tok.Secret, tok.Secret} {
			r := ask(header)
			if p := wantProblem(t, r, api.CodeUnauthentic); p.Hint == "" || r.Header.Get("WWW-Authenticate") == "" {
				t.Errorf("%q: no word about how to authenticate: %+v", header, p)
			}
		}
		wait(time.Hour)
		wantProblem(t, ask("Bearer "+tok.Secret), api.CodeUnauthentic)

		tok = as[api.Token](t, s.call(core.RoleAdmin, http.MethodPost, "/v1/tokens", api.NewToken{Name: "bob", Role: "viewer"}), http.StatusCreated)
		s.call(core.RoleAdmin, http.MethodDelete, "/v1/tokens/"+tok.ID, nil)
		wantProblem(t, ask("Bearer "+tok.Secret), api.CodeUnauthentic)
		for _, listed := range as[[]api.Token](t, s.call(core.RoleAdmin, http.MethodGet, "/v1/tokens", nil), http.StatusOK) {
			if listed.Secret != "" {
				t.Errorf("token %s is listed with its secret", listed.ID)
			}
		}
	})
}

func TestHealth(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		for _, path := range []string{"/healthz", "/readyz"} {
			if r := s.call("", http.MethodGet, path, nil); r.StatusCode != http.StatusOK || string(r.body) != "ok\n" {
				t.Errorf("%s: status %d: %s", path, r.StatusCode, r.body)
			}
		}
	})
}

func TestReadinessTellsOfRecovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// A fleet whose coordinator was restored is made before the site, for
		// the handler belongs to one coordinator.
		f := coordtest.New(t)
		h := f.AddHost("edge-07")
		h.Connect()
		synctest.Wait()
		f.Restart()
		wait(10 * time.Second)
		f.RestartOn(storetest.NewMem(storetest.Faults{}))
		key := coordtest.NewKey("host edge-07")
		f.Put(core.Host{ID: h.ID, State: core.HostApproved, Key: key.Key(), PublicKey: key.Certificate()})
		h.Connect()
		synctest.Wait()
		s := siteOn(t, f, h, web.Config{Version: "0.1.0"})
		if r := s.call("", http.MethodGet, "/readyz", nil); r.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(r.body), "newest copy of its state directory") {
			t.Errorf("/readyz: status %d: %s", r.StatusCode, r.body)
		}
		if r := s.call("", http.MethodGet, "/healthz", nil); r.StatusCode != http.StatusOK {
			t.Errorf("/healthz: status %d", r.StatusCode)
		}
		p := wantProblem(t, s.call(core.RoleOperator, http.MethodPost, "/v1/actions", run("true")), api.CodeRecovery)
		if !strings.Contains(p.Hint, "newest copy") {
			t.Errorf("no way out: %+v", p)
		}
	})
}

// TestFleetMetrics: what hosts told is for those who may read, and can be selected.
func TestFleetMetrics(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		wantProblem(t, s.call("", http.MethodGet, "/metrics/fleet", nil), api.CodeUnauthentic)
		get := func(query string, status int) string {
			t.Helper()
			r := s.call(core.RoleViewer, http.MethodGet, "/metrics/fleet"+query, nil)
			if r.StatusCode != status {
				t.Fatalf("status %d: %s", r.StatusCode, r.body)
			}
			return string(r.body)
		}
		if text := get("", http.StatusOK); !strings.Contains(text, "\nhostler_fleet_host_up{host=\"edge-07\"} 1\n") || !strings.Contains(text, "\nhostler_fleet_hosts_shown 1\n") {
			t.Errorf("%s", text)
		}
		if text := get("?label=site=nowhere", http.StatusOK); !strings.Contains(text, "\nhostler_fleet_hosts_shown 0\n") {
			t.Errorf("%s", text)
		}
		if text := get("?label=nonsense", http.StatusBadRequest); !strings.Contains(text, "label") {
			t.Errorf("%s", text)
		}
	})
}

func TestMetrics(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		wantProblem(t, s.call("", http.MethodGet, "/metrics", nil), api.CodeUnauthentic)
		r := s.call(core.RoleViewer, http.MethodGet, "/metrics", nil)
		if r.StatusCode != http.StatusOK {
			t.Fatalf("status %d: %s", r.StatusCode, r.body)
		}
		lines := []string{
			`hostler_coordinator_hosts{connectivity="online"} 1`, `hostler_coordinator_hosts{connectivity="offline"} 0`,
			`hostler_coordinator_actions_open{state="RUNNING"} 0`, `hostler_coordinator_recovery 0`,
			`hostler_coordinator_build_info{version="0.1.0"} 1`,
		}
		for _, code := range protocol.Codes() {
			lines = append(lines, fmt.Sprintf("hostler_coordinator_messages_refused_total{code=%q} 0", string(code)))
		}
		for _, line := range lines {
			if !strings.Contains(string(r.body), "\n"+line+"\n") {
				t.Errorf("%s is missing", line)
			}
		}
	})
}

func TestEnrolmentOverHTTP(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		if r := s.call("", http.MethodGet, "/enrol/v1/rings", nil); string(r.body) != string(s.f.Trust.Rings(0)) {
			t.Errorf("rings: status %d: %s", r.StatusCode, r.body)
		}
		invite := as[api.Invite](t, s.call(core.RoleAdmin, http.MethodPost, "/v1/invites", api.NewInvite{TTL: "1h", Labels: []string{"site=lab"}}), http.StatusCreated)
		if got := time.Until(invite.ExpiresAt); got <= 59*time.Minute || got > time.Hour {
			t.Errorf("the invite lives %s, want an hour", got)
		}
		words, ask := joinOverHTTP(t, s, invite.Code)
		if a := ask(); a.State != "pending" {
			t.Errorf("state %q before approval", a.State)
		}
		waiting := as[[]api.Enrolment](t, s.call(core.RoleViewer, http.MethodGet, "/v1/enrolments?state=pending", nil), http.StatusOK)
		if len(waiting) != 1 || waiting[0].Host != "edge-20" || waiting[0].Words != words || waiting[0].Hostname != "edge-20.example" || waiting[0].Labels[0] != "site=lab" {
			t.Fatalf("waiting: %+v, want edge-20 with the words %q", waiting, words)
		}
		path := "/v1/enrolments/" + waiting[0].ID + "/approve"
		wantProblem(t, s.call(core.RoleApprover, http.MethodPost, path, api.Decision{Words: "abandon ability able about"}), api.CodeConflict)
		as[api.Enrolment](t, s.call(core.RoleApprover, http.MethodPost, path, api.Decision{Words: words}), http.StatusOK)
		if a := ask(); a.State != "approved" || a.Check() != nil || string(a.Certificate) != "certificate of host edge-20" {
			t.Errorf("the answer after approval: %+v", a)
		}
		h := as[api.Host](t, s.call(core.RoleViewer, http.MethodGet, "/v1/hosts/edge-20", nil), http.StatusOK)
		if h.State != "approved" || h.ApprovedBy != "approver" {
			t.Errorf("host: %+v", h)
		}
	})
}

func TestEnrolmentIsLimitedByAddress(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		refused := func() bool {
			return s.call("", http.MethodGet, "/enrol/v1/rings", nil).StatusCode == http.StatusTooManyRequests
		}
		n := 0
		for !refused() {
			if n++; n > 1000 {
				t.Fatal("nothing was ever refused")
			}
		}
		if n < 50 {
			t.Errorf("refused after %d requests: a site could not be installed in one go", n)
		}
		wantProblem(t, s.call("", http.MethodGet, "/enrol/v1/rings", nil), api.CodeRateLimit)
		wait(5 * time.Second)
		if refused() {
			t.Error("refused after waiting")
		}
	})
}
