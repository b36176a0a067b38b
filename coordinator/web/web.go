// Package web is the coordinator's HTTP API: /v1 for people and tools, the
// enrolment of hosts under /enrol/v1, and what supervisors of the process ask
// (/healthz, /readyz, /metrics).
//
// Every request goes the same way:
//
//	size → who is it? → route → form (huma, by the schemas that it also
//	publishes) → one method of the Coordinator → answer, or a problem
//
// Handlers decide nothing and never see the store. Who may do what is judged by
// the Coordinator; here it only matters that nobody without a token gets
// further than the enrolment, the rings (which authenticate themselves) and
// two words about health.
//
// A request that goes on for long, as of who follows or takes part in a session, ends
// with the token that it came with.
//
// Every failure, be it a wrong route, a body that is too large or a panic, is
// an [api.Problem] with a stable code. What went wrong inside is in the log and
// not in the answer.
//
// The document under /v1/openapi.json is made from the same declarations as the
// handlers, and the tests hold real answers of every operation against it.
package web

import (
	"context"
	"crypto/tls"
	"errors"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/coordinator"
	"github.com/hostler-io/hostler/internal/lobby"
	"github.com/hostler-io/hostler/internal/prom"
)

// Config is what the API is made of.
type Config struct {
	// Coordinator answers. Required.
	Coordinator *coordinator.Coordinator
	// Version of the program, as the status tells it. Required.
	Version string
	// OpenMetrics answers /metrics without a token to clients on loopback, for
	// a scraper on the same machine that can send none. It must stay false
	// behind a reverse proxy, for which all clients come from loopback.
	// Default: a token of any role is needed.
	OpenMetrics bool
	// Metrics adds to a scrape of /metrics what the parts beside the coordinator
	// count, such as its broker. Default: nothing.
	Metrics func(*prom.Scrape)
	// Commits tells how many durable commits the store has made, for /metrics.
	// Default: they are not told.
	Commits func() uint64
	// Check looks for what keeps the coordinator from doing its work. Default: nothing
	// is looked at.
	Check func(context.Context) []api.Finding
	// Log hears of what went wrong inside. Default: discarded.
	Log *slog.Logger
}

// handlers holds what the handlers share.
type handlers struct {
	c       *coordinator.Coordinator
	version string
	parts   func(*prom.Scrape)
	commits func() uint64
	check   func(context.Context) []api.Finding
	log     *slog.Logger
	feed    feed
	scrapes sync.Mutex           // of the fleet
	tokens  limits[string]       // by the name of the token
	wrong   limits[netip.Prefix] // wrong tokens, by their address
	doc     huma.API             // to which the operations are added
}

// actionHandlers answer about actions: what is asked for, approved and ordered, and
// the bytes that commands read and write.
type actionHandlers struct{ *handlers }

// hostHandlers answer about hosts, how they join, and the fleet that they are in.
type hostHandlers struct{ *handlers }

// New returns the handler of all routes. It is meant for [NewServer], which
// ends its long answers at shutdown.
func New(cfg Config) (http.Handler, error) {
	if cfg.Coordinator == nil || cfg.Version == "" {
		return nil, errors.New("web: coordinator and version are needed")
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Check == nil {
		cfg.Check = func(context.Context) []api.Finding { return []api.Finding{} }
	}
	if cfg.Metrics == nil {
		cfg.Metrics = func(*prom.Scrape) {}
	}
	h := &handlers{c: cfg.Coordinator, version: cfg.Version, parts: cfg.Metrics, commits: cfg.Commits, check: cfg.Check, log: cfg.Log, feed: feed{c: cfg.Coordinator}, tokens: limits[string]{rate: tokenRate, burst: tokenBurst}, wrong: limits[netip.Prefix]{rate: wrongRate, burst: wrongBurst}}
	mux := http.NewServeMux()
	if err := h.routes(mux); err != nil {
		return nil, err
	}
	return h.guard(mux, cfg.OpenMetrics), nil
}

// routes is where operations are added.
type routes = humago.Mux

// routes adds all of them.
func (h *handlers) routes(mux routes) error {
	h.doc = humago.New(mux, documentConfig(h.version))
	h.doc.UseMiddleware(oneStatusForBadRequests)
	hostHandlers{h}.hosts()
	actionHandlers{h}.kinds()
	actionHandlers{h}.actions()
	actionHandlers{h}.batches()
	actionHandlers{h}.approvals()
	actionHandlers{h}.output()
	actionHandlers{h}.payloads()
	actionHandlers{h}.sessions()
	h.access()
	hostHandlers{h}.enrolments()
	hostHandlers{h}.fleet()
	alertHandlers{h}.alerts()
	leaseHandlers{h}.leases()
	fenceHandlers{h}.fences()
	h.events()
	h.auditLog()
	hostHandlers{h}.health(mux)
	mux.HandleFunc("GET /metrics", prom.Handler("hostler_coordinator_", hostHandlers{h}.metrics).ServeHTTP)
	mux.HandleFunc("GET "+fleetMetricsPath, hostHandlers{h}.fleetMetrics)
	hostHandlers{h}.enrolment(mux)
	return serveDocument(mux, h.doc.OpenAPI())
}

// Limits of the server. There is no limit on a whole request or answer: some
// follow for days. Each part that waits for the client has its own.
const (
	// headerTimeout lets a request line and headers of some KiB through at
	// 9.6 kbit/s.
	headerTimeout = 10 * time.Second
	// idleTimeout is how long a connection is kept for the next request: longer
	// than tools poll, so that polling costs no handshakes.
	idleTimeout    = 2 * time.Minute
	maxHeaderBytes = 16 << 10
)

// StrangerPatience is how long a connection may stay on which no request has shown a valid
// token: at 9.6 kbit/s the longest chain of rings takes 55 s.
const StrangerPatience = time.Minute

// drainKey finds the context that ends when the server shuts down.
type drainKey struct{}

// NewServer returns a server with timeouts and limits for clients that are not
// trusted. [http.Server.Shutdown] ends followers and waiters, who come back to
// the next process, and lets short requests finish. If it serves a
// [lobby.Lobby.Listener], a valid token makes the connection that it came on known.
// What it says of connections goes to noise.
func NewServer(h http.Handler, config *tls.Config, noise *Noise) *http.Server {
	drain, stop := context.WithCancel(context.Background())
	s := &http.Server{
		Handler: h, TLSConfig: config,
		ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
		BaseContext: func(net.Listener) context.Context { return context.WithValue(context.Background(), drainKey{}, drain) },
		ConnContext: newConnection, ErrorLog: log.New(noise, "", 0),
	}
	s.RegisterOnShutdown(stop)
	return s
}

// unsentBytes is how much of an answer may wait in the system for its turn on the
// line. By default that is up to 4 MiB, which a reader who takes little has to have
// filled, encrypted and all, before it costs nothing: a hundred of them cost as much
// as the output they follow. What is on the line does not count, so that a long one
// is as fast as ever. With 128 KiB, one who reads fast has to be waited for more
// often, which took a twentieth of its speed.
const unsentBytes = 512 << 10

// tcpNotsentLowat is TCP_NOTSENT_LOWAT, which package syscall does not have.
const tcpNotsentLowat = 25

// strangerKey finds the connection that a request came on, if it is in a lobby.
type strangerKey struct{}

// known says of the connection that a request came on that its other end has shown who
// it is.
func known(ctx context.Context) {
	if c, ok := ctx.Value(strangerKey{}).(*lobby.Conn); ok {
		c.Known()
	}
}

// newConnection sets that bound on a connection of the server, and has its requests know
// it.
func newConnection(ctx context.Context, c net.Conn) context.Context {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	if stranger, ok := c.(*lobby.Conn); ok {
		ctx = context.WithValue(ctx, strangerKey{}, stranger)
		c = stranger.NetConn()
	}
	if t, ok := c.(*net.TCPConn); ok {
		if raw, err := t.SyscallConn(); err == nil {
			// Without it everything is as right, and slower.
			_ = raw.Control(func(fd uintptr) {
				_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpNotsentLowat, unsentBytes)
			})
		}
	}
	return ctx
}

// untilDrained returns a context that ends with ctx or when the server shuts
// down.
func untilDrained(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := func() bool { return true }
	if drain, ok := ctx.Value(drainKey{}).(context.Context); ok {
		stop = context.AfterFunc(drain, func() { cancel(errDrained) })
	}
	return ctx, func() { stop(); cancel(nil) }
}

// errDrained ends what would otherwise hold up the shutdown.
var errDrained = errors.New("the server is shutting down")
