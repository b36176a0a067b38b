package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/coordinator/actions"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/protocol"
)

func (h actionHandlers) approvals(doc huma.API) {
	post := func(id, path, summary string) huma.Operation {
		return operation(doc, id, http.MethodPost, path, summary, http.StatusOK)
	}
	huma.Register(doc, post("give-approval", "/v1/approvals", "Give a person's approval of one spec on up to 500 hosts"), h.giveApproval)
	huma.Register(doc, post("approve-action", "/v1/actions/{id}/approve", "Give a person's approval, and show the action"), h.approveAction)
	huma.Register(doc, post("deny-action", "/v1/actions/{id}/deny", "End an action that waits for approval"), h.denyAction)
	huma.Register(doc, post("nudge-action", "/v1/actions/{id}/nudge", "Look at an action again; it changes nothing that would not change by itself"), h.nudgeAction)
	huma.Register(doc, operation(doc, "list-keys", http.MethodGet, "/v1/keys", "List the keys of the ring in force", http.StatusOK), h.listKeys)
}

// approvalRef is an approval and the action that it is given for.
type approvalRef struct {
	ID   string `path:"id" maxLength:"36" doc:"Action id, or a prefix of at least 4 characters that no other has"`
	Body api.NewApproval
}

func (h actionHandlers) giveApproval(ctx context.Context, in *body[api.NewApproval]) (*body[[]api.Approved], error) {
	given, err := h.give(ctx, in.Body, nil)
	if err != nil {
		return nil, err
	}
	return &body[[]api.Approved]{list(given, h.approvedOf)}, nil
}

// give hands an approval over. Without targets it is for one action alone.
func (h actionHandlers) give(ctx context.Context, in api.NewApproval, one *core.Action) ([]actions.Given, error) {
	var targets []protocol.Target
	if len(in.Targets) == 0 && one != nil {
		targets = []protocol.Target{{Host: one.Host, Action: one.ID}}
	}
	if len(in.Targets) > protocol.MaxTargets {
		return nil, h.fail(ctx, fmt.Errorf("%w: %d targets, at most %d are allowed", core.ErrInvalid, len(in.Targets), protocol.MaxTargets))
	}
	for _, t := range in.Targets {
		host, err := protocol.ParseHostID(t.Host)
		if err != nil {
			return nil, h.fail(ctx, fmt.Errorf("%w: targets: %w", core.ErrInvalid, err))
		}
		id, err := protocol.ParseActionID(t.Action)
		if err != nil {
			return nil, h.fail(ctx, fmt.Errorf("%w: targets: %w", core.ErrInvalid, err))
		}
		targets = append(targets, protocol.Target{Host: host, Action: id})
	}
	given, err := h.c.Actions().Approve(ctx, actor(ctx), in.Approval, targets)
	if err != nil {
		return nil, h.fail(ctx, err)
	}
	return given, nil
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
		p, _ := errors.AsType[problem](h.fail(context.Background(), g.Err)) // one of the sentinels: nothing is logged
		out.Code, out.Detail = p.Code, p.Detail
	}
	return out
}

func (h actionHandlers) approveAction(ctx context.Context, in *approvalRef) (*body[api.Action], error) {
	id, err := h.c.Actions().Resolve(ctx, in.ID)
	if err != nil {
		return nil, h.fail(ctx, err)
	}
	a, err := h.c.Actions().Get(ctx, id)
	if err != nil {
		return nil, h.fail(ctx, fmt.Errorf("action %s: %w", id, err))
	}
	given, err := h.give(ctx, in.Body, &a)
	if err != nil {
		return nil, err
	}
	for _, g := range given {
		if g.Target.Action == id {
			if g.Err != nil {
				return nil, h.fail(ctx, g.Err)
			}
			return &body[api.Action]{h.wholeAction(g.Action)}, nil
		}
	}
	return nil, h.fail(ctx, fmt.Errorf("%w: the approval does not name action %s", core.ErrInvalid, id))
}

func (h actionHandlers) denyAction(ctx context.Context, in *struct {
	ID   string `path:"id" maxLength:"36" doc:"Action id, or a prefix of at least 4 characters that no other has"`
	Body *api.Reason
}) (*body[api.Action], error) {
	reason := ""
	if in.Body != nil {
		reason = in.Body.Reason
	}
	return h.decided(ctx, in.ID, func(id protocol.ActionID) (core.Action, error) {
		return h.c.Actions().Deny(ctx, actor(ctx), id, reason)
	})
}

func (h actionHandlers) nudgeAction(ctx context.Context, in *struct {
	ID string `path:"id" maxLength:"36" doc:"Action id, or a prefix of at least 4 characters that no other has"`
}) (*body[api.Action], error) {
	return h.decided(ctx, in.ID, func(id protocol.ActionID) (core.Action, error) { return h.c.Actions().Nudge(ctx, actor(ctx), id) })
}

// decided does something with an action and shows it.
func (h actionHandlers) decided(ctx context.Context, ref string, do func(protocol.ActionID) (core.Action, error)) (*body[api.Action], error) {
	id, err := h.c.Actions().Resolve(ctx, ref)
	if err != nil {
		return nil, h.fail(ctx, err)
	}
	a, err := do(id)
	if err != nil {
		return nil, h.fail(ctx, fmt.Errorf("action %s: %w", id, err))
	}
	return &body[api.Action]{h.wholeAction(a)}, nil
}

func (h actionHandlers) listKeys(context.Context, *none) (*body[[]api.Key], error) {
	return &body[[]api.Key]{list(h.c.Keys(), func(m protocol.Member) api.Key {
		k := api.Key{Key: m.Key.String(), Roles: []string{}, Person: m.Person, Revoked: m.Revoked}
		for _, r := range m.Roles {
			k.Roles = append(k.Roles, string(r))
		}
		return k
	})}, nil
}
