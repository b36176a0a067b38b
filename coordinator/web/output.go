package web

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/coordinator/relay"
	"github.com/hostler-io/hostler/protocol"
)

// outputPatience is how long a reader of output may take for one part of it. A
// slow one holds the command back by design, but one that is gone must not.
const outputPatience = time.Minute

func (h actionHandlers) output() {
	op := h.raw("get-action-output", "/v1/actions/{id}/output", "Read or follow the output of a command", "application/octet-stream",
		"The bytes from the offset on, without a hole. The trailer "+api.HeaderNext+" tells from where to read on: −1 if everything was read, "+
			"an offset behind the last byte if what lies between is not held here or was left out.")
	op.Responses["200"].Headers = map[string]*huma.Param{api.HeaderNext: {Schema: &huma.Schema{Type: huma.TypeInteger}, Description: "A trailer."}}
	register(h.handlers, op, h.readOutput)
}

type outputRequest struct {
	ActionRef
	Stream string `query:"stream" enum:"stdout,stderr,recording" default:"stdout"`
	Offset int64  `query:"offset" minimum:"0" default:"0"`
	Follow bool   `query:"follow" doc:"Wait for more until the command has ended"`
	Hold   bool   `query:"hold" doc:"Follow, and let a command in mode stream wait for this reader (operators)"`
	Range  string `header:"Range" maxLength:"64" doc:"bytes=FIRST-[LAST], of what is held now; not with follow"`
}

func (h actionHandlers) readOutput(ctx context.Context, in *outputRequest) (*huma.StreamResponse, error) {
	id, err := h.c.Actions().Resolve(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	what := relay.Reading{Action: id, FD: protocol.FD(in.Stream), Offset: in.Offset, Follow: in.Follow, Hold: in.Hold}
	part, err := parseRange(in, &what)
	if err != nil {
		return nil, err
	}
	e, err := h.c.Relay().Output.Extent(ctx, actor(ctx), what)
	if err != nil {
		return nil, fmt.Errorf("output of action %s: %w", id, err)
	}
	if part != nil {
		if part.last = min(part.last, e.To-1); part.last < what.Offset {
			return nil, newProblem(api.CodeRange, fmt.Sprintf("byte %d of %s is not held; without Range the answer tells where to read on", what.Offset, what.FD))
		}
		part.total = e.Total
	}
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		r, w := humago.Unwrap(hc)
		h.copyOutput(w, r, what, part)
	}}, nil
}

// byteRange is what a Range asks for, and what the answer says about it.
type byteRange struct {
	last  int64
	total int64 // −1: not known yet
}

// parseRange takes a single range with a first byte. Others may be ignored by
// RFC 9110, and are.
func parseRange(in *outputRequest, what *relay.Reading) (*byteRange, error) {
	text, ok := strings.CutPrefix(in.Range, "bytes=")
	first, last, one := strings.Cut(text, "-")
	from, err := strconv.ParseInt(first, 10, 64)
	if !ok || !one || err != nil || from < 0 {
		return nil, nil
	}
	if in.Follow || in.Offset != 0 {
		return nil, fmt.Errorf("%w: Range, and offset or follow, exclude each other", core.ErrInvalid)
	}
	part := &byteRange{last: math.MaxInt64}
	if last != "" {
		if part.last, err = strconv.ParseInt(last, 10, 64); err != nil || part.last < from {
			return nil, nil
		}
	}
	what.Offset = from
	return part, nil
}

// errPart ends the reading of a part.
var errPart = errors.New("the part was read")

// copyOutput writes output as it comes. A failure in the middle breaks the
// connection: the trailers would otherwise claim that all is well.
func (h actionHandlers) copyOutput(w http.ResponseWriter, r *http.Request, what relay.Reading, part *byteRange) {
	w.Header().Set("Content-Type", "application/octet-stream")
	if part != nil {
		part.head(w.Header(), what.Offset)
		w.WriteHeader(http.StatusPartialContent)
	} else {
		w.Header().Set("Accept-Ranges", "bytes")
		w.Header().Set("Trailer", api.HeaderNext)
		w.WriteHeader(http.StatusOK)
	}
	conn := http.NewResponseController(w)
	ctx, stop := untilDrained(r.Context())
	defer stop()
	offset := what.Offset
	if what.Follow {
		_ = conn.Flush() // the first byte may be hours away; a client that is gone shows at the next write
	}
	span, err := h.c.Relay().Output.Read(ctx, what, func(b []byte) error {
		if part != nil {
			b = b[:min(int64(len(b)), part.last+1-offset)]
		}
		if err := h.emit(w, conn, b, what.Follow); err != nil {
			return err
		}
		if offset += int64(len(b)); part != nil && offset > part.last {
			return errPart
		}
		return nil
	})
	next := span.Next
	switch {
	case errors.Is(err, errPart):
		return
	case errors.Is(err, errDrained) && r.Context().Err() == nil && part == nil:
		next = offset // the client goes on with the process that serves next
	case err != nil || part != nil:
		if r.Context().Err() == nil {
			h.log.WarnContext(ctx, "output broke off", "action", what.Action, "err", err)
		}
		panic(http.ErrAbortHandler)
	}
	w.Header().Set(api.HeaderNext, strconv.FormatInt(next, 10))
	_ = conn.SetWriteDeadline(time.Time{}) // the connection may serve another request
}

// head says which part of the stream the answer is.
func (p *byteRange) head(header http.Header, first int64) {
	total := "*"
	if p.total >= 0 {
		total = strconv.FormatInt(p.total, 10)
	}
	header.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%s", first, p.last, total))
	header.Set("Content-Length", strconv.FormatInt(p.last+1-first, 10))
}

// emit writes a part of a stream, which who follows gets at once.
func (h actionHandlers) emit(w http.ResponseWriter, conn *http.ResponseController, b []byte, follow bool) error {
	if follow {
		return deliver(w, conn, b, outputPatience)
	}
	if err := conn.SetWriteDeadline(time.Now().Add(outputPatience)); err != nil {
		return err
	}
	_, err := w.Write(b)
	return err
}
