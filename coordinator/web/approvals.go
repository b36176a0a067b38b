package web

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/coordinator/actions"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/protocol"
)

func (h actionHandlers) approvals() {
	post := func(id, path, summary string) huma.Operation {
		return h.operation(id, http.MethodPost, path, summary, http.StatusOK)
	}
	serve(h.handlers, post("give-approval", "/v1/approvals", "Give a person's approval of one spec on up to 500 hosts"), h.giveApproval)
	serve(h.handlers, post("approve-action", "/v1/actions/{id}/approve", "Give a person's approval, and show the action"), h.approveAction)
	serve(h.handlers, post("deny-action", "/v1/actions/{id}/deny", "End an action that waits for approval"), h.denyAction)
	serve(h.handlers, post("nudge-action", "/v1/actions/{id}/nudge", "Look at an action again; it changes nothing that would not change by itself"), h.nudgeAction)
	register(h.handlers, h.get("list-keys", "/v1/keys", "List the keys of the ring in force"), h.listKeys)
}

func (h actionHandlers) giveApproval(ctx context.Context, in *body[api.NewApproval]) ([]api.Approved, error) {
	given, err := h.give(ctx, in.Body, nil)
	return list(given, h.approvedOf), err
}

// give hands an approval over. Without targets it is for one action alone.
func (h actionHandlers) give(ctx context.Context, in api.NewApproval, one *core.Action) ([]actions.Given, error) {
	var targets []protocol.Target
	if len(in.Targets) == 0 && one != nil {
		targets = []protocol.Target{{Host: one.Host, Action: one.ID}}
	}
	if len(in.Targets) > protocol.MaxTargets {
		return nil, fmt.Errorf("%w: %d targets, at most %d are allowed", core.ErrInvalid, len(in.Targets), protocol.MaxTargets)
	}
	for _, t := range in.Targets {
		host, err := protocol.ParseHostID(t.Host)
		if err != nil {
			return nil, fmt.Errorf("%w: targets: %w", core.ErrInvalid, err)
		}
		id, err := protocol.ParseActionID(t.Action)
		if err != nil {
			return nil, fmt.Errorf("%w: targets: %w", core.ErrInvalid, err)
		}
		targets = append(targets, protocol.Target{Host: host, Action: id})
	}
	return h.c.Actions().Approve(ctx, actor(ctx), in.Approval, targets)
}

func (h actionHandlers) approvedOf(g actions.Given) api.Approved {
	out := api.Approved{Target: api.Target{Host: string(g.Target.Host), Action: g.Target.Action.String()}}
	if !g.Action.ID.IsZero() {
		out.State, out.Shown = string(g.Action.State), shown(g.Action)
		for _, n := range g.Action.Needs {
			out.Missing = max(out.Missing, h.c.Approvals().Missing(g.Action, n))
		}
	}
	if g.Err != nil {
		p := h.asProblemOf(context.Background(), g.Err) // one of the sentinels: nothing is logged
		out.Code, out.Detail = p.Code, p.Detail
	}
	return out
}

func (h actionHandlers) approveAction(ctx context.Context, in *struct {
	ActionRef
	Body api.NewApproval
}) (out api.Action, err error) {
	id, err := h.c.Actions().Resolve(ctx, in.ID)
	if err != nil {
		return out, err
	}
	a, err := h.c.Actions().Get(ctx, id)
	if err != nil {
		return out, ofAction(id, err)
	}
	given, err := h.give(ctx, in.Body, &a)
	if err != nil {
		return out, err
	}
	i := slices.IndexFunc(given, func(g actions.Given) bool { return g.Target.Action == id })
	if i < 0 {
		return out, fmt.Errorf("%w: the approval does not name action %s", core.ErrInvalid, id)
	}
	return h.wholeAction(given[i].Action), given[i].Err
}

func (h actionHandlers) denyAction(ctx context.Context, in *struct {
	ActionRef
	Body *api.Reason
}) (api.Action, error) {
	return h.decided(ctx, in.ID, func(id protocol.ActionID) (core.Action, error) {
		return h.c.Actions().Deny(ctx, actor(ctx), id, orZero(in.Body).Reason)
	})
}

func (h actionHandlers) nudgeAction(ctx context.Context, in *ActionRef) (api.Action, error) {
	return h.decided(ctx, in.ID, func(id protocol.ActionID) (core.Action, error) { return h.c.Actions().Nudge(ctx, actor(ctx), id) })
}

// decided does something with an action and shows it.
func (h actionHandlers) decided(ctx context.Context, ref string, do func(protocol.ActionID) (core.Action, error)) (api.Action, error) {
	id, err := h.c.Actions().Resolve(ctx, ref)
	if err != nil {
		return api.Action{}, err
	}
	a, err := do(id)
	if err != nil {
		return api.Action{}, ofAction(id, err)
	}
	return h.wholeAction(a), nil
}

func (h actionHandlers) listKeys(ctx context.Context, in *struct {
	Listing
	Limit1000
}) (*listed[api.Key], error) {
	roles := func(m protocol.Member) []string {
		return list(m.Roles, func(r protocol.Role) string { return string(r) })
	}
	keys := source[protocol.Member, api.Key]{
		show: func(m protocol.Member) api.Key {
			return api.Key{Key: m.Key.String(), Roles: roles(m), Person: m.Person, Revoked: m.Revoked}
		},
		at: func(protocol.Member) int64 { return 0 }, // a ring tells no times
	}
	all := keys.small(func(m protocol.Member) string { return m.Key.String() }, func(context.Context) ([]protocol.Member, error) { return h.c.Keys(), nil })
	return all.page(ctx, &in.Listing, in.Limit)
}
