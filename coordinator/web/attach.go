package web

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/coordinator/relay"
	"github.com/hostler-io/hostler/internal/attach"
)

func (h actionHandlers) sessions() {
	op := h.operation("attach-action", http.MethodGet, "/v1/actions/{id}/attach", "Take part in an interactive session, over a websocket", http.StatusSwitchingProtocols)
	op.Responses["101"] = &huma.Response{Description: "A websocket of the subprotocol " + attach.Protocol + "."}
	register(h.handlers, op, h.attach)
}

type attachRequest struct {
	ActionRef
	Peer     string `query:"peer" required:"true" maxLength:"16" doc:"Who takes part: 16 hexadecimal digits, drawn at random, and the same when coming back"`
	Offset   int64  `query:"offset" default:"0" doc:"Where to begin in what the terminal printed; negative: that many bytes before its present end"`
	ReadOnly bool   `query:"read_only" doc:"Look, and type nothing"`
}

func (h actionHandlers) attach(ctx context.Context, in *attachRequest) (*huma.StreamResponse, error) {
	id, err := h.c.Actions().Resolve(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	by := actor(ctx)
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		r, w := humago.Unwrap(hc)
		wish, err := attach.ParseWish(r.URL.Query())
		if err != nil {
			writeProblem(w, h.asProblemOf(ctx, invalid(err)))
			return
		}
		if r.Header.Get("Upgrade") == "" {
			writeProblem(w, h.asProblemOf(ctx, fmt.Errorf("%w: a session is attached to over a websocket", core.ErrInvalid)))
			return
		}
		t, err := h.c.Relay().Terminals.Attach(ctx, by, id, wish.Peer, wish.ReadOnly)
		if err != nil {
			writeProblem(w, h.asProblemOf(ctx, ofAction(id, err)))
			return
		}
		defer t.Close()
		drained, stop := untilDrained(r.Context())
		defer stop()
		if err := attach.Serve(drained, w, r, &participant{t, h.handlers, wish.Offset}); err != nil {
			h.log.DebugContext(ctx, "a peer left a session", "action", id, "actor", by.Name, "err", err)
		}
	}}, nil
}

// participant is a person's part in a session.
type participant struct {
	*relay.Attached
	h      *handlers
	offset int64
}

// Read implements [attach.Participant].
func (p *participant) Read(ctx context.Context, emit func(int64, []byte) error) ([]byte, error) {
	a, err := p.Attached.Read(ctx, p.offset, emit)
	if err != nil {
		return nil, err
	}
	return json.Marshal(p.h.wholeAction(a))
}
