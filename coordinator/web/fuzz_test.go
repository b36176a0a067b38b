package web_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/coordinator/core"
)

// bodies are the operations that read a body, with one that each takes.
func bodies() []struct{ path, example string } {
	return []struct{ path, example string }{
		{"/v1/actions", `{"host":"edge-07","spec":"eyJraW5kIjoiaG9zdC5waW5nIn0="}`},
		{"/v1/invites", `{"ttl":"1h","labels":{"site":"lab"}}`},
		{"/v1/enrolments/edge-08/approve", `{"words":"abandon ability able about"}`},
		{"/v1/enrolments/edge-08/deny", `{"reason":"not ours"}`},
		{"/v1/tokens", `{"person":"ann","role":"viewer","ttl":"8h"}`},
		{"/v1/viewers", `{"name":"wall"}`},
		{"/v1/hosts/edge-07/revoke", `{"reason":"stolen"}`},
		{"/v1/hosts/edge-07/readmit", `{}`},
		{"/enrol/v1/begin", `{"proto":1}`},
		{"/enrol/v1/offer", `{"offer":"e30="}`},
		{"/enrol/v1/state", `{"session":"00"}`},
		{"/v1/batches", `{"hosts":["edge-07"],"spec":"eyJraW5kIjoiaG9zdC5waW5nIn0="}`},
	}
}

// FuzzBodies sends any body to every operation that reads one. Whatever comes
// is taken or refused with a problem, and is never a fault of ours.
func FuzzBodies(f *testing.F) {
	for i, b := range bodies() {
		for _, seed := range []string{b.example, `{}`, `null`, `[]`, ``, `"x"`, `{"` + b.example, b.example + b.example} {
			f.Add(uint8(i), []byte(seed))
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, body []byte) {
		op := bodies()[int(which)%len(bodies())]
		onSite(t, func(t *testing.T, s *site) {
			r := s.call(core.RoleAdmin, http.MethodPost, op.path, string(body))
			switch {
			case r.StatusCode >= http.StatusInternalServerError:
				t.Errorf("%s %q: status %d: %s", op.path, body, r.StatusCode, r.body)
			case r.StatusCode < http.StatusMultipleChoices:
				if len(r.body) > 0 && !json.Valid(r.body) {
					t.Errorf("%s %q: answered %q", op.path, body, r.body)
				}
			case r.Header.Get("Content-Type") != api.ContentProblem:
				t.Errorf("%s %q: status %d is no problem: %s", op.path, body, r.StatusCode, r.body)
			}
		})
	})
}
