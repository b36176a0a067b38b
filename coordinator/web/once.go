package web

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/protocol"
)

// onceHeader carries a key that a client makes up for a request, so that the request
// takes effect once however often it is sent.
const onceHeader = "Idempotency-Key"

// mayChange reports whether requests of a method may change something.
func mayChange(method string) bool {
	return method == http.MethodPost || method == http.MethodPut || method == http.MethodDelete
}

// onceParam describes the header.
func onceParam() *huma.Param {
	return &huma.Param{
		Name: onceHeader, In: "header", Schema: &huma.Schema{Type: huma.TypeString},
		Description: "1 to 128 visible characters that no other request of this token has had within a day: the same request with the same key takes effect once. " +
			"Asking again shows the action as it stands now; what is shown once is not shown again, which is answered with 409.",
		Example: "7f8d2c1e-deploy-42",
	}
}

// seedKey finds the id that a request with a key makes.
type seedKey struct{}

// newActionID returns the id of an action that a request makes: the same one for the
// same key.
func (h *handlers) newActionID(ctx context.Context) protocol.ActionID {
	seed, _ := ctx.Value(seedKey{}).(protocol.ActionID)
	if seed.IsZero() {
		seed = h.c.Actions().NewActionID()
	}
	return seed
}

// showsOnce reports whether a route makes something that is shown once.
func showsOnce(pattern string) bool {
	switch pattern {
	case "POST /v1/tokens", "POST /v1/viewers", "POST /v1/invites", "POST /v1/hosts/{host}/replace":
		return true
	}
	return false
}

// serveOnce serves a request that may have been sent before.
func (h *handlers) serveOnce(w http.ResponseWriter, r *http.Request, pattern, key string, next http.Handler) {
	if len(key) > 128 || strings.IndexFunc(key, func(c rune) bool { return c <= ' ' || c > '~' }) >= 0 {
		writeProblem(w, newProblem(api.CodeInvalid, onceHeader+": want 1 to 128 visible characters of ASCII"))
		return
	}
	body, err := io.ReadAll(r.Body)
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		writeProblem(w, newProblem(api.CodeTooLarge, fmt.Sprintf("the body is larger than %d bytes", tooLarge.Limit)))
		return
	}
	if err != nil {
		writeProblem(w, newProblem(api.CodeInvalid, "the body broke off"))
		return
	}
	ctx := r.Context()
	request := protocol.Sum(fmt.Appendf(nil, "%s %s\n%s", r.Method, r.URL.Path, body))
	seed, again, err := h.c.Access().Once(ctx, actor(ctx), key, request, h.c.Actions().NewActionID())
	if err == nil && again && showsOnce(pattern) {
		p := newProblem(api.CodeConflict, "this request was made before with the same "+onceHeader+", and what it makes is shown once")
		p.Hint = "list what it makes, revoke or end it, and ask with another key"
		err = p
	}
	if err != nil {
		writeProblem(w, h.asProblemOf(ctx, err))
		return
	}
	r = r.WithContext(context.WithValue(ctx, seedKey{}, seed))
	r.Body = io.NopCloser(bytes.NewReader(body))
	sent := &statusWriter{ResponseWriter: w}
	next.ServeHTTP(sent, r)
	if status := cmp.Or(sent.status, http.StatusOK); !again && status >= 400 && status < 500 {
		if err := h.c.Access().Unasked(context.WithoutCancel(ctx), actor(ctx), key); err != nil {
			h.log.ErrorContext(ctx, "a key of a refused request is kept", "err", err)
		}
	}
}

// statusWriter notes the status of an answer.
type statusWriter struct {
	http.ResponseWriter
	status int
}

// Unwrap lets a [http.ResponseController] reach the connection.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader implements [http.ResponseWriter].
func (w *statusWriter) WriteHeader(status int) {
	w.status = cmp.Or(w.status, status)
	w.ResponseWriter.WriteHeader(status)
}
