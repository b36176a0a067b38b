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

// NewProblem returns a problem with the status and the title of its code. A
// code that is none is [api.CodeInternal]. Hints are for the caller, who knows
// where the reader can look.
func NewProblem(code, detail string) *api.Problem {
	p := &api.Problem{Type: "about:blank", Code: code, Detail: detail}
	switch code {
	case api.CodeInvalid:
		p.Status = http.StatusBadRequest
	case api.CodeUnauthentic:
		p.Status = http.StatusUnauthorized
	case api.CodeDenied:
		p.Status = http.StatusForbidden
	case api.CodeNotFound:
		p.Status = http.StatusNotFound
	case api.CodeMethod:
		p.Status = http.StatusMethodNotAllowed
	case api.CodeConflict, api.CodeExists:
		p.Status = http.StatusConflict
	case api.CodeGone:
		p.Status = http.StatusGone
	case api.CodeTooLarge:
		p.Status = http.StatusRequestEntityTooLarge
	case api.CodeRange:
		p.Status = http.StatusRequestedRangeNotSatisfiable
	case api.CodeRateLimit:
		p.Status = http.StatusTooManyRequests
	case api.CodeRecovery, api.CodeUnavailable:
		p.Status = http.StatusServiceUnavailable
	case api.CodeTimeout:
		p.Status = http.StatusGatewayTimeout
	default:
		p.Code, p.Status = api.CodeInternal, http.StatusInternalServerError
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
