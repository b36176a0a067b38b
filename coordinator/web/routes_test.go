package web

import (
	"log/slog"
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
