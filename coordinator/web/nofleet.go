package web

import (
	"net/http"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/internal/webapi"
)

// NoFleet returns the handler of a coordinator that has no fleet yet. The process is
// up, and can answer nothing else than what it waits for, and how to go on: why
// returns both.
func NoFleet(why func() (detail, hint string)) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { plain(w, http.StatusOK, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		detail, hint := why()
		plain(w, http.StatusServiceUnavailable, detail+"\n"+hint)
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		detail, hint := why()
		p := webapi.NewProblem(api.CodeUnavailable, detail)
		p.Hint = hint
		webapi.WriteProblem(w, p)
	})
	return mux
}
