package webapi

import (
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"runtime/debug"

	"github.com/hostler-io/hostler/api"
)

// Guard returns a handler that outlives a panic of next. The panic is logged,
// and failed is what the client learns of it; once an answer has begun, only
// breaking the connection tells the client that it is not whole. No answer is
// kept by caches or taken for something else than it says it is.
func Guard(log *slog.Logger, failed *api.Problem, next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w := &answer{ResponseWriter: rw}
		defer func() {
			if v := recover(); v != nil {
				rescue(log, failed, w, r, v)
			}
		}()
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		next(w, r)
	})
}

// rescue answers for a handler that panicked with v.
func rescue(log *slog.Logger, failed *api.Problem, w *answer, r *http.Request, v any) {
	if v == http.ErrAbortHandler || unwritable(r, v) {
		panic(http.ErrAbortHandler)
	}
	log.ErrorContext(r.Context(), "handler panicked", "method", r.Method, "path", r.URL.Path, "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
	if w.begun {
		panic(http.ErrAbortHandler)
	}
	WriteProblem(w, failed)
}

// unwritable reports whether a panic is but a library's way to say that the
// client went before it was answered: a panic with the error of a write.
func unwritable(r *http.Request, v any) bool {
	_, failure := v.(error)
	_, defect := v.(runtime.Error)
	return failure && !defect && r.Context().Err() != nil
}

// answer remembers whether an answer has begun.
type answer struct {
	http.ResponseWriter
	begun bool
}

// Unwrap lets a [http.ResponseController] reach the connection.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// WriteHeader implements [http.ResponseWriter].
func (a *answer) WriteHeader(status int) {
	a.begun = true
	a.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (a *answer) Write(b []byte) (int, error) {
	a.begun = true
	return a.ResponseWriter.Write(b)
}

// Methods returns the methods that the routes take where a request points to,
// which tells a wrong method from a path that does not exist.
func Methods(mux *http.ServeMux, r *http.Request) []string {
	var all []string
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
		other := r.Clone(r.Context())
		other.Method = method
		if _, pattern := mux.Handler(other); pattern != "" {
			all = append(all, method)
		}
	}
	return all
}
