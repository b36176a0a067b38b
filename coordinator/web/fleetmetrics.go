package web

import (
	"context"
	"net/http"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/coordinator/scrape"
	"github.com/hostler-io/hostler/internal/prom"
	"github.com/hostler-io/hostler/protocol"
)

const fleetMetricsPath = "/metrics/fleet"

// fleetMetrics answers Prometheus with what hosts last told, of those that ?label=
// selects. One answer is made at a time: each reads the inventories of the fleet.
func (h hostHandlers) fleetMetrics(w http.ResponseWriter, r *http.Request) {
	var sel api.Selector
	if text := r.URL.Query().Get("label"); text != "" {
		if err := sel.Set(text); err != nil {
			plain(w, http.StatusBadRequest, "label: "+err.Error())
			return
		}
	}
	h.scrapes.Lock()
	defer h.scrapes.Unlock()
	prom.Handler("hostler_fleet_", func(ctx context.Context, s *prom.Scrape) error {
		f := scrape.New()
		for after := protocol.HostID(""); ; {
			hosts, err := h.c.Members().Hosts(ctx, after, pageStep)
			if err != nil {
				return err
			}
			for _, v := range hosts {
				if v.State != core.HostRevoked && sel.Match(v.Labels) {
					f.Add(v)
				}
				after = v.ID
			}
			if len(hosts) < pageStep {
				f.Write(s)
				return nil
			}
		}
	}).ServeHTTP(w, r)
}
