package local

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/hostler-io/hostler/internal/lobby"
)

// Limits of what is served to other machines.
const (
	// maxReached is how many connections there are at once, and reachedLife how long each
	// may last: one question fits, on a slow line too.
	maxReached  = 32
	reachedLife = 15 * time.Second
	// askedEvery is how far two requests to look, or to tell, are apart at least, over all
	// who ask: what comes sooner is refused, and changes nothing.
	askedEvery = 5 * time.Second
)

// Reachable returns what other machines may ask of the handler of [New]: GET /ping, POST
// /trigger and POST /heartbeat, and nothing else. It never waits for a body.
func Reachable(inner http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /ping", inner)
	var gate gate
	mux.Handle("POST /trigger", gate.hold(inner))
	mux.Handle("POST /heartbeat", gate.hold(inner))
	return bodiless(mux)
}

// Scrapable returns what a monitor on another machine may read of the handler of [New]: GET
// /metrics, and nothing else. It never waits for a body.
func Scrapable(inner http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", inner)
	return bodiless(mux)
}

// bodiless serves what mux has, of requests without their bodies, one to a connection.
func bodiless(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.NoBody
		w.Header().Set("Connection", "close")
		if _, pattern := mux.Handler(r); pattern == "" {
			noRoute(w, r, mux)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// gate lets requests of each path through now and then. It is safe for concurrent use.
type gate struct {
	mu   sync.Mutex
	next map[string]time.Time
}

func (g *gate) hold(inner http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		now := time.Now()
		wait := g.next[r.URL.Path].Sub(now)
		if wait <= 0 {
			if g.next == nil {
				g.next = make(map[string]time.Time)
			}
			g.next[r.URL.Path] = now.Add(askedEvery)
		}
		g.mu.Unlock()
		if wait > 0 {
			w.Header().Set("Retry-After", "5")
			http.Error(w, "this was asked less than 5 s ago", http.StatusTooManyRequests)
			return
		}
		inner.ServeHTTP(w, r)
	})
}

// ListenTLS listens on a TCP address for those whom the configuration admits. All
// connections together are few, and each ends soon.
func ListenTLS(ctx context.Context, address string, config *tls.Config) (net.Listener, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	// Nobody becomes known: so the lobby holds all connections to their number and life.
	return tls.NewListener(lobby.New(maxReached).Listener(l, reachedLife), config), nil
}
