package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/coordinator"
	"github.com/hostler-io/hostler/coordinator/actions"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/internal/webapi"
	"github.com/hostler-io/hostler/protocol"
)

// BatchRef names a batch.
type BatchRef struct {
	ID string `path:"id" minLength:"36" maxLength:"36" doc:"Batch id"`
}

func (r BatchRef) id() (protocol.BatchID, error) {
	id, err := protocol.ParseBatchID(r.ID)
	return id, invalid(err)
}

// batchAnswer is a batch and where to look for it.
type batchAnswer struct {
	Location string `header:"Location"`
	Body     api.Batch
}

func (h actionHandlers) batches() {
	register(h.handlers, h.operation("create-batch", http.MethodPost, "/v1/batches", "Ask for the same action on many hosts", http.StatusAccepted), h.createBatch)
	register(h.handlers, h.get("list-batches", "/v1/batches", "List batches, the newest first: by the newest action of each; a page may hold fewer than its limit"), h.listBatches)
	serve(h.handlers, h.get("get-batch", "/v1/batches/{id}", "Show a batch and its actions, without their specs"), h.getBatch)
	register(h.handlers, h.operation("cancel-batch", http.MethodPost, "/v1/batches/{id}/cancel", "Cancel every action of a batch that has not ended", http.StatusAccepted), h.cancelBatch)
	op := h.raw("follow-batch", "/v1/batches/{id}/events", "Follow all actions of a batch until they have ended", "text/event-stream",
		"Server-sent events: `action` with an action, without its spec, as it stands at first and after each change; `output` with a piece of output, if that is asked for; "+
			"`end` when all have ended and all of their output was sent. A new request starts from the beginning.")
	register(h.handlers, op, h.followBatch)
}

func (h actionHandlers) createBatch(ctx context.Context, in *body[api.NewBatch]) (*batchAnswer, error) {
	r, err := batchRequest(&in.Body)
	if err != nil {
		return nil, invalid(err)
	}
	if r.ID.IsZero() {
		r.ID = protocol.BatchID(h.newActionID(ctx))
	}
	id, all, err := h.c.Actions().ProposeMany(ctx, actor(ctx), r)
	if err != nil {
		return nil, err
	}
	out := &batchAnswer{Location: "/v1/batches/" + id.String()}
	var actions []core.Action
	var refused []api.Refusal
	for _, p := range all {
		if p.Refused == nil {
			actions = append(actions, p.Action)
			continue
		}
		problem := h.asProblemOf(ctx, p.Refused)
		refused = append(refused, api.Refusal{Host: string(p.Host), Code: problem.Code, Detail: problem.Detail})
	}
	out.Body = h.batchOf(id, actions)
	out.Body.Refused = refused
	return out, nil
}

// maxBatchSearch is how many actions one request looks at to find batches.
const maxBatchSearch = 10_000

// listBatches finds batches by their newest actions: one whose newest action is another
// one was on an earlier page.
func (h actionHandlers) listBatches(ctx context.Context, in *struct {
	Listing
	Limit int `query:"limit" minimum:"1" maximum:"100" default:"50" doc:"The most that one page holds"`
}) (*listed[api.BatchEntry], error) {
	batches := source[core.Action, api.BatchEntry]{at: func(a core.Action) int64 { return a.CreatedMS }}
	passes, err := batches.filter(&in.Listing)
	f := core.ActionFilter{Limit: pageStep}
	if err == nil && in.Cursor != "" {
		if f.Before, err = protocol.ParseActionID(in.Cursor); err != nil {
			err = fmt.Errorf("%w: cursor: it is none of this list", core.ErrInvalid)
		}
	}
	if err != nil {
		return nil, err
	}
	out := &listed[api.BatchEntry]{Body: []api.BatchEntry{}}
	seen := make(map[protocol.BatchID]bool)
	for looked := 0; looked < maxBatchSearch; looked += pageStep {
		page, err := h.c.Actions().List(ctx, f)
		if err != nil {
			return nil, err
		}
		for _, a := range page {
			if a.Batch.IsZero() || seen[a.Batch] || !passes(a) {
				f.Before = a.ID
				continue
			}
			if len(out.Body) == in.Limit {
				out.Next = f.Before.String()
				return out, nil
			}
			f.Before, seen[a.Batch] = a.ID, true
			newest, err := h.c.Actions().List(ctx, core.ActionFilter{Batch: a.Batch, Limit: 1})
			if err != nil {
				return nil, err
			}
			if len(newest) == 1 && newest[0].ID == a.ID {
				out.Body = append(out.Body, api.BatchEntry{ID: a.Batch.String(), Kind: string(a.Kind), Requester: a.Requester, At: webapi.At(a.CreatedMS)})
			}
		}
		if len(page) < pageStep {
			return out, nil
		}
	}
	out.Next = f.Before.String()
	return out, nil
}

func batchRequest(n *api.NewBatch) (r actions.BatchRequest, err error) {
	r.Operations, r.AtOnce = n.Operations, n.AtOnce
	if n.Kind != "" || len(n.Spec) > 0 {
		if kind, _ := protocol.KindOf(protocol.Kind(n.Kind)); kind.OnContainer() {
			return r, fmt.Errorf("kind: %s is about one container of one host; ask each host for an action", n.Kind)
		}
		if r.Spec, err = webapi.Spec(&api.NewAction{Kind: n.Kind, Args: n.Args, Spec: n.Spec}, protocol.ActionID{}, nil); err != nil {
			return r, err
		}
	}
	if n.ID != "" {
		if r.ID, err = protocol.ParseBatchID(n.ID); err != nil {
			return r, err
		}
	}
	if n.Digest != "" {
		if r.Digest, err = protocol.ParseDigest(n.Digest); err != nil {
			return r, err
		}
	}
	for _, s := range n.Hosts {
		host, err := protocol.ParseHostID(s)
		if err != nil {
			return r, err
		}
		r.Hosts = append(r.Hosts, host)
	}
	return r, nil
}

func (h actionHandlers) batchOf(id protocol.BatchID, all []core.Action) api.Batch {
	b := api.Batch{ID: id.String(), Actions: list(all, actionOf), States: make(map[string]int)}
	for i, a := range all {
		b.States[string(a.State)]++
		b.Actions[i].Waits = waitsOf(h.c.Explain().Waiting(a))
	}
	return b
}

func (h actionHandlers) getBatch(ctx context.Context, in *BatchRef) (api.Batch, error) {
	id, err := in.id()
	if err != nil {
		return api.Batch{}, err
	}
	all, err := h.c.Actions().Batch(ctx, id)
	return h.batchOf(id, all), err
}

func (h actionHandlers) cancelBatch(ctx context.Context, in *BatchRef) (*batchAnswer, error) {
	id, err := in.id()
	if err != nil {
		return nil, err
	}
	open, err := h.c.Actions().CancelBatch(ctx, actor(ctx), id)
	if err != nil {
		return nil, err
	}
	return &batchAnswer{Location: "/v1/batches/" + id.String(), Body: h.batchOf(id, open)}, nil
}

func (h actionHandlers) followBatch(ctx context.Context, in *struct {
	BatchRef
	Output bool `query:"output" doc:"Send the output of commands too"`
}) (*huma.StreamResponse, error) {
	id, err := in.id()
	if err != nil {
		return nil, err
	}
	f := h.c.Actions().FollowBatch(id)
	first, err := f.Next(ctx)
	if err != nil {
		f.Close()
		return nil, err
	}
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		defer f.Close()
		r, w := humago.Unwrap(hc)
		h.streamBatch(w, r, f, first, in.Output)
	}}, nil
}

// streamBatch writes what happens to the actions of a batch until all have
// ended, the reader goes or is too slow, or the server shuts down.
func (h actionHandlers) streamBatch(w http.ResponseWriter, r *http.Request, f *actions.BatchFollowing, first []core.Action, output bool) {
	h.feed.readers.Add(1)
	defer h.feed.readers.Add(-1)
	ctx, stop := untilDrained(r.Context())
	defer stop()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	conn := http.NewResponseController(w)
	err := newBatchStream(ctx, h.c, f, output).run(first, func(b []byte) error { return deliver(w, conn, b, eventPatience) })
	if err != nil && r.Context().Err() == nil && !errors.Is(err, errDrained) {
		h.log.DebugContext(ctx, "a reader of a batch is gone", "remote", r.RemoteAddr, "err", err)
		panic(http.ErrAbortHandler) // nothing more can be said on this connection
	}
}

// sse renders one event.
func sse(event string, v any) ([]byte, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("render %s: %w", event, err)
	}
	return fmt.Appendf(nil, "event: %s\ndata: %s\n\n", event, data), nil
}

// batchEvent renders an action for those who follow its batch.
func batchEvent(c *coordinator.Coordinator, a core.Action) ([]byte, error) {
	a.Spec = nil // nor the argv that would be read from it
	out := actionOf(a)
	out.Waits = waitsOf(c.Explain().Waiting(a))
	return sse("action", out)
}
