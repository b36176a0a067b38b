package web

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/coordinator/wishes"
	"github.com/hostler-io/hostler/coordinator/workloads"
	"github.com/hostler-io/hostler/internal/webapi"
	"github.com/hostler-io/hostler/placement"
	"github.com/hostler-io/hostler/protocol"
)

// ContainerRef names a unique container.
type ContainerRef struct {
	Container string `path:"container" maxLength:"64" doc:"The name of the unique container, or its id"`
}

func (h leaseHandlers) planPlacement(ctx context.Context, in *struct{ Body *api.WhatIf }) (*listed[api.PlacementStep], error) {
	q := workloads.WhatIf{}
	for _, name := range orZero(in.Body).Lose {
		id, err := protocol.ParseHostID(name)
		if err != nil {
			return nil, invalid(fmt.Errorf("lose: %w", err))
		}
		if _, err := h.c.Members().Host(ctx, id); err != nil {
			return nil, err
		}
		q.Lose = append(q.Lose, id)
	}
	for _, a := range orZero(in.Body).Add {
		id, err := protocol.ParseHostID(a.Name)
		if err != nil {
			return nil, invalid(fmt.Errorf("add: %w", err))
		}
		if _, err := h.c.Members().Host(ctx, id); err == nil {
			return nil, fmt.Errorf("%w: add: host %s is there already", core.ErrConflict, id)
		}
		host := placement.Host{Name: a.Name, Labels: make(map[string]string), Has: placement.Size{CPU: int64(a.CPUs * 1000), Memory: a.Memory, Disk: a.Disk}}
		for _, l := range a.Labels {
			k, v, ok := strings.Cut(l, "=")
			if !ok {
				return nil, fmt.Errorf("%w: add: label %.60q: want NAME=VALUE", core.ErrInvalid, l)
			}
			host.Labels[k] = v
		}
		q.Add = append(q.Add, host)
	}
	steps, err := h.c.Workloads().Plan(ctx, q)
	return &listed[api.PlacementStep]{Body: list(steps, func(s workloads.Step) api.PlacementStep {
		return api.PlacementStep{Name: s.Workload, CTID: s.CTID.String(), From: s.From, To: s.To, Why: s.Why, For: s.For, Stays: s.Stays}
	})}, err
}

// placementAnswer is a placement, and how its wishes are named.
type placementAnswer struct {
	ETag string `header:"ETag" doc:"Names the wishes as they are, for If-Match"`
	Body api.Placement
}

func (h leaseHandlers) getPlacement(ctx context.Context, in *ContainerRef) (*placementAnswer, error) {
	e, err := h.c.Workloads().Explain(ctx, in.Container)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(e.Verdicts, func(a, b placement.Verdict) int {
		fits := func(v placement.Verdict) int { return min(1, len(v.Reason)) }
		return cmp.Or(cmp.Compare(fits(a), fits(b)), cmp.Compare(b.Score, a.Score))
	})
	p := api.Placement{
		Lease: leaseOf(e.Status), Place: wishes.Text(e.Wants),
		Verdicts: list(e.Verdicts, func(v placement.Verdict) api.Verdict { return api.Verdict(v) }),
		History: list(e.History, func(s core.WorkloadStep) api.PlacementPast {
			return api.PlacementPast{At: webapi.At(s.AtMS), Host: string(s.Host), Epoch: s.Epoch.String(), Phase: string(s.Phase), Why: s.Why}
		}),
	}
	return &placementAnswer{settingTag(core.Tag(e.Wants), p), p}, nil
}

func (h leaseHandlers) setPlacement(ctx context.Context, in *struct {
	ContainerRef
	Replacing
	Body api.Wishes
}) (*placementAnswer, error) {
	as, err := in.setting()
	if err != nil {
		return nil, err
	}
	wants, err := wishes.Read(&in.Body)
	if err != nil {
		return nil, invalid(err)
	}
	if err := h.c.Workloads().SetWants(ctx, actor(ctx), in.Container, wants, as); err != nil {
		return nil, err
	}
	return h.getPlacement(ctx, &in.ContainerRef)
}
