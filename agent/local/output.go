package local

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/hostler-io/hostler/agent"
	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/protocol"
)

// outputPatience is how long a reader of output may take for one part of it.
// The command does not wait for it, but one that is gone must not be kept.
const outputPatience = time.Minute

// outputRequest is which output is wanted.
type outputRequest struct {
	fd     protocol.FD
	offset int64
	follow bool
	hold   bool // a command in mode stream waits
}

func parseOutput(r *http.Request) (o outputRequest, err error) {
	q := r.URL.Query()
	o.fd = protocol.Stdout
	if s := q.Get("stream"); s != "" {
		o.fd = protocol.FD(s)
	}
	if o.fd != protocol.Stdout && o.fd != protocol.Stderr && o.fd != protocol.Recording {
		return o, invalid("stream %.30q: want %s, %s or %s", o.fd, protocol.Stdout, protocol.Stderr, protocol.Recording)
	}
	if s := q.Get("offset"); s != "" {
		if o.offset, err = strconv.ParseInt(s, 10, 64); err != nil || o.offset < 0 {
			return o, invalid("offset %.30q: want a number of bytes", s)
		}
	}
	if s := q.Get("follow"); s != "" {
		if o.follow, err = strconv.ParseBool(s); err != nil {
			return o, invalid("follow %.30q: want true or false", s)
		}
	}
	if s := q.Get("hold"); s != "" {
		if o.hold, err = strconv.ParseBool(s); err != nil {
			return o, invalid("hold %.30q: want true or false", s)
		}
	}
	return o, nil
}

// readOutput writes output as it comes, up to the first part that was left
// out. A failure in the middle breaks the connection: the trailer would
// otherwise claim that all is well.
func (h *handlers) readOutput(w http.ResponseWriter, r *http.Request) error {
	o, err := parseOutput(r)
	if err != nil {
		return err
	}
	act, err := h.resolve(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	out, err := h.agent.Output(r.Context(), act.ID, requester(r.Context()), o.fd, o.offset, o.follow, o.hold)
	if err != nil {
		return err
	}
	defer out.Close()
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Trailer", api.HeaderNext)
	w.WriteHeader(http.StatusOK)
	next, err := copyOutput(w, out, o)
	switch {
	case errors.Is(err, io.EOF) && o.follow:
		next = -1 // the command has ended, and this was all
	case errors.Is(err, io.EOF):
		next = h.after(r.Context(), act.ID, o.fd, next, out.Offset())
	case errors.Is(err, agent.ErrStopped) || errors.Is(err, errShutdown):
		// The client goes on with the next process, from where it is.
	case err != nil:
		if r.Context().Err() == nil {
			h.log.WarnContext(r.Context(), "output broke off", "action", act.ID.String(), "error", err)
		}
		panic(http.ErrAbortHandler)
	}
	w.Header().Set(api.HeaderNext, strconv.FormatInt(next, 10))
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) // the connection may serve another request
	return nil
}

// offsetReader reads a stream of which bytes may be left out. Offset is where the
// next byte stands.
type offsetReader interface {
	io.Reader
	Offset() int64
}

// copyOutput copies until the end, which is io.EOF, or until the next byte is
// not the one after those that were copied. It returns where to read on.
func copyOutput(w http.ResponseWriter, out offsetReader, o outputRequest) (next int64, err error) {
	conn := http.NewResponseController(w)
	if o.follow {
		_ = conn.Flush() // the first byte may be hours away; a client that is gone shows at the next write
	}
	buf := make([]byte, 64<<10)
	for next = o.offset; ; {
		n, err := out.Read(buf)
		if n > 0 {
			if begins := out.Offset() - int64(n); begins != next {
				return begins, nil
			}
			if err := conn.SetWriteDeadline(time.Now().Add(outputPatience)); err != nil && !errors.Is(err, http.ErrNotSupported) {
				return next, err
			}
			if _, err := w.Write(buf[:n]); err != nil {
				return next, err
			}
			next += int64(n)
			if o.follow {
				if err := conn.Flush(); err != nil {
					return next, err
				}
			}
		}
		if err != nil {
			return next, err
		}
	}
}

// after returns where to read on when nothing is left now, and the reader has
// reached that offset: −1 if nothing will come either.
func (h *handlers) after(ctx context.Context, id protocol.ActionID, fd protocol.FD, next, reached int64) int64 {
	act, err := h.agent.Action(ctx, id)
	if err != nil || !complete(&act, fd, reached) {
		return next
	}
	return -1
}

// complete reports whether a stream has ended at that offset or before. What was
// dropped counts, for offsets are those of what was written.
func complete(act *agent.Action, fd protocol.FD, reached int64) bool {
	return act.State.Final() && !slices.ContainsFunc(act.Output, func(total protocol.Output) bool {
		return total.FD == fd && reached < total.Bytes // it was written while we looked
	})
}
