package web

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/coordinator"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/coordinator/recovery"
	"github.com/hostler-io/hostler/internal/prom"
	"github.com/hostler-io/hostler/internal/webapi"
)

// documentType is that of the fleet's signed documents: envelopes, one to a
// line.
const documentType = "application/x-ndjson"

// rawAnswer is an answer that is not JSON.
type rawAnswer struct {
	ContentType string `header:"Content-Type"`
	Body        []byte
}

func (h hostHandlers) fleet() {
	serve(h.handlers, h.get("get-status", "/v1/status", "The fleet in a few numbers"), h.status)
	serve(h.handlers, h.get("get-check", "/v1/check", "What keeps the coordinator from doing its work"), func(ctx context.Context, _ *none) ([]api.Finding, error) {
		return h.check(ctx), nil
	})
	rings := h.raw("get-rings", "/v1/rings", "The chain of rings, which authenticates itself", documentType, "Signed rings, one to a line.")
	rings.Security = nil
	register(h.handlers, rings, h.rings)
	serve(h.handlers, h.operation("put-rings", http.MethodPost, "/v1/rings", "Take newer rings into force; they authenticate themselves", http.StatusOK), h.takeRings)
	register(h.handlers, h.raw("get-roster", "/v1/roster", "The signed list of hosts and their keys", documentType, "One signed document."), h.roster)
}

func (h hostHandlers) status(ctx context.Context, _ *none) (api.Status, error) {
	s, err := h.c.Summary(ctx)
	if err != nil {
		return api.Status{}, err
	}
	recovered, err := h.c.Recoveries().Progress(ctx)
	return api.Status{
		Recovered: recoveredOf(recovered),
		Fleet:     string(s.Fleet), FleetID: s.FleetID.String(), Version: h.version, Now: time.Now().UTC(),
		Term: s.Term.String(), Ring: s.Ring, Key: s.Key.String(), Recovery: s.Recovery,
		Hosts: hostWords(s), Pending: s.Pending, Actions: words(s.Actions), Containers: s.Containers, Brokers: webapi.Texts(s.Brokers),
	}, err
}

// hostWords counts the hosts that are of the fleet by their one word, as lists show it.
func hostWords(s coordinator.Summary) map[string]int {
	all := words(s.Hosts)
	if s.Replacing > 0 {
		all[string(core.HostReplacing)] = s.Replacing
	}
	return all
}

// recoveredOf tells of a recovery, if there was one that hosts are asked after.
func recoveredOf(r recovery.Progress) *api.Recovered {
	if r.AtMS == 0 || r.FormerFleet != "" {
		return nil
	}
	out := &api.Recovered{At: webapi.At(r.AtMS), BackupAt: webapi.Maybe(r.BackupMS), Hosts: max(r.Hosts, r.Left), Answered: max(r.Hosts, r.Left) - r.Left}
	if r.AuditSeen > r.AuditN {
		out.LostFrom, out.LostTo = r.AuditN+1, r.AuditSeen
	}
	return out
}

// words gives counts their keys as plain texts.
func words[K ~string](m map[K]int) map[string]int {
	out := make(map[string]int, len(m))
	for k, n := range m {
		out[string(k)] = n
	}
	return out
}

func (h hostHandlers) rings(context.Context, *none) (*rawAnswer, error) {
	return &rawAnswer{documentType, h.c.Rings(0)}, nil
}

func (h hostHandlers) takeRings(ctx context.Context, in *body[api.Rings]) (api.Ring, error) {
	number, err := h.c.TakeRings(ctx, actor(ctx), in.Body.Rings)
	return api.Ring{Number: number}, err
}

func (h hostHandlers) roster(context.Context, *none) (*rawAnswer, error) {
	b, err := h.c.Roster()
	return &rawAnswer{documentType, b}, err
}

// plain answers with one text.
func plain(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(len(text)+1))
	w.WriteHeader(status)
	_, _ = fmt.Fprintln(w, text) // a client that is gone needs no answer
}

// health answers the service manager: it is up; it can answer
// requests.
func (h hostHandlers) health(mux routes) {
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { plain(w, http.StatusOK, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		err := h.c.Ready(r.Context())
		switch why, degraded := h.c.Recovery(), h.c.Degraded(); {
		case err == nil && degraded != "":
			plain(w, http.StatusServiceUnavailable, degraded)
		case err == nil:
			plain(w, http.StatusOK, "ok")
		case why != "":
			plain(w, http.StatusServiceUnavailable, why)
		default:
			h.log.ErrorContext(r.Context(), "not ready", "err", err)
			plain(w, http.StatusServiceUnavailable, "the store does not answer")
		}
	})
}

// metrics writes one snapshot for Prometheus.
func (h hostHandlers) metrics(ctx context.Context, s *prom.Scrape) error {
	sum, err := h.c.Summary(ctx)
	if err != nil {
		return err
	}
	n := h.c.Stats()
	s.GaugeBy("build_info", "1 for the version that runs.", "version", map[string]float64{h.version: 1})
	s.Gauge("recovery", "1 if the coordinator went back in time and decides nothing.", truth(sum.Recovery != ""))
	s.GaugeBy("hosts", "Approved hosts, by connectivity.", "connectivity", floats(sum.Hosts))
	s.Gauge("hosts_revoked", "Revoked hosts.", float64(sum.Revoked))
	s.Gauge("hosts_replacing", "Hosts that wait for another machine.", float64(sum.Replacing))
	s.Gauge("enrolments_pending", "Hosts that wait for a person.", float64(sum.Pending))
	s.GaugeBy("actions_open", "Actions that have not ended, by state.", "state", floats(sum.Actions))
	s.GaugeBy("containers", "Containers, by the state that their hosts last told.", "state", floats(sum.Containers))
	if h.commits != nil {
		s.Counter("store_commits_total", "Durable commits of the store.", float64(h.commits()))
	}
	s.Gauge("event_readers", "Who follows the events.", float64(h.feed.readers.Load()))
	s.Counter("messages_received_total", "Messages that came in.", float64(n.Received))
	s.Counter("messages_published_total", "Messages that went out.", float64(n.Published))
	s.Counter("messages_dropped_total", "Messages dropped because a host sent more than is taken at a time.", float64(n.Dropped))
	s.CounterBy("messages_refused_total", "Messages refused, by the code of the check.", "code", floats(n.Refused))
	s.Counter("wrong_tokens_total", "Requests with a token that is unknown, revoked or expired.", float64(h.c.Access().WrongTokens()))
	h.parts(s)
	return nil
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func floats[K ~string, N int | uint64](m map[K]N) map[string]float64 {
	out := make(map[string]float64, len(m))
	for k, n := range m {
		out[string(k)] = float64(n)
	}
	return out
}
