package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/coordinator/wording"
	"github.com/hostler-io/hostler/internal/brief"
	"github.com/hostler-io/hostler/internal/webapi"
)

// problem is an [api.Problem] that huma writes as it is.
type problem struct{ *api.Problem }

// GetStatus implements [huma.StatusError].
func (p problem) GetStatus() int { return p.Status }

// ContentType implements [huma.ContentTypeFilter].
func (problem) ContentType(string) string { return api.ContentProblem }

// newProblem returns a problem with the status, title and hint of its code.
func newProblem(code, detail string) problem {
	p := problem{webapi.NewProblem(code, detail)}
	switch p.Code {
	case api.CodeUnauthentic:
		p.Hint = "send a token that is valid (Authorization: Bearer hst_…); an admin makes one: hostler token create"
	case api.CodeRateLimit:
		p.Hint = "wait some seconds and try again"
	case api.CodeRecovery:
		p.Hint = "stop the coordinator, put the newest copy of its state directory in place, and start it again"
	case api.CodeUnavailable:
		p.Hint = "try again in a minute"
	case api.CodeInternal:
		p.Hint = "the coordinator's log tells more"
	}
	return p
}

// codeOf returns the code for a status that the HTTP layer chose by itself.
func codeOf(status int) string {
	switch status {
	case http.StatusServiceUnavailable:
		return api.CodeUnavailable
	case http.StatusRequestTimeout:
		return api.CodeTimeout
	}
	if i := slices.IndexFunc(api.Codes(), func(c api.Code) bool { return c.Status == status }); i >= 0 {
		return api.Codes()[i].Name // the first of several is the general one
	}
	if status >= http.StatusInternalServerError {
		return api.CodeInternal
	}
	return api.CodeInvalid
}

// internalDetail is all that a client learns of a failure inside.
const internalDetail = "the coordinator failed to answer this request"

// asProblemOf returns the problem that an error is, or turns an error of the
// Coordinator into one. Errors that are none of its sentinels are a failure inside:
// they are logged and not shown.
func (h *handlers) asProblemOf(ctx context.Context, err error) problem {
	if p, ok := errors.AsType[problem](err); ok {
		return p
	}
	for _, known := range []struct {
		err  error
		code string
	}{
		{core.ErrRole, api.CodeRole}, // the special cases first
		{core.ErrChanged, api.CodeChanged},
		{core.ErrUnread, api.CodeUnread},
		{core.ErrUnknownHost, api.CodeUnknownHost},
		{core.ErrBadReference, api.CodeBadReference},
		{core.ErrInvalid, api.CodeInvalid},
		{core.ErrNotFound, api.CodeNotFound},
		{core.ErrExists, api.CodeExists},
		{core.ErrConflict, api.CodeConflict},
		{core.ErrAmbiguous, api.CodeAmbiguous},
		{core.ErrDenied, api.CodeDenied},
		{core.ErrGone, api.CodeGone},
		{core.ErrRecovery, api.CodeRecovery},
		{core.ErrUnavailable, api.CodeUnavailable},
	} {
		if errors.Is(err, known.err) {
			return newProblem(known.code, err.Error())
		}
	}
	if ctx.Err() != nil {
		return newProblem(api.CodeTimeout, "the request ended before it was answered")
	}
	h.log.ErrorContext(ctx, "request failed", "err", err)
	return newProblem(api.CodeInternal, internalDetail)
}

// asProblem turns the HTTP layer's own errors into problems. They are about
// the form of the request, so they may be shown; the values that were sent are
// not repeated.
func asProblem(_ huma.Context, _ string, v any) (any, error) {
	e, ok := v.(*huma.ErrorModel)
	if !ok {
		return v, nil
	}
	p := newProblem(codeOf(e.Status), wording.Of(e.Detail))
	if p.Code == api.CodeInternal {
		p.Detail = internalDetail
		return p, nil
	}
	var details, sent []string
	for _, d := range e.Errors {
		if d.Location == "" {
			details = append(details, wording.Of(d.Message))
		} else {
			where := wording.Where(d.Location)
			details = append(details, where+": "+wording.Of(d.Message))
			sent = append(sent, where) // it has the names of members
		}
	}
	if len(details) > 0 {
		p.Detail = brief.Inputs(p.Detail+": "+strings.Join(details, "; "), sent...)
	}
	return p, nil
}

// writeProblem answers with a problem where huma does not.
func writeProblem(w http.ResponseWriter, p problem) { webapi.WriteProblem(w, p.Problem) }

// invalid tells that a text of a request cannot be read; nil stays nil.
func invalid(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", core.ErrInvalid, err)
}
