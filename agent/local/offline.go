package local

import (
	"net/http"
	"strconv"

	"github.com/hostler-io/hostler/agent"
	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/internal/webapi"
	"github.com/hostler-io/hostler/protocol/contract"
)

// offlinePreview says what becomes of the containers if the host is cut off.
func (h *handlers) offlinePreview(w http.ResponseWriter, r *http.Request) error {
	q, period, reboot := r.URL.Query(), contract.Ever, false
	if text := q.Get("for"); text != "" {
		d, err := api.ParseDuration(text)
		if err != nil {
			return invalid("for: %s", err)
		}
		period = d
	}
	if text := q.Get("reboot"); text != "" {
		var err error
		if reboot, err = strconv.ParseBool(text); err != nil {
			return invalid("reboot: %.20q is neither true nor false", text)
		}
	}
	all, err := agent.OfflinePreview(r.Context(), h.agent, period, reboot)
	if err != nil {
		return err
	}
	return write(w, http.StatusOK, webapi.Forecasts(all))
}
