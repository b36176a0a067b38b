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
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/internal/brief"
	"github.com/hostler-io/hostler/protocol"
)

// NewProblem returns a problem with the status and the title of its code. An
// unknown code becomes [api.CodeInternal]. The caller adds the hint, for it
// knows where the reader can look.
func NewProblem(code, detail string) *api.Problem {
	p := &api.Problem{Type: "about:blank", Code: api.CodeInternal, Status: http.StatusInternalServerError, Detail: brief.Text(detail)}
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

// At returns a time of a record, from Unix milliseconds.
func At(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

// Maybe returns a time that need not have come: 0 is not yet.
func Maybe(ms int64) *time.Time {
	if ms == 0 {
		return nil
	}
	t := At(ms)
	return &t
}

// Texts keeps null out of an answer.
func Texts(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}

// Exit returns how a command ended; nil if it has not.
func Exit(x *protocol.Exit) *api.Exit {
	if x == nil {
		return nil
	}
	return &api.Exit{
		Code: x.Code, Signal: x.Signal, OOM: x.OOM, TimedOut: x.TimedOut, Cancelled: x.Cancelled, HungUp: x.HungUp, Unrecorded: x.Unrecorded, Error: x.Error,
		Run: (time.Duration(x.RunMS) * time.Millisecond).String(),
	}
}

// Output returns how much a command wrote; nil if that is not known yet.
func Output(all []protocol.Output) []api.Output {
	var out []api.Output
	for _, o := range all {
		x := api.Output{FD: string(o.FD), Bytes: o.Bytes, Dropped: o.Dropped, DropAt: o.DropAt, Ended: o.Ended, Archive: archive(o.Archive)}
		if !o.SHA256.IsZero() {
			x.SHA256 = o.SHA256.String()
		}
		out = append(out, x)
	}
	return out
}

func archive(a *protocol.Archive) *api.Archive {
	if a == nil {
		return nil
	}
	out := &api.Archive{SHA256: a.SHA256.String(), Files: a.Files, Bytes: a.Bytes, List: a.List.String()}
	for _, f := range a.Sums {
		out.Sums = append(out.Sums, api.FileSum{Name: f.Name, Bytes: f.Bytes, SHA256: f.SHA256.String()})
	}
	return out
}

// Session tells who takes part in a session that began on its host; empty of
// everything else.
func Session(s *protocol.Spec, onHost bool) string {
	switch {
	case !onHost || !s.Kind.Interactive():
		return ""
	case s.Shared():
		return api.SessionShared
	}
	return api.SessionClosed
}

// Container returns a container of a host.
func Container(host protocol.HostID, c protocol.Container) api.Container {
	out := api.Container{
		Host: string(host), Name: c.Name, Runtime: c.Runtime, State: c.State, Intended: c.Intended, Class: c.Class,
		Offline: c.Offline, Broken: c.Broken, Failures: c.Failures, Waits: c.Waits, Health: c.Health, Backup: c.Backup, BackupAt: Maybe(c.BackupMS), Restored: c.Restored, StartOrder: c.StartOrder, StartAfter: c.StartAfter, Privileged: c.Privileged, Addresses: Texts(c.Addresses), Labels: Texts(c.Labels), Volumes: c.Volumes, Mounts: c.Mounts,
	}
	if !c.CTID.IsZero() {
		out.CTID = c.CTID.String()
	}
	return out
}
