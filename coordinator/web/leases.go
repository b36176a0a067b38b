package web

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/coordinator/workloads"
	"github.com/hostler-io/hostler/internal/webapi"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/unique"
)

// leaseHandlers answer about unique containers.
type leaseHandlers struct{ *handlers }

func (h leaseHandlers) leases() {
	register(h.handlers, h.get("list-leases", "/v1/leases", "List the unique containers, with the host that may run each"), h.listLeases)
	register(h.handlers, h.operation("plan-placement", http.MethodPost, "/v1/placement/plan", "Tell what placement would change, now or if the fleet had other hosts; it changes nothing", http.StatusOK), h.planPlacement)
	register(h.handlers, h.get("get-placement", "/v1/placement/{container}", "Show what each host says to a unique container, and what became of it"), h.getPlacement)
	register(h.handlers, h.operation("move-container", http.MethodPost, "/v1/placement/{container}/move", "Move a unique container to a host; it is refused before anything is stopped if that host cannot take it", http.StatusAccepted), h.move)
	register(h.handlers, h.operation("set-placement", http.MethodPut, "/v1/placement/{container}", "Say on which hosts a unique container may be", http.StatusOK), h.setPlacement)
}

func leaseOf(s workloads.Status) api.Lease {
	l := api.Lease{
		Name: string(s.Name), CTID: s.CTID.String(), Host: string(s.Host), Epoch: s.Epoch.String(), Phase: string(s.Phase), Why: s.Why,
		LeftMS: s.LeftMS, SelfFence: string(s.Fence), Data: string(s.Data), Restored: s.Restored, Keeps: s.Keeps, Copies: s.Copies, ChangedAt: webapi.At(s.ChangedMS),
	}
	if s.Move.To != "" {
		m := moveOf(s.Move)
		l.Move = &m
	}
	if s.Moved.To != "" {
		l.Moved = &api.MoveEnd{Move: moveOf(s.Moved.Move), Dropped: s.Moved.Why, EndedAt: webapi.At(s.Moved.EndMS)}
	}
	for _, host := range slices.Sorted(maps.Keys(s.Failed)) {
		l.Banned = append(l.Banned, string(host)+": "+s.Failed[host].Why)
	}
	return l
}

func moveOf(m unique.Move) api.Move {
	return api.Move{To: string(m.To), By: m.By, Reason: m.Reason, At: webapi.At(m.AtMS)}
}

func (h leaseHandlers) move(ctx context.Context, in *struct {
	ContainerRef
	Body api.AskMove
}) (*placementAnswer, error) {
	to, err := protocol.ParseHostID(in.Body.Host)
	if err != nil {
		return nil, invalid(fmt.Errorf("host: %w", err))
	}
	if err := h.c.Workloads().Move(ctx, actor(ctx), in.Container, to, in.Body.Reason); err != nil {
		return nil, err
	}
	return h.getPlacement(ctx, &in.ContainerRef)
}

func (h leaseHandlers) listLeases(ctx context.Context, in *struct {
	Listing
	Limit1000
}) (*listed[api.Lease], error) {
	leases := source[workloads.Status, api.Lease]{
		show:   leaseOf,
		states: func(s workloads.Status) []string { return []string{string(s.Phase)} },
		words:  []string{string(unique.Held), string(unique.Withheld), string(unique.Free)},
		at:     func(s workloads.Status) int64 { return s.ChangedMS },
	}
	all := leases.small(func(s workloads.Status) string { return s.CTID.String() }, func(context.Context) ([]workloads.Status, error) {
		return h.c.Workloads().List(), nil
	})
	return all.page(ctx, &in.Listing, in.Limit)
}
