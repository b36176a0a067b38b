package local

import (
	"maps"
	"net/http"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/agent"
	"github.com/hostler-io/hostler/agent/containers"
	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/protocol/limit"
)

// container tells what the agent knows of one container.
func (h *handlers) container(w http.ResponseWriter, r *http.Request) error {
	d, effective, err := agent.Remembered(r.Context(), h.agent, r.PathValue("name"))
	if err != nil {
		return err
	}
	return write(w, http.StatusOK, detailsOf(d, effective))
}

func detailsOf(d containers.Details, effective limit.Limits) api.ContainerDetails {
	out := api.ContainerDetails{Name: string(d.Name), CTID: d.CTID.String(), Runtime: d.Runtime, Ends: []api.ContainerEnd{}, Limits: []api.ContainerLimit{}}
	for _, e := range slices.Backward(d.Ends) {
		out.Ends = append(out.Ends, endOf(e))
	}
	all := make(limit.Limits)
	maps.Copy(all, effective)
	maps.Copy(all, d.Limits)
	for _, r := range slices.Sorted(maps.Keys(all)) {
		out.Limits = append(out.Limits, api.ContainerLimit{Resource: string(r), Set: d.Limits[r], Effective: effective[r]})
	}
	return out
}

func endOf(e queue.End) api.ContainerEnd {
	out := api.ContainerEnd{At: time.UnixMilli(e.AtMS).UTC(), OOM: e.OOM, Asked: e.Asked, Log: e.Log}
	switch {
	case e.Signal != 0:
		out.Signal = unix.SignalName(unix.Signal(e.Signal))
	case e.Known:
		out.Code = &e.Code
	}
	return out
}
