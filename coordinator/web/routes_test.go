package web

import (
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/danielgtaylor/huma/v2"

	"github.com/hostler-io/hostler/coordinator/coordtest"
	"github.com/hostler-io/hostler/protocol/enrol"
)

// recorder notes the patterns of routes.
type recorder struct {
	*http.ServeMux
	patterns []string
}

func (r *recorder) HandleFunc(pattern string, h func(http.ResponseWriter, *http.Request)) {
	r.patterns = append(r.patterns, pattern)
	r.ServeMux.HandleFunc(pattern, h)
}

// TestFeaturesCoverTheRoutes: what is served and can be asked of hosts is a feature, or was
// there from the first release on, and no feature is of what is not there.
func TestFeaturesCoverTheRoutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &handlers{c: coordtest.New(t).Coordinator(), version: "0.1.0", log: slog.New(slog.DiscardHandler)}
		if err := h.routes(http.NewServeMux()); err != nil {
			t.Fatal(err)
		}
		firstPaths := []string{"/v1/hosts", "/v1/containers", "/v1/actions", "/v1/status", "/v1/kinds", "/v1/capabilities", "/v1/openapi.json", "/healthz", "/readyz", "/metrics"}
		firstKinds := []string{
			"host.run", "host.ping", "host.check", "container.exec", "container.create", "container.clone", "container.start", "container.stop", "container.restart", "container.freeze",
			"container.unfreeze", "container.rename", "container.destroy", "container.reset", "container.adopt", "container.inspect",
		}
		paths := slices.Sorted(maps.Keys(h.doc.OpenAPI().Paths))
		kinds := kindWords().words
		for _, f := range featureTable() {
			for _, part := range []struct{ begins, of []string }{{f.paths, paths}, {f.kinds, kinds}} {
				for _, begin := range part.begins {
					if !slices.ContainsFunc(part.of, func(s string) bool { return strings.HasPrefix(s, begin) }) {
						t.Errorf("feature %s stands for %s, which is not there", f.word, begin)
					}
				}
			}
			firstPaths, firstKinds = append(firstPaths, f.paths...), append(firstKinds, f.kinds...)
		}
		beside := func(s string) func(string) bool { // a new resource below one of these is a feature of its own
			return func(begin string) bool {
				rest, ok := strings.CutPrefix(s, begin)
				return ok && (rest == "" || strings.HasSuffix(begin, ".") || !strings.HasPrefix(begin, "/v1/hosts") || strings.Count(rest, "/") <= 2)
			}
		}
		for _, s := range slices.Concat(paths, kinds) {
			if !slices.ContainsFunc(slices.Concat(firstPaths, firstKinds), beside(s)) {
				t.Errorf("%s is of no feature", s)
			}
		}
	})
}

// TestRoutesAreInTheDocument: what is served is described, and what is described is
// served, but for what agents say before they are members, which is of doc/protocol.md.
func TestRoutesAreInTheDocument(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &handlers{c: coordtest.New(t).Coordinator(), version: "0.1.0", log: slog.New(slog.DiscardHandler)}
		mux := &recorder{ServeMux: http.NewServeMux()}
		if err := h.routes(mux); err != nil {
			t.Fatal(err)
		}
		var described []string
		for path, item := range h.doc.OpenAPI().Paths {
			for method, op := range map[string]*huma.Operation{"GET": item.Get, "POST": item.Post, "PUT": item.Put, "PATCH": item.Patch, "DELETE": item.Delete} {
				if op != nil {
					described = append(described, method+" "+path)
				}
			}
		}
		served := slices.DeleteFunc(mux.patterns, func(p string) bool { return strings.Contains(p, " "+enrol.Path) })
		slices.Sort(served)
		slices.Sort(described)
		if !slices.Equal(served, described) {
			t.Errorf("served are\n%s\nand described\n%s", strings.Join(served, "\n"), strings.Join(described, "\n"))
		}
	})
}
