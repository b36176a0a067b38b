package web_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/coordinator/web"
)

// TestWrongTokens: many of them at once are answered later and later, and then not at
// all; right ones from the same address are served as ever. A record tells of all.
func TestWrongTokens(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		const asked = 60
		var (
			wg sync.WaitGroup
			mu sync.Mutex
			at = make(map[int][]time.Duration) // by status
		)
		begun := time.Now()
		for i := range asked {
			req := s.request("", http.MethodGet, "/v1/hosts", nil)
			req.Header.Set("Authorization", fmt.Sprintf("Bearer hst_%d", i))
			wg.Go(func() {
				r, err := s.client.Do(req)
				if err != nil {
					t.Error(err)
					return
				}
				defer r.Body.Close()
				mu.Lock()
				defer mu.Unlock()
				at[r.StatusCode] = append(at[r.StatusCode], time.Since(begun))
			})
		}
		synctest.Wait()
		if r := s.call(core.RoleViewer, http.MethodGet, "/v1/hosts", nil); r.StatusCode != http.StatusOK || time.Since(begun) > 0 {
			t.Errorf("a right token: status %d after %s", r.StatusCode, time.Since(begun))
		}
		wg.Wait()
		late, refused := at[http.StatusUnauthorized], at[http.StatusTooManyRequests]
		if len(late) != 30 || late[19] != 0 || late[20] < 400*time.Millisecond || late[29] < 4*time.Second || len(refused) != asked-30 {
			t.Errorf("answers %v", at)
		}
		wait(2 * time.Minute)
		var told []api.AuditRecord
		for _, r := range as[api.AuditPage](t, s.call(core.RoleAdmin, http.MethodGet, "/v1/audit", nil), http.StatusOK).Records {
			if r.Verb == "token.wrong" {
				told = append(told, r)
			}
		}
		if len(told) != 1 || fmt.Sprint(told[0].Detail["count"], told[0].Detail["from"]) != "60 [198.51.100.7]" {
			t.Errorf("recorded %+v", told)
		}
		if m := s.call(core.RoleViewer, http.MethodGet, "/metrics", nil); !strings.Contains(string(m.body), "hostler_coordinator_wrong_tokens_total 60\n") {
			t.Errorf("metrics: %s", m.body)
		}
		wait(time.Hour) // and nothing more
		s.do(func() *http.Request {
			r := s.request("", http.MethodGet, "/v1/hosts", nil)
			r.Header.Set("Authorization", "Bearer x")
			return r
		}())
		wait(61 * time.Second) // the window is short again
		if all := string(s.call(core.RoleAdmin, http.MethodGet, "/v1/audit", nil).body); strings.Count(all, "token.wrong") != 2 {
			t.Errorf("records: %s", all)
		}
	})
}

// TestWrongForms: what is wrong with the form of a request is told without the words of
// the libraries that noticed it.
func TestWrongForms(t *testing.T) {
	library := regexp.MustCompile(`expected |invalid |unexpected|unmarshal|pattern|property|validation|\^|2006|RFC|body\.|query\.|path\.`)
	onSite(t, func(t *testing.T, s *site) {
		for _, c := range []struct{ method, path, body, want string }{
			{"POST", "/v1/tokens", ``, "the body is missing"},
			{"POST", "/v1/tokens", `{`, "the body: the JSON ends too early"},
			{"POST", "/v1/tokens", `{]`, "the body: ']' stands where JSON does not allow it"},
			{"POST", "/v1/tokens", `[]`, "the body: want an object"},
			{"POST", "/v1/tokens", `{"role":"viewer"}`, "the body: name is missing"},
			{"POST", "/v1/tokens", `{"name":"x","role":"king"}`, "member role: want one of viewer, operator"},
			{"POST", "/v1/tokens", `{"name":7,"role":"viewer"}`, "member name: want a text"},
			{"POST", "/v1/tokens", `{"name":"x","role":"viewer","colour":1}`, "member colour: there is no such member"},
			{"POST", "/v1/invites", `{"labels":"x"}`, "member labels: want a list"},
			{"POST", "/v1/invites", `{"labels":[7]}`, "member labels[0]: want a text"},
			{"GET", "/v1/audit?cursor=7", ``, "parameter cursor: want the Hostler-Next-Cursor of an answer"},
			{"GET", "/v1/audit?since=monday", ``, "parameter since: want a time, as in 2026"},
			{"GET", "/v1/audit?limit=many", ``, "parameter limit: want a whole number"},
			{"GET", "/v1/audit?limit=0", ``, "parameter limit: want 1 or more"},
			{"GET", "/v1/audit?limit=1&colour=red", ``, "parameter colour: there is no such parameter"},
			{"GET", "/v1/events?after=x", ``, "parameter after: want the number of an event"},
		} {
			var body any
			if c.body != "" || c.method == "POST" {
				body = c.body
			}
			p := wantProblem(t, s.call(core.RoleAdmin, c.method, c.path, body), api.CodeInvalid)
			if !strings.Contains(p.Detail, c.want) || library.MatchString(p.Detail) {
				t.Errorf("%s %s %s is refused with %q, want %q", c.method, c.path, c.body, p.Detail, c.want)
			}
		}
	})
}

// TestNoise: what strangers cause is counted, and one line a second is logged, however
// long what they sent.
func TestNoise(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		n := web.NewNoise(slog.New(slog.NewTextHandler(&out, nil)))
		for range 300 {
			fmt.Fprintf(n, "http: TLS handshake error from 192.0.2.1:9: %s\n", strings.Repeat("x", 5000))
			fmt.Fprintln(n, "http: response.WriteHeader on hijacked connection")
			<-time.After(10 * time.Millisecond)
		}
		if lines := strings.Count(out.String(), "\n"); n.Handshakes() != 300 || lines != 3 || out.Len() > 3*400 {
			t.Errorf("%d handshakes, %d lines of %d bytes: %s", n.Handshakes(), lines, out.Len(), &out)
		}
	})
}
