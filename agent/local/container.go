package local

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/agent"
	"github.com/hostler-io/hostler/agent/containers"
	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/limit"
	"github.com/hostler-io/hostler/protocol/mount"
)

// container tells what the agent knows of one container.
func (h *handlers) container(w http.ResponseWriter, r *http.Request) error {
	d, effective, err := agent.Remembered(r.Context(), h.agent, r.PathValue("name"))
	if err != nil {
		return err
	}
	out := detailsOf(d, effective)
	if d.Snapshots != nil {
		// What cannot be listed now hides nothing else of a container.
		out.Snapshots, err = snapshotsOf(r.Context(), d)
		if err != nil && !errors.Is(err, container.ErrNotFound) && !errors.Is(err, container.ErrUnavailable) {
			return err
		}
	}
	return write(w, http.StatusOK, out)
}

// snapshotsOf are the snapshots of a container, the newest first.
func snapshotsOf(ctx context.Context, d containers.Details) (out []api.ContainerSnapshot, err error) {
	all, err := d.Snapshots(ctx)
	if err != nil {
		return nil, err
	}
	for _, s := range slices.Backward(all) {
		out = append(out, api.ContainerSnapshot{
			Name: s.Name, Made: time.UnixMilli(s.MadeMS).UTC(), Entries: s.Entries, Bytes: s.Bytes, Shared: s.Shared, Paused: s.Paused, Damaged: s.Damaged,
		})
	}
	return out, nil
}

func detailsOf(d containers.Details, effective limit.Limits) api.ContainerDetails {
	out := api.ContainerDetails{Name: string(d.Name), CTID: d.CTID.String(), Runtime: d.Runtime, Ends: []api.ContainerEnd{}, Limits: []api.ContainerLimit{}, Ports: []string{}, InitPID: d.InitPID,
		Image: d.Template, Digest: d.Digest, Hostname: string(d.Settings.Hostname), Network: d.Settings.Network, Env: d.Settings.Env, Command: d.Settings.Command,
		Class: d.Class, Offline: d.Offline, Labels: slices.Concat([]string{}, d.Labels), Privileged: d.Privileged, Health: d.Settings.Health, Schedules: d.Settings.Schedules}
	if d.Runtime == string(container.KindLXC) {
		out.Rootfs = map[bool]string{true: "overlay", false: "copy"}[d.Shared]
	}
	if m := d.Settings.Moving; m != nil {
		out.Moving = &api.ContainerMove{To: m.To, Ran: m.Ran}
	}
	if d.Epoch != (protocol.Epoch{}) {
		out.Epoch = d.Epoch.String()
	}
	out.Volumes, out.Mounts = mount.Split(d.Settings.Mounts)
	for _, p := range d.Ports {
		out.Ports = append(out.Ports, p.String())
	}
	for _, e := range slices.Backward(d.Ends) {
		out.Ends = append(out.Ends, endOf(e))
	}
	all := make(limit.Limits)
	maps.Copy(all, effective)
	maps.Copy(all, d.Settings.Limits)
	for _, r := range slices.Sorted(maps.Keys(all)) {
		out.Limits = append(out.Limits, api.ContainerLimit{Resource: string(r), Set: d.Settings.Limits[r], Effective: effective[r]})
	}
	return out
}

func endOf(e queue.End) api.ContainerEnd {
	out := api.ContainerEnd{At: time.UnixMilli(e.AtMS).UTC(), OOM: e.OOM, Asked: e.Asked, Cause: string(e.Cause), Log: e.Log}
	switch {
	case e.Signal != 0:
		out.Signal = unix.SignalName(unix.Signal(e.Signal))
	case e.Known:
		out.Code = &e.Code
	}
	return out
}
