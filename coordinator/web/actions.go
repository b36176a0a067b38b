package web

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/coordinator/actions"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/coordinator/wishes"
	"github.com/hostler-io/hostler/protocol"
)

// maxWait is the longest time that one request may wait for an action. A client that
// wants to wait longer asks again.
const maxWait = 10 * time.Minute

// ActionRef names an action.
type ActionRef struct {
	ID string `path:"id" maxLength:"36" doc:"Action id, or at least 4 characters with which no other begins or ends"`
}

// Waiting says how long a request waits for the end of an action.
type Waiting struct {
	Wait string `query:"wait" maxLength:"30" doc:"Answer when the action has ended, at the latest after this time (30s, at most 10m)"`
}

// actionAnswer is 200 with an action that has ended, else 202 and where to
// look.
type actionAnswer struct {
	Status   int
	Location string `header:"Location"`
	Body     api.Action
}

func (h actionHandlers) actions() {
	register(h.handlers, h.get("list-actions", "/v1/actions", "List actions, the newest first, without their specs"), h.listActions)
	serve(h.handlers, h.get("get-action", "/v1/actions/{id}", "Show an action"), h.getAction)
	register(h.handlers, h.accepted("create-action", "/v1/actions", "Ask for an action"), h.createAction)
	register(h.handlers, h.accepted("reissue-action", "/v1/actions/{id}/reissue", "Ask under a new id for what a conflict kept from being done"), h.reissueAction)
	register(h.handlers, h.accepted("cancel-action", "/v1/actions/{id}/cancel", "Cancel an action"), h.cancelAction)
}

// accepted declares an operation that starts something.
func (h *handlers) accepted(id, path, summary string) huma.Operation {
	op := h.operation(id, http.MethodPost, path, summary, http.StatusAccepted)
	op.Responses["200"] = &huma.Response{
		Description: "The action has ended, or it was a dry run.",
		Content:     map[string]*huma.MediaType{"application/json": {Schema: &huma.Schema{Ref: schemaPrefix + "Action"}}},
	}
	return op
}

func (h actionHandlers) listActions(ctx context.Context, in *struct {
	Listing
	Host  string `query:"host" maxLength:"63" doc:"Only actions of this host"`
	Batch string `query:"batch" maxLength:"36" doc:"Only actions of this batch"`
	Limit int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"The most that one page holds"`
}) (_ *listed[api.Action], err error) {
	f := core.ActionFilter{Host: protocol.HostID(in.Host)}
	for _, s := range in.State {
		f.States = append(f.States, protocol.State(s))
	}
	if in.Batch != "" {
		if f.Batch, err = protocol.ParseBatchID(in.Batch); err != nil {
			return nil, invalid(err)
		}
	}
	labels := make(map[protocol.HostID][]string)
	if in.Label != "" {
		if labels, err = h.hostLabels(ctx); err != nil {
			return nil, err
		}
	}
	all := source[core.Action, api.Action]{
		read: func(ctx context.Context, cursor string, n int) ([]core.Action, error) {
			f.Limit = n
			if cursor != "" {
				if f.Before, err = protocol.ParseActionID(cursor); err != nil {
					return nil, fmt.Errorf("%w: cursor: it is none of this list", core.ErrInvalid)
				}
			}
			return h.c.Actions().List(ctx, f)
		},
		cursor: func(a core.Action) string { return a.ID.String() },
		show:   h.actionOf,
		labels: func(a core.Action) []string { return labels[a.Host] },
		states: func(a core.Action) []string { return []string{string(a.State)} },
		words:  only(protocol.States()).words,
		at:     func(a core.Action) int64 { return a.CreatedMS },
	}
	return all.page(ctx, &in.Listing, in.Limit)
}

// hostLabels returns the labels of all hosts.
func (h actionHandlers) hostLabels(ctx context.Context) (map[protocol.HostID][]string, error) {
	all := make(map[protocol.HostID][]string)
	for after := protocol.HostID(""); ; {
		views, err := h.c.Members().Hosts(ctx, after, containerStep)
		for _, v := range views {
			all[v.ID], after = v.Labels, v.ID
		}
		if err != nil || len(views) < containerStep {
			return all, err
		}
	}
}

func (h actionHandlers) getAction(ctx context.Context, in *struct {
	ActionRef
	Waiting
	Why bool `query:"why" doc:"Ask its host why it waits, if only that can know; it may take a second"`
}) (out api.Action, err error) {
	wait, err := parseWait(in.Wait)
	if err != nil {
		return out, err
	}
	id, err := h.c.Actions().Resolve(ctx, in.ID)
	if err != nil {
		return out, err
	}
	following := h.c.Actions().Follow(id)
	defer following.Close()
	a, err := h.c.Actions().Get(ctx, id)
	if err == nil {
		a, err = h.wait(ctx, following, a, wait)
	}
	if err != nil {
		return out, ofAction(id, err)
	}
	waits := h.c.Explain().Waiting(a)
	if in.Why {
		if waits, err = h.c.Explain().Why(ctx, a); err != nil {
			return out, ofAction(id, err)
		}
	}
	out = h.wholeAction(a)
	out.Waits = waitsOf(waits)
	return out, nil
}

func (h actionHandlers) createAction(ctx context.Context, in *struct {
	Waiting
	DryRun bool `query:"dry_run" doc:"Only tell what would become of it, and which approvals it would need"`
	Body   api.NewAction
}) (*actionAnswer, error) {
	var r actions.Request
	var err error
	if r.Place = in.Body.Host == "" && in.Body.Place != nil; !r.Place {
		r.Host, err = protocol.ParseHostID(in.Body.Host)
	}
	if err == nil && in.Body.Place != nil {
		r.Wants, err = wishes.Read(in.Body.Place)
	}
	if err == nil && in.Body.ID != "" {
		r.ID, err = protocol.ParseActionID(in.Body.ID)
	}
	if err == nil && in.Body.Batch != "" {
		r.Batch, err = protocol.ParseBatchID(in.Body.Batch)
	}
	if err != nil {
		return nil, invalid(err)
	}
	if r.ID.IsZero() {
		r.ID = h.newActionID(ctx)
	}
	if r.Spec, err = h.spec(ctx, &in.Body, r.ID); err != nil {
		return nil, err
	}
	if in.DryRun {
		a, err := h.c.Actions().Plan(ctx, actor(ctx), r)
		if err != nil {
			return nil, err
		}
		return &actionAnswer{Status: http.StatusOK, Body: h.wholeAction(a)}, nil
	}
	return h.answer(ctx, r.ID, in.Wait, func() (core.Action, error) { return h.c.Actions().Propose(ctx, actor(ctx), r) })
}

func (h actionHandlers) reissueAction(ctx context.Context, in *struct {
	ActionRef
	Wait string `query:"wait" maxLength:"30" doc:"Answer when the new action has ended, at the latest after this time (30s, at most 10m)"`
	Body api.Reissue
}) (*actionAnswer, error) {
	id, err := h.c.Actions().Resolve(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	as := h.newActionID(ctx)
	if in.Body.ID != "" {
		if as, err = protocol.ParseActionID(in.Body.ID); err != nil {
			return nil, invalid(err)
		}
	}
	return h.answer(ctx, as, in.Wait, func() (core.Action, error) {
		a, err := h.c.Actions().Reissue(ctx, actor(ctx), id, as)
		return a, ofAction(id, err)
	})
}

func (h actionHandlers) cancelAction(ctx context.Context, in *struct {
	ActionRef
	Waiting
}) (*actionAnswer, error) {
	id, err := h.c.Actions().Resolve(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return h.answer(ctx, id, in.Wait, func() (core.Action, error) {
		a, err := h.c.Actions().Cancel(ctx, actor(ctx), id)
		return a, ofAction(id, err)
	})
}

// answer does something with an action, waits for its end if that was asked for, and
// tells how far the action has come. The action is followed before it exists, so that
// no change is missed and nothing is read again.
func (h actionHandlers) answer(ctx context.Context, id protocol.ActionID, wait string, do func() (core.Action, error)) (*actionAnswer, error) {
	d, err := parseWait(wait)
	if err != nil {
		return nil, err
	}
	following := h.c.Actions().Follow(id)
	defer following.Close()
	a, err := do()
	if err == nil {
		a, err = h.wait(ctx, following, a, d)
	}
	if err != nil {
		return nil, err
	}
	out := &actionAnswer{Status: http.StatusAccepted, Location: "/v1/actions/" + a.ID.String(), Body: h.wholeAction(a)}
	if a.State.Final() {
		out.Status = http.StatusOK
	}
	return out, nil
}

func (h actionHandlers) wait(ctx context.Context, f *actions.Following, a core.Action, d time.Duration) (core.Action, error) {
	if d == 0 || a.State.Final() {
		return a, nil
	}
	ctx, stop := untilDrained(ctx)
	defer stop()
	return f.Wait(ctx, a, d)
}

// parseWait reads how long to wait; an empty text is 0.
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

// ofAction names the action that an error is about.
func ofAction(id protocol.ActionID, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("action %s: %w", id, err)
}
