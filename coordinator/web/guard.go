package web

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/internal/attach"
	"github.com/hostler-io/hostler/internal/lobby"
	"github.com/hostler-io/hostler/internal/webapi"
	"github.com/hostler-io/hostler/protocol/enrol"
)

// maxBody is the longest body of any request, in bytes: a spec of 12 KiB in
// base64 fits several times.
const maxBody = 64 << 10

// bodyPatience is how long a body may take to come, whether a handler reads it or
// not: the longest takes 55 s at 9.6 kbit/s.
const bodyPatience = time.Minute

// actorKey finds who asks.
type actorKey struct{}

// actor returns who asks. Only requests that were authenticated get to where
// it is called.
func actor(ctx context.Context) core.Actor {
	a, _ := ctx.Value(actorKey{}).(core.Actor)
	return a
}

// guard is what every request passes before it is looked at more closely.
func (h *handlers) guard(mux *http.ServeMux, openMetrics bool) http.Handler {
	return webapi.Guard(h.log, newProblem(api.CodeInternal, internalDetail).Problem, func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength > maxBody && !isUpload(r) {
			// Nothing is read of it, so the connection is of no more use.
			w.Header().Set("Connection", "close")
			writeProblem(w, newProblem(api.CodeTooLarge, fmt.Sprintf("the body has %d bytes, at most %d are taken", r.ContentLength, maxBody)))
			return
		}
		switch {
		case isUpload(r):
			r.Body = webapi.MovingBody(w, r.Body, bodyPatience)
		case r.ContentLength != 0:
			conn := http.NewResponseController(w)
			_ = conn.SetReadDeadline(time.Now().Add(bodyPatience)) // only connections of tests have none
			r.Body = &timedBody{r.Body, conn}
		}
		if !isUpload(r) {
			r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		}
		if !isOpen(r, openMetrics) {
			secret, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
			if !ok {
				h.unauthenticated(w, r, nil)
				return
			}
			ctx, end := context.WithCancelCause(r.Context())
			defer end(nil)
			who, leave, err := h.c.Access().Authenticate(ctx, secret, func(why error) { end(tokenEnded{why}) })
			if err != nil {
				h.unauthenticated(w, r, err)
				return
			}
			defer leave()
			known(r.Context())
			if from, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
				who.From = from.Addr().Unmap().String()
			}
			r = r.WithContext(context.WithValue(ctx, actorKey{}, who))
			if wait := h.tokens.allow(who.Name, time.Now()); wait > 0 {
				tooMany(w, wait, fmt.Sprintf("more than %d requests per second come with tokens of %s", tokenRate, who.Name))
				return
			}
		}
		_, pattern := mux.Handler(r)
		switch key := r.Header.Get(onceHeader); {
		case pattern == "":
			noRoute(w, r, mux)
		case key != "" && mayChange(r.Method) && !isUpload(r) && strings.HasPrefix(r.URL.Path, "/v1/") && !r.URL.Query().Has("dry_run"):
			h.serveOnce(w, r, pattern, key, mux)
		case r.Method == http.MethodGet && strings.HasPrefix(r.URL.Path, "/v1/"):
			serveTagged(w, r, mux)
		default:
			mux.ServeHTTP(w, r)
		}
	})
}

// timedBody lifts the deadline of a body that was read to its end: a client that waits
// for an action may wait for long.
type timedBody struct {
	io.ReadCloser
	conn *http.ResponseController
}

func (b *timedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		_ = b.conn.SetReadDeadline(time.Time{}) // as above
	}
	return n, err
}

// isOpen reports whether a request needs no token: everything outside of /v1
// but the metrics, and of /v1 reading the rings, which authenticate themselves, and
// the document, which holds nothing of the fleet.
func isOpen(r *http.Request, openMetrics bool) bool {
	switch {
	case r.URL.Path == "/v1/rings" || r.URL.Path == documentPath:
		return r.Method == http.MethodGet || r.Method == http.MethodHead
	case r.URL.Path == "/metrics" || r.URL.Path == fleetMetricsPath:
		from, err := netip.ParseAddrPort(r.RemoteAddr)
		return openMetrics && err == nil && from.Addr().Unmap().IsLoopback()
	}
	return r.URL.Path != "/v1" && !strings.HasPrefix(r.URL.Path, "/v1/")
}

// tokenEnded is why the context of a request ends when its token does.
type tokenEnded struct{ error }

// Is tells a session that who is in it is to go for good.
func (tokenEnded) Is(target error) bool { return target == attach.ErrDismissed }

// unauthenticated answers who did not say who they are, without an error, or not
// truly.
func (h *handlers) unauthenticated(w http.ResponseWriter, r *http.Request, err error) {
	p := newProblem(api.CodeUnauthentic, "this needs a token")
	if err != nil {
		p = h.asProblemOf(r.Context(), err)
		if p.Code == api.CodeDenied {
			if !h.wrongToken(w, r) {
				return
			}
			p = newProblem(api.CodeUnauthentic, "the token is unknown, revoked or expired")
		}
	}
	if p.Code == api.CodeUnauthentic {
		w.Header().Set("WWW-Authenticate", `Bearer realm="hostler"`)
	}
	writeProblem(w, p)
}

// wrongToken counts a token that was never made, and holds up its answer if many come from
// its address. Without a turn it answers at once, and returns false.
func (h *handlers) wrongToken(w http.ResponseWriter, r *http.Request) bool {
	from := lobby.Origin(r.RemoteAddr)
	h.c.Access().WrongToken(from.Addr().String())
	wait, ok := h.wrong.delay(from, time.Now(), wrongPatience)
	if !ok {
		w.Header().Set("Connection", "close")
		tooMany(w, wait, "too many wrong tokens come from your address; right ones are served as ever")
		return false
	}
	turn := time.NewTimer(wait)
	defer turn.Stop()
	select {
	case <-turn.C:
	case <-r.Context().Done():
	}
	return true
}

// noRoute tells a wrong method from a path that does not exist.
func noRoute(w http.ResponseWriter, r *http.Request, mux *http.ServeMux) {
	allowed := webapi.Methods(mux, r)
	if len(allowed) > 0 {
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		writeProblem(w, newProblem(api.CodeMethod, fmt.Sprintf("%.20q is not possible here, only %s", r.Method, strings.Join(allowed, " and "))))
		return
	}
	p := newProblem(api.CodeNotFound, fmt.Sprintf("there is nothing at %.100q", r.URL.Path))
	p.Hint = "the API is under /v1/ and described by /v1/openapi.json; hosts join under " + enrol.Path
	writeProblem(w, p)
}
