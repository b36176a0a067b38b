package web

import (
	"context"
	"time"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/internal/webapi"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/contract"
)

// previewed is what is asked of the containers of a host.
type previewed struct {
	HostRef
	For    string `query:"for" maxLength:"30" example:"8h" doc:"For how long the host is cut off from now on; left out, for ever"`
	Reboot bool   `query:"reboot" doc:"The host restarts at the end of that"`
}

// offlinePreview says what becomes of the containers of a host that is cut off: it
// decides as the host will, on what the host has told last.
func (h hostHandlers) offlinePreview(ctx context.Context, in *previewed) ([]api.OfflineForecast, error) {
	period := contract.Ever
	if in.For != "" {
		var err error
		if period, err = parseDuration("for", in.For); err != nil {
			return nil, err
		}
	}
	v, err := h.c.Members().Host(ctx, in.id())
	if err != nil {
		return nil, err
	}
	var away time.Duration
	if v.Connectivity != core.Online && v.SeenMS > 0 {
		away = max(0, time.Since(time.UnixMilli(v.SeenMS)))
	}
	all := list(v.Inventory.Containers, func(c protocol.Container) contract.Workload {
		return contract.Workload{Name: c.Name, Intended: c.Intended, Class: c.Class, Broken: c.Broken, Offline: c.Offline}
	})
	return webapi.Forecasts(contract.Preview(all, away, period, in.Reboot)), nil
}
