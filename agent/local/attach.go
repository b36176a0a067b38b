package local

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/hostler-io/hostler/agent/relay"
	"github.com/hostler-io/hostler/internal/attach"
	"github.com/hostler-io/hostler/protocol"
)

// attach connects a user of the host to a session.
func (h *handlers) attach(w http.ResponseWriter, r *http.Request) error {
	wish, err := attach.ParseWish(r.URL.Query())
	if err != nil {
		return invalid("%s", err)
	}
	if r.Header.Get("Upgrade") == "" {
		return invalid("a session is attached to over a websocket")
	}
	act, err := h.resolve(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	p, err := h.agent.Attach(r.Context(), act.ID, requester(r.Context()), wish.Peer, wish.ReadOnly)
	if err != nil {
		return err
	}
	defer p.Close()
	if err := attach.Serve(r.Context(), w, r, &attached{p, h, act.ID, wish.Offset}); err != nil {
		h.log.DebugContext(r.Context(), "a user left a session", "action", act.ID.String(), "error", err)
	}
	return nil // it was answered
}

// attached is a user of the host in a session.
type attached struct {
	*relay.Attachment
	h      *handlers
	id     protocol.ActionID
	offset int64
}

// Read implements [attach.Participant].
func (p *attached) Read(ctx context.Context, emit func(int64, []byte) error) ([]byte, error) {
	if err := p.Attachment.Read(ctx, p.offset, emit); err != nil {
		return nil, err
	}
	a, err := p.h.agent.WaitAction(ctx, p.id)
	if err != nil {
		return nil, err
	}
	return json.Marshal(p.h.wholeAction(a))
}
