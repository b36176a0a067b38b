package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/protocol"
)

// outputPatience is how long a reader of output may take for one part of it. A
// slow one holds the command back by design, but one that is gone must not.
const outputPatience = time.Minute

func (h *handlers) output(doc huma.API) {
	op := raw(doc, "get-action-output", "/v1/actions/{id}/output", "Read or follow the output of a command", "application/octet-stream",
		"The bytes from the offset on, without a hole. The trailer "+api.HeaderNext+" tells from where to read on: −1 if everything was read, "+
			"an offset behind the last byte if what lies between is not held here or was left out.")
	op.Responses["200"].Headers = map[string]*huma.Param{api.HeaderNext: {Schema: &huma.Schema{Type: huma.TypeInteger}, Description: "A trailer."}}
	huma.Register(doc, op, h.readOutput)
}

type outputRequest struct {
	ID     string `path:"id" maxLength:"36" doc:"Action id, or a prefix of at least 4 characters that no other has"`
	Stream string `query:"stream" enum:"stdout,stderr" default:"stdout"`
	Offset int64  `query:"offset" minimum:"0" default:"0"`
	Follow bool   `query:"follow" doc:"Wait for more until the command has ended"`
}

func (h *handlers) readOutput(ctx context.Context, in *outputRequest) (*huma.StreamResponse, error) {
	id, err := h.c.Resolve(ctx, in.ID)
	if err != nil {
		return nil, h.fail(ctx, err)
	}
	if _, err := h.c.Action(ctx, id); err != nil {
		return nil, h.fail(ctx, fmt.Errorf("action %s: %w", id, err))
	}
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		r, w := humago.Unwrap(hc)
		h.copyOutput(w, r, id, in)
	}}, nil
}

// copyOutput writes output as it comes. A failure in the middle breaks the
// connection: the trailers would otherwise claim that all is well.
func (h *handlers) copyOutput(w http.ResponseWriter, r *http.Request, id protocol.ActionID, in *outputRequest) {
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Trailer", api.HeaderNext)
	w.WriteHeader(http.StatusOK)
	conn := http.NewResponseController(w)
	ctx, stop := untilDrained(r.Context())
	defer stop()
	offset := in.Offset
	if in.Follow {
		_ = conn.Flush() // the first byte may be hours away; a client that is gone shows at the next write
	}
	span, err := h.c.ReadOutput(ctx, id, protocol.FD(in.Stream), offset, in.Follow, func(b []byte) error {
		if in.Follow {
			err := deliver(w, conn, b, outputPatience)
			if err == nil {
				offset += int64(len(b))
			}
			return err
		}
		if err := conn.SetWriteDeadline(time.Now().Add(outputPatience)); err != nil {
			return err
		}
		n, err := w.Write(b)
		offset += int64(n)
		return err
	})
	next := span.Next
	switch {
	case errors.Is(err, errDrained) && r.Context().Err() == nil:
		next = offset // the client goes on with whoever serves next
	case err != nil:
		if r.Context().Err() == nil {
			h.log.WarnContext(ctx, "output broke off", "action", id, "err", err)
		}
		panic(http.ErrAbortHandler)
	}
	w.Header().Set(api.HeaderNext, strconv.FormatInt(next, 10))
	_ = conn.SetWriteDeadline(time.Time{}) // the connection may serve another request
}
