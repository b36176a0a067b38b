package web_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/coordinator/core"
)

// TestUnchanged: who has the newest answer gets it once.
func TestUnchanged(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		const path = "/v1/hosts/edge-07/labels"
		ask := func(path string, tags ...string) reply {
			req := s.request(core.RoleApprover, http.MethodGet, path, nil)
			for _, tag := range tags {
				req.Header.Add("If-None-Match", tag)
			}
			return s.do(req)
		}
		for _, path := range []string{path, "/v1/hosts", "/v1/audit", "/v1/capabilities"} {
			first := ask(path)
			tag := first.Header.Get("ETag")
			if first.StatusCode != http.StatusOK || len(tag) < 10 || len(first.body) == 0 {
				t.Fatalf("%s: status %d, ETag %q", path, first.StatusCode, tag)
			}
			for _, tags := range [][]string{{tag}, {"W/" + tag}, {`"other"`, tag}, {`"other", ` + tag}, {"*"}} {
				if r := ask(path, tags...); r.StatusCode != http.StatusNotModified || len(r.body) > 0 || r.Header.Get("ETag") != tag {
					t.Errorf("%s with %q: status %d, ETag %q, %d bytes", path, tags, r.StatusCode, r.Header.Get("ETag"), len(r.body))
				}
			}
			if r := ask(path, `"other"`, tag[1:]); r.StatusCode != http.StatusOK || string(r.body) != string(first.body) {
				t.Errorf("%s with another tag: status %d", path, r.StatusCode)
			}
		}
		tag := ask(path).Header.Get("ETag")
		req := s.request(core.RoleApprover, http.MethodPut, path, map[string][]string{"labels": {"site=new"}})
		req.Header.Set("If-Match", tag)
		as[api.Labels](t, s.do(req), http.StatusOK)
		if r := ask(path, tag); r.StatusCode != http.StatusOK || !strings.Contains(string(r.body), "site=new") {
			t.Errorf("after a change: status %d: %s", r.StatusCode, r.body)
		}
		if r := ask("/v1/hosts/nobody", "*"); r.StatusCode != http.StatusNotFound || r.Header.Get("ETag") != "" {
			t.Errorf("of nobody: status %d, ETag %q", r.StatusCode, r.Header.Get("ETag"))
		}
	})
}
