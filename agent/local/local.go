// Package local is the agent's HTTP on a unix socket: what the people of a host
// may ask of its agent, with or without a coordinator.
//
//	GET  /ping                      answers while the agent runs
//	GET  /readyz                    does it accept actions: 200, or 503 with the reason
//	GET  /status                    one look ([api.AgentStatus])
//	GET  /metrics                   for Prometheus
//	POST /trigger                   look at everything now
//	POST /heartbeat                 send a full heartbeat now
//	POST /sleep?for=DURATION        tell that the host will be silent for so long; 0s: it will not
//	GET  /v1/actions                list, the newest first
//	POST /v1/actions                ask for an action ([api.NewAction])
//	GET  /v1/actions/{id}           one, ?wait=30s for its end
//	POST /v1/actions/{id}/cancel
//	GET  /v1/actions/{id}/output    ?stream= &offset= &follow=
//	GET  /v1/actions/{id}/attach    a websocket to a session, ?peer= &offset= &read_only=
//	GET  /v1/payloads/{sha256}      is the input of an action here
//	PUT  /v1/payloads/{sha256}      ?bytes= send it
//	GET  /v1/containers
//
// What is under /v1 is what the coordinator offers of it under the same paths,
// so the same clients work with both: identifiers may be shortened, an action
// that has not ended is answered with 202, and every failure is an
// [api.Problem].
//
// There are no tokens. Who may open the socket, which is root as a rule, or its
// group, by mode 0660 of the socket, may ask for whatever the policy lets them. A
// session is for root and the user who began it, unless it is shared. The uid that the
// kernel tells of the peer is written down with each action as its requester.
//
// Handlers decide nothing: each asks the agent one question.
package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/hostler-io/hostler/agent"
	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/internal/prom"
	"github.com/hostler-io/hostler/internal/webapi"
	"github.com/hostler-io/hostler/protocol"
)

// Config is what the API is made of.
type Config struct {
	// Agent answers. Required.
	Agent *agent.Agent
	// Host is the id of this host. Required.
	Host protocol.HostID
	// Version of the program, as the status tells it. Required.
	Version string
	// Measured writes what was measured of the host, beside the agent's own metrics.
	// Default: nothing.
	Measured func(*prom.Scrape)
	// Check looks for what keeps the host from doing its work. Required.
	Check func(context.Context) []api.Finding
	// Support are texts for those who help, by name. They may hold secrets. Default: none.
	Support map[string]func(context.Context, io.Writer) error
	// Log hears of what went wrong inside. Default: none.
	Log *slog.Logger
}

// handlers holds what the handlers share.
type handlers struct {
	agent    *agent.Agent
	host     protocol.HostID
	version  string
	measured func(*prom.Scrape)
	check    func(context.Context) []api.Finding
	log      *slog.Logger
}

// New returns the handler of all routes, which is meant for [Server].
func New(cfg Config) (http.Handler, error) {
	if cfg.Agent == nil || cfg.Host == "" || cfg.Version == "" || cfg.Check == nil {
		return nil, errors.New("local: Agent, Host, Version or Check is missing")
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Measured == nil {
		cfg.Measured = func(*prom.Scrape) {}
	}
	h := &handlers{cfg.Agent, cfg.Host, cfg.Version, cfg.Measured, cfg.Check, cfg.Log}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /ping", h.handle(h.ping))
	mux.HandleFunc("GET /readyz", h.handle(h.ready))
	mux.HandleFunc("GET /status", h.handle(h.status))
	mux.HandleFunc("POST /trigger", h.handle(h.trigger))
	mux.HandleFunc("POST /heartbeat", h.handle(h.heartbeat))
	mux.HandleFunc("POST /sleep", h.handle(h.sleep))
	mux.HandleFunc("GET /v1/actions", h.handle(h.listActions))
	mux.HandleFunc("POST /v1/actions", h.handle(h.createAction))
	mux.HandleFunc("GET /v1/actions/{id}", h.handle(h.getAction))
	mux.HandleFunc("POST /v1/actions/{id}/cancel", h.handle(h.cancelAction))
	mux.HandleFunc("GET /v1/actions/{id}/output", h.handle(h.readOutput))
	mux.HandleFunc("GET /v1/actions/{id}/attach", h.handle(h.attach))
	mux.HandleFunc("GET /v1/payloads/{sha256}", h.handle(h.getPayload))
	mux.HandleFunc("PUT /v1/payloads/{sha256}", h.handle(h.putPayload))
	mux.HandleFunc("GET /v1/containers", h.handle(h.containers))
	mux.HandleFunc("GET /v1/containers/{name}", h.handle(h.container))
	mux.HandleFunc("GET /v1/check", h.handle(h.lookOver))
	for name, tell := range cfg.Support {
		mux.HandleFunc("GET /v1/support/"+name, h.handle(func(w http.ResponseWriter, r *http.Request) error {
			var text strings.Builder
			if err := tell(r.Context(), &text); err != nil {
				return err
			}
			return write(w, http.StatusOK, api.SupportText{Text: text.String()})
		}))
	}
	mux.HandleFunc("GET /v1/offline-preview", h.handle(h.offlinePreview))
	mux.HandleFunc("GET /v1/audit/export", h.handle(h.exportAudit))
	mux.Handle("GET /metrics", prom.Handler("hostler_agent_", h.metrics))
	return h.guard(mux), nil
}

// maxBody is the longest body of any request but an input's, in bytes: a spec of 12 KiB in
// base64 fits several times.
const maxBody = 64 << 10

// bodyPatience is how long a request's body may take, and how long nothing of an input may
// come.
const bodyPatience = 30 * time.Second

// guard is what every request passes before it is looked at more closely. A
// request that fails must not end what looks after the host.
func (h *handlers) guard(mux *http.ServeMux) http.Handler {
	return webapi.Guard(h.log, newProblem(api.CodeInternal, internalDetail), func(w http.ResponseWriter, r *http.Request) {
		if isUpload(r) {
			r.Body = webapi.MovingBody(w, r.Body, bodyPatience)
		} else {
			r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		}
		if _, pattern := mux.Handler(r); pattern == "" {
			noRoute(w, r, mux)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// noRoute answers what no handler is for.
func noRoute(w http.ResponseWriter, r *http.Request, mux *http.ServeMux) {
	others := webapi.Methods(mux, r)
	if len(others) == 0 {
		webapi.WriteProblem(w, newProblem(api.CodeNotFound, fmt.Sprintf("there is nothing at %.200q", r.URL.Path)))
		return
	}
	w.Header().Set("Allow", strings.Join(others, ", "))
	webapi.WriteProblem(w, newProblem(api.CodeMethod, fmt.Sprintf("%.200q takes %s", r.URL.Path, strings.Join(others, ", "))))
}

// handle turns a failure into a problem.
func (h *handlers) handle(serve func(http.ResponseWriter, *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := serve(w, r); err != nil {
			webapi.WriteProblem(w, h.problemOf(r.Context(), err))
		}
	}
}

// write answers with JSON.
func write(w http.ResponseWriter, status int, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(b, '\n')) // a client that is gone needs no answer
	return nil
}

// read decodes the body of a request strictly.
func read(w http.ResponseWriter, r *http.Request, v any) error {
	conn := http.NewResponseController(w)
	if err := conn.SetReadDeadline(time.Now().Add(bodyPatience)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return fmt.Errorf("read the body: %w", err)
	}
	b, err := io.ReadAll(r.Body)
	_ = conn.SetReadDeadline(time.Time{}) // a client that waits for an action may wait for long
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return newProblem(api.CodeTooLarge, fmt.Sprintf("the body is larger than %d bytes", tooLarge.Limit))
	}
	if err != nil {
		return invalid("the body broke off")
	}
	if err := protocol.DecodeJSON(b, v, false); err != nil {
		return invalid("the body: %s", err)
	}
	return nil
}

func (h *handlers) ping(w http.ResponseWriter, _ *http.Request) error {
	return plain(w, http.StatusOK, "pong")
}

// ready answers who looks after the process: it accepts new actions.
func (h *handlers) ready(w http.ResponseWriter, r *http.Request) error {
	s, err := h.agent.Status(r.Context())
	switch {
	case err != nil:
		return err
	case s.Degraded != "":
		return plain(w, http.StatusServiceUnavailable, "nothing new is accepted: "+s.Degraded)
	}
	return plain(w, http.StatusOK, "ok")
}

// plain answers with a line of text.
func plain(w http.ResponseWriter, status int, text string) error {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text+"\n") // a client that is gone needs no answer
	return nil
}

func (h *handlers) status(w http.ResponseWriter, r *http.Request) error {
	s, err := h.agent.Status(r.Context())
	if err != nil {
		return err
	}
	out := api.AgentStatus{
		Host: string(h.host), Version: h.version, Connection: "none", Degraded: s.Degraded, Starts: s.Starts,
		Waiting: s.Waiting, Running: s.Running, Unsent: s.Unsent, Containers: s.Containers, Broken: s.Broken,
	}
	out.Policy = api.Policy{Source: s.Policy.Source, Number: s.Policy.Number, Bypass: s.Policy.Bypass, Broken: s.Policy.Broken}
	if !s.Policy.Digest.IsZero() {
		out.Policy.Digest = s.Policy.Digest.String()
	}
	if s.Link {
		out.Fleet, out.FleetID, out.Ring, out.Connection = string(s.FleetName), s.Fleet.String(), s.Ring, "connecting"
		out.Term = s.Term.String()
	}
	if s.Connected {
		out.Connection = "online"
	}
	return write(w, http.StatusOK, out)
}

// lookOver answers with what keeps the host from doing its work. It takes some seconds.
func (h *handlers) lookOver(w http.ResponseWriter, r *http.Request) error {
	return write(w, http.StatusOK, h.check(r.Context()))
}

func (h *handlers) trigger(w http.ResponseWriter, r *http.Request) error {
	if err := h.agent.Trigger(r.Context()); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (h *handlers) heartbeat(w http.ResponseWriter, r *http.Request) error {
	if err := h.agent.HeartbeatNow(r.Context()); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// maxSleep bounds for how long a host may say that it sleeps.
const maxSleep = 31 * 24 * time.Hour

func (h *handlers) sleep(w http.ResponseWriter, r *http.Request) error {
	d, err := api.ParseDuration(r.URL.Query().Get("for"))
	if err != nil || d < 0 || d > maxSleep {
		return fmt.Errorf("%w: for=%.20q is no duration from 0s to %s", protocol.ErrSpec, r.URL.Query().Get("for"), maxSleep)
	}
	agent.Sleep(h.agent, d)
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// metrics writes the agent's counters. All values of a label are there from the
// first scrape on.
func (h *handlers) metrics(_ context.Context, s *prom.Scrape) error {
	h.measured(s)
	m := h.agent.Metrics()
	s.CounterBy("messages_refused_total", "Messages of the coordinator that were refused, by the check that failed.", "code", floats(m.Refused))
	s.Counter("messages_dropped_total", "Messages that came faster than they could be handled.", float64(m.Dropped))
	s.CounterBy("messages_sent_total", "Messages sent, by type.", "type", floats(m.Sent))
	s.CounterBy("messages_received_total", "Messages that passed all checks, by type.", "type", floats(m.Received))
	s.Counter("actions_accepted_total", "Actions accepted.", float64(m.Accepted))
	s.Counter("actions_unapproved_total", "Actions refused because the policy of the host did not allow them.", float64(m.Unapproved))
	s.CounterBy("actions_ended_total", "Actions that ended, by final state.", "state", floats(m.Ended))
	s.Gauge("actions_waiting", "Accepted actions that have not begun.", float64(m.Waiting))
	s.Gauge("actions_running", "Actions that run.", float64(m.Running))
	s.Counter("container_starts_total", "Containers started by the agent itself.", float64(m.Starts))
	s.Counter("container_start_failures_total", "Failures among these starts.", float64(m.StartFailures))
	states := make(map[string]float64)
	for _, state := range container.States() {
		states[string(state)] = float64(m.Containers[state])
	}
	s.GaugeBy("containers", "Managed containers, by state.", "state", states)
	s.Gauge("connected", "1 while the coordinator answers.", truth(m.Connected))
	s.Gauge("degraded", "1 while nothing new is accepted.", truth(m.Degraded))
	s.Gauge("lease_seconds", "For how long the newest grant is good; negative: it has run out.", m.Lease.Seconds())
	s.Gauge("lease_lowest_seconds", "The least that a grant was ever good for, when the next one came or now.", m.LeaseLowest.Seconds())
	s.Counter("store_commits_total", "Durable commits of the queue.", float64(m.Commits))
	s.Gauge("unsent_items", "Reports and alerts that wait for a receipt.", float64(m.Unsent))
	return nil
}

func floats[K ~string](m map[K]uint64) map[string]float64 {
	out := make(map[string]float64, len(m))
	for k, v := range m {
		out[string(k)] = float64(v)
	}
	return out
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
