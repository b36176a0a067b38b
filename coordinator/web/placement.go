package web

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/coordinator/workloads"
	"github.com/hostler-io/hostler/internal/webapi"
	"github.com/hostler-io/hostler/placement"
	"github.com/hostler-io/hostler/protocol"
)

// wantsOf reads on which hosts a container may be.
func wantsOf(p *api.Wishes) (w placement.Wants, err error) {
	var terms api.Selector
	if p.Selector != "" {
		if err := terms.Set(p.Selector); err != nil {
			return w, fmt.Errorf("place.selector: %w", err)
		}
	}
	for _, t := range terms.Terms {
		r := placement.Term(t.Key, t.Value, 0)
		if r.Must = !t.Not; t.Not {
			r.Score = -placement.Infinity
		}
		w.Rules = append(w.Rules, r)
	}
	for _, part := range []struct {
		name string
		all  []string
		sign int
	}{{"prefer", p.Prefer, 1}, {"avoid", p.Avoid, -1}} {
		for _, text := range part.all {
			r, err := placement.ParseRule(text)
			if err != nil {
				return w, fmt.Errorf("place.%s: %w", part.name, err)
			}
			r.Score *= part.sign
			w.Rules = append(w.Rules, r)
		}
	}
	for _, part := range []struct {
		name string
		all  []string
		sign int
	}{{"near", p.Near, 1}, {"apart", p.Apart, -1}} {
		for _, text := range part.all {
			n, err := placement.ParseNear(text)
			if err != nil {
				return w, fmt.Errorf("place.%s: %w", part.name, err)
			}
			n.Score *= part.sign
			w.Near = append(w.Near, n)
		}
	}
	for _, text := range p.Discover {
		d, err := placement.ParseDiscovery(text)
		if err != nil {
			return w, fmt.Errorf("place.discover: %w", err)
		}
		w.Discovery = append(w.Discovery, d)
	}
	w.Priority = p.Priority
	if err := w.Check(); err != nil {
		return w, fmt.Errorf("place: %w", err)
	}
	return w, nil
}

// placeOf writes it as it can be read again.
func placeOf(w placement.Wants) (p api.Wishes) {
	var terms []string
	for _, r := range w.Rules {
		text := "host=" + r.Host
		for k, v := range r.Labels {
			text = k + "=" + v
		}
		switch {
		case r.Must:
			terms = append(terms, text)
		case r.Score <= -placement.Infinity:
			terms = append(terms, strings.Replace(text, "=", "!=", 1))
		case r.Score < 0:
			p.Avoid = append(p.Avoid, fmt.Sprintf("%s:%d", text, -r.Score))
		default:
			p.Prefer = append(p.Prefer, fmt.Sprintf("%s:%d", text, r.Score))
		}
	}
	for _, n := range w.Near {
		text, to := n.Workload, &p.Near
		if n.Score < 0 {
			to = &p.Apart
		}
		if score := max(n.Score, -n.Score); score < placement.Infinity {
			text = fmt.Sprintf("%s:%d", text, score)
		}
		*to = append(*to, text)
	}
	for _, d := range w.Discovery {
		p.Discover = append(p.Discover, d.String())
	}
	p.Selector, p.Priority = strings.Join(terms, ","), w.Priority
	return p
}

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

func (h leaseHandlers) getPlacement(ctx context.Context, in *ContainerRef) (api.Placement, error) {
	e, err := h.c.Workloads().Explain(ctx, in.Container)
	if err != nil {
		return api.Placement{}, err
	}
	slices.SortStableFunc(e.Verdicts, func(a, b placement.Verdict) int {
		fits := func(v placement.Verdict) int { return min(1, len(v.Reason)) }
		return cmp.Or(cmp.Compare(fits(a), fits(b)), cmp.Compare(b.Score, a.Score))
	})
	return api.Placement{
		Lease: leaseOf(e.Status), Place: placeOf(e.Wants),
		Verdicts: list(e.Verdicts, func(v placement.Verdict) api.Verdict { return api.Verdict(v) }),
		History: list(e.History, func(s core.WorkloadStep) api.PlacementPast {
			return api.PlacementPast{At: webapi.At(s.AtMS), Host: string(s.Host), Epoch: s.Epoch.String(), Phase: string(s.Phase), Why: s.Why}
		}),
	}, nil
}

func (h leaseHandlers) setPlacement(ctx context.Context, in *struct {
	ContainerRef
	Body api.Wishes
}) (api.Placement, error) {
	wants, err := wantsOf(&in.Body)
	if err != nil {
		return api.Placement{}, invalid(err)
	}
	if err := h.c.Workloads().SetWants(ctx, actor(ctx), in.Container, wants); err != nil {
		return api.Placement{}, err
	}
	return h.getPlacement(ctx, &in.ContainerRef)
}
