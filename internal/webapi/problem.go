// Package webapi is what the coordinator's HTTP API and the agent's socket have
// in common below their routes, so that one client works with both: how a
// failure is answered, what every request passes, and how records are shown in
// the types of package api.
//
// It knows neither of the two engines, and no library for HTTP but the standard
// one.
package webapi

import (
	"encoding/json"
	"net/http"

	"github.com/hostler-io/hostler/api"
)

// NewProblem returns a problem with the status and the title of its code. An
// unknown code becomes [api.CodeInternal]. The caller adds the hint, for it
// knows where the reader can look.
func NewProblem(code, detail string) *api.Problem {
	p := &api.Problem{Type: "about:blank", Code: api.CodeInternal, Status: http.StatusInternalServerError, Detail: detail}
	for _, c := range api.Codes() {
		if c.Name == code {
			p.Code, p.Status = c.Name, c.Status
		}
	}
	p.Title = http.StatusText(p.Status)
	return p
}

// WriteProblem answers with a problem.
func WriteProblem(w http.ResponseWriter, p *api.Problem) {
	w.Header().Set("Content-Type", api.ContentProblem)
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // a client that is gone needs no answer
}
