package webapi

import (
	"time"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/protocol/contract"
)

// Forecasts are what becomes of containers while their host is cut off.
func Forecasts(all []contract.Forecast) []api.OfflineForecast {
	out := make([]api.OfflineForecast, 0, len(all))
	for _, f := range all {
		shown := api.OfflineForecast{Name: f.Name, Offline: f.Offline, Then: f.Then, Why: f.Why}
		if f.Stops {
			shown.StopsIn = contract.Words(f.StopsIn.Round(time.Second))
		}
		out = append(out, shown)
	}
	return out
}
