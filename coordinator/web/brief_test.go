package web_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/internal/brief"
)

// TestErrorsAreBrief: an answer repeats at most 200 characters of what was sent,
// wherever it was.
func TestErrorsAreBrief(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		for _, long := range []string{strings.Repeat("x", 3000), strings.Repeat("many words ", 300), strings.Repeat(`"a" `, 800)} {
			in, text := url.QueryEscape(long), strings.ReplaceAll(long, `"`, `\"`)
			for _, ask := range []struct{ method, path, body string }{
				{http.MethodGet, "/v1/hosts/" + url.PathEscape(long), ""},
				{http.MethodGet, "/v1/nothing/" + url.PathEscape(long), ""},
				{http.MethodGet, "/v1/hosts?label=" + in, ""}, {http.MethodGet, "/v1/hosts?state=" + in, ""}, {http.MethodGet, "/v1/hosts?limit=" + in, ""},
				{http.MethodGet, "/v1/actions?after=" + in, ""}, {http.MethodGet, "/v1/actions?since=" + in, ""}, {http.MethodGet, "/v1/audit?verb=" + in + "&limit=x", ""},
				{http.MethodPost, "/v1/tokens", `{"name":"` + text + `","role":"viewer"}`}, {http.MethodPost, "/v1/tokens", `{"name":"bob","role":"` + text + `"}`},
				{http.MethodPost, "/v1/tokens", `{"name":"bob","role":"viewer","ttl":"` + text + `"}`}, {http.MethodPost, "/v1/tokens", `{"name":"bob","` + text + `":1}`},
				{http.MethodPost, "/v1/actions", `{"host":"` + text + `","kind":"host.ping"}`}, {http.MethodPost, "/v1/actions", `{"host":"edge-07","kind":"` + text + `"}`},
				{http.MethodPost, "/v1/actions", `{"host":"edge-07","kind":"host.run","args":{"argv":["true"],"cwd":"` + text + `"}}`},
				{http.MethodPost, "/v1/actions", `{"host":"edge-07","kind":"host.run","args":{"argv":["true"],"env":["` + text + `"]}}`},
				{http.MethodPost, "/v1/actions", `{"host":"edge-07","kind":"host.run","args":{"argv":["true"],"` + text + `":1}}`},
				{http.MethodPost, "/v1/viewers", `{"name":"` + text + `"}`}, {http.MethodPost, "/v1/viewers", text},
			} {
				var body any
				if ask.body != "" {
					body = ask.body
				}
				r := s.call(core.RoleAdmin, ask.method, ask.path, body)
				if r.StatusCode < http.StatusBadRequest { // an unknown verb is only never found
					t.Errorf("%s %.60s was taken: %d", ask.method, ask.path, r.StatusCode)
				}
				if len(r.body) > 1000 || strings.Contains(string(r.body), long[:brief.Most+1]) {
					t.Errorf("%s %.60s %.60s: %d bytes: %s", ask.method, ask.path, ask.body, len(r.body), r.body)
				}
			}
		}
	})
}
