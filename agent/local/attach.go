package local

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/hostler-io/hostler/agent"
	"github.com/hostler-io/hostler/internal/attach"
)

// attach connects somebody of the host to a session.
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
	if err := attach.Serve(r.Context(), w, r, &part{p, h, wish.Offset}); err != nil {
		h.log.DebugContext(r.Context(), "somebody left a session", "action", act.ID.String(), "error", err)
	}
	return nil // it was answered
}

// part is somebody's part in a session.
type part struct {
	*agent.SessionPart
	h      *handlers
	offset int64
}

// Read implements [attach.Part].
func (p *part) Read(ctx context.Context, emit func(int64, []byte) error) ([]byte, error) {
	a, err := p.SessionPart.Read(ctx, p.offset, emit)
	if err != nil {
		return nil, err
	}
	return json.Marshal(p.h.wholeAction(a))
}
