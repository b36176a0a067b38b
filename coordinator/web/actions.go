package web

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/coordinator/actions"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/protocol"
)

// maxWait is how long one request may wait for an action. Whoever wants to
// wait longer asks again.
const maxWait = 10 * time.Minute

// actionRef names an action, and how long to wait for its end.
type actionRef struct {
	ID   string `path:"id" maxLength:"36" doc:"Action id, or a prefix of at least 4 characters that no other has"`
	Wait string `query:"wait" maxLength:"30" doc:"Answer when the action has ended, at the latest after this time (30s, at most 10m)"`
}

// actionAnswer is 200 with an action that has ended, else 202 and where to
// look.
type actionAnswer struct {
	Status   int
	Location string `header:"Location"`
	Body     api.Action
}

func (h actionHandlers) actions(doc huma.API) {
	huma.Register(doc, operation(doc, "list-actions", http.MethodGet, "/v1/actions", "List actions, the newest first, without their specs", http.StatusOK), h.listActions)
	huma.Register(doc, operation(doc, "get-action", http.MethodGet, "/v1/actions/{id}", "Show an action", http.StatusOK), h.getAction)
	huma.Register(doc, accepted(doc, "create-action", "/v1/actions", "Ask for an action"), h.createAction)
	huma.Register(doc, accepted(doc, "reissue-action", "/v1/actions/{id}/reissue", "Ask under a new id for what a conflict kept from being done"), h.reissueAction)
	huma.Register(doc, accepted(doc, "cancel-action", "/v1/actions/{id}/cancel", "Cancel an action"), h.cancelAction)
}

// accepted declares an operation that starts something.
func accepted(doc huma.API, id, path, summary string) huma.Operation {
	op := operation(doc, id, http.MethodPost, path, summary, http.StatusAccepted)
	op.Responses["200"] = &huma.Response{
		Description: "The action has ended, or it was a dry run.",
		Content:     map[string]*huma.MediaType{"application/json": {Schema: &huma.Schema{Ref: schemaPrefix + "Action"}}},
	}
	return op
}

func (h actionHandlers) listActions(ctx context.Context, in *struct {
	Host   string   `query:"host" maxLength:"63"`
	Batch  string   `query:"batch" maxLength:"36" doc:"Only actions of this batch"`
	State  []string `query:"state" maxItems:"8" doc:"Only actions in one of these states, separated by commas"`
	Before string   `query:"before" maxLength:"36" doc:"Only actions older than this one"`
	Limit  int      `query:"limit" minimum:"1" maximum:"1000" default:"100"`
}) (*body[[]api.Action], error) {
	f := core.ActionFilter{Host: protocol.HostID(in.Host), Limit: in.Limit}
	for _, s := range in.State {
		if !slices.Contains(protocol.States(), protocol.State(s)) {
			return nil, h.fail(ctx, fmt.Errorf("%w: %.40q is no state: want %v", core.ErrInvalid, s, protocol.States()))
		}
		f.States = append(f.States, protocol.State(s))
	}
	if in.Batch != "" {
		id, err := protocol.ParseBatchID(in.Batch)
		if err != nil {
			return nil, h.fail(ctx, fmt.Errorf("%w: %w", core.ErrInvalid, err))
		}
		f.Batch = id
	}
	if in.Before != "" {
		id, err := h.c.Actions().Resolve(ctx, in.Before)
		if err != nil {
			return nil, h.fail(ctx, err)
		}
		f.Before = id
	}
	all, err := h.c.Actions().List(ctx, f)
	if err != nil {
		return nil, h.fail(ctx, err)
	}
	return &body[[]api.Action]{list(all, h.actionOf)}, nil
}

func (h actionHandlers) getAction(ctx context.Context, in *struct {
	ID   string `path:"id" maxLength:"36" doc:"Action id, or a prefix of at least 4 characters that no other has"`
	Wait string `query:"wait" maxLength:"30" doc:"Answer when the action has ended, at the latest after this time (30s, at most 10m)"`
	Why  bool   `query:"why" doc:"Ask its host why it waits, if only that can know; it may take a second"`
}) (*body[api.Action], error) {
	id, err := h.c.Actions().Resolve(ctx, in.ID)
	if err != nil {
		return nil, h.fail(ctx, err)
	}
	following := h.c.Actions().Follow(id)
	defer following.Close()
	a, err := h.c.Actions().Get(ctx, id)
	if err == nil && in.Wait != "" {
		a, err = h.wait(ctx, following, a, in.Wait)
	}
	if err != nil {
		return nil, h.fail(ctx, fmt.Errorf("action %s: %w", id, err))
	}
	waits := h.c.Explain().Waiting(a)
	if in.Why {
		if waits, err = h.c.Explain().Why(ctx, a); err != nil {
			return nil, h.fail(ctx, fmt.Errorf("action %s: %w", id, err))
		}
	}
	out := h.wholeAction(a)
	out.Waits = waitsOf(waits)
	return &body[api.Action]{out}, nil
}

func (h actionHandlers) createAction(ctx context.Context, in *struct {
	Wait   string `query:"wait" maxLength:"30" doc:"Answer when the action has ended, at the latest after this time (30s, at most 10m)"`
	DryRun bool   `query:"dry_run" doc:"Only tell what would become of it, and which approvals it would need"`
	Body   api.NewAction
}) (*actionAnswer, error) {
	r := actions.Request{Spec: in.Body.Spec}
	var err error
	if r.Host, err = protocol.ParseHostID(in.Body.Host); err == nil && in.Body.ID != "" {
		r.ID, err = protocol.ParseActionID(in.Body.ID)
	}
	if err == nil && in.Body.Batch != "" {
		r.Batch, err = protocol.ParseBatchID(in.Body.Batch)
	}
	if err != nil {
		return nil, h.fail(ctx, fmt.Errorf("%w: %w", core.ErrInvalid, err))
	}
	if _, err := parseWait(in.Wait); err != nil {
		return nil, h.fail(ctx, err) // before anything has happened
	}
	if in.DryRun {
		a, err := h.c.Actions().Plan(ctx, actor(ctx), r)
		if err != nil {
			return nil, h.fail(ctx, err)
		}
		return &actionAnswer{Status: http.StatusOK, Body: h.wholeAction(a)}, nil
	}
	if r.ID.IsZero() {
		r.ID = h.c.Actions().NewActionID()
	}
	following := h.c.Actions().Follow(r.ID) // before it exists, so that nothing is missed and nothing read again
	defer following.Close()
	a, err := h.c.Actions().Propose(ctx, actor(ctx), r)
	if err != nil {
		return nil, h.fail(ctx, err)
	}
	return h.answer(ctx, following, a, in.Wait)
}

func (h actionHandlers) reissueAction(ctx context.Context, in *struct {
	ID   string `path:"id" maxLength:"36" doc:"Action id, or a prefix of at least 4 characters that no other has"`
	Wait string `query:"wait" maxLength:"30" doc:"Answer when the new action has ended, at the latest after this time (30s, at most 10m)"`
	Body api.Reissue
}) (*actionAnswer, error) {
	if _, err := parseWait(in.Wait); err != nil {
		return nil, h.fail(ctx, err)
	}
	id, err := h.c.Actions().Resolve(ctx, in.ID)
	as := h.c.Actions().NewActionID()
	if err == nil && in.Body.ID != "" {
		if as, err = protocol.ParseActionID(in.Body.ID); err != nil {
			err = fmt.Errorf("%w: %w", core.ErrInvalid, err)
		}
	}
	if err != nil {
		return nil, h.fail(ctx, err)
	}
	following := h.c.Actions().Follow(as)
	defer following.Close()
	a, err := h.c.Actions().Reissue(ctx, actor(ctx), id, as)
	if err != nil {
		return nil, h.fail(ctx, fmt.Errorf("action %s: %w", id, err))
	}
	return h.answer(ctx, following, a, in.Wait)
}

func (h actionHandlers) cancelAction(ctx context.Context, in *actionRef) (*actionAnswer, error) {
	if _, err := parseWait(in.Wait); err != nil {
		return nil, h.fail(ctx, err)
	}
	id, err := h.c.Actions().Resolve(ctx, in.ID)
	if err != nil {
		return nil, h.fail(ctx, err)
	}
	following := h.c.Actions().Follow(id)
	defer following.Close()
	a, err := h.c.Actions().Cancel(ctx, actor(ctx), id)
	if err != nil {
		return nil, h.fail(ctx, fmt.Errorf("action %s: %w", id, err))
	}
	return h.answer(ctx, following, a, in.Wait)
}

// answer waits if that was asked for, and tells how far the action has come.
func (h actionHandlers) answer(ctx context.Context, f *actions.Following, a core.Action, wait string) (*actionAnswer, error) {
	a, err := h.wait(ctx, f, a, wait)
	if err != nil {
		return nil, h.fail(ctx, err)
	}
	out := &actionAnswer{Status: http.StatusAccepted, Location: "/v1/actions/" + a.ID.String(), Body: h.wholeAction(a)}
	if a.State.Final() {
		out.Status = http.StatusOK
	}
	return out, nil
}

func (h actionHandlers) wait(ctx context.Context, f *actions.Following, a core.Action, wait string) (core.Action, error) {
	d, err := parseWait(wait)
	if err != nil || d == 0 || a.State.Final() {
		return a, err
	}
	ctx, stop := untilDrained(ctx)
	defer stop()
	return f.Wait(ctx, a, d)
}

// parseWait reads the wish to wait; none is none.
func parseWait(s string) (time.Duration, error) {
	if s == "" {
		return 0, nil
	}
	d, err := parseDuration("wait", s)
	if err == nil && d > maxWait {
		err = fmt.Errorf("%w: wait %s is longer than %s; ask again when it has passed", core.ErrInvalid, s, maxWait)
	}
	return d, err
}
