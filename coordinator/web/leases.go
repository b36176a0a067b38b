package web

import (
	"context"
	"maps"
	"net/http"
	"slices"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/coordinator/workloads"
	"github.com/hostler-io/hostler/internal/webapi"
	"github.com/hostler-io/hostler/unique"
)

// leaseHandlers answer about unique containers.
type leaseHandlers struct{ *handlers }

func (h leaseHandlers) leases() {
	register(h.handlers, h.get("list-leases", "/v1/leases", "List the unique containers, with the host that may run each"), h.listLeases)
	register(h.handlers, h.operation("plan-placement", http.MethodPost, "/v1/placement/plan", "Tell what placement would change, now or if the fleet had other hosts; it changes nothing", http.StatusOK), h.planPlacement)
	serve(h.handlers, h.get("get-placement", "/v1/placement/{container}", "Show what each host says to a unique container, and what became of it"), h.getPlacement)
	serve(h.handlers, h.operation("set-placement", http.MethodPut, "/v1/placement/{container}", "Say on which hosts a unique container may be", http.StatusOK), h.setPlacement)
}

func leaseOf(s workloads.Status) api.Lease {
	l := api.Lease{
		Name: string(s.Name), CTID: s.CTID.String(), Host: string(s.Host), Epoch: s.Epoch.String(), Phase: string(s.Phase), Why: s.Why,
		LeftMS: s.LeftMS, SelfFence: string(s.Fence), Data: string(s.Data), Keeps: s.Keeps, Copies: s.Copies, ChangedAt: webapi.At(s.ChangedMS),
	}
	for _, host := range slices.Sorted(maps.Keys(s.Failed)) {
		l.Banned = append(l.Banned, string(host)+": "+s.Failed[host].Why)
	}
	return l
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
