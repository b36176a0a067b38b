package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/hostler-io/hostler/coordinator"
	"github.com/hostler-io/hostler/coordinator/core"
)

const (
	// heartbeat is how often a stream without events shows that it lives.
	heartbeat = 15 * time.Second
	// eventPatience is how long a reader may take for what it was written: a
	// slow one is cut off, comes back with the id of the last event that it
	// has, and so misses nothing.
	eventPatience = 10 * time.Second
	// chunkBytes bounds what one reader is written at a time, and so its
	// memory.
	chunkBytes = 32 << 10
	// keptEvents and keptBytes bound the rendered events that all readers
	// share. A follower that is further behind reads from the store.
	keptEvents = 1024
	keptBytes  = 1 << 20
)

func (h *handlers) events() {
	op := h.raw("follow-events", "/v1/events", "Follow what happens in the fleet", "text/event-stream",
		"Server-sent events. The id of each is the number in its data and goes up by one. After a recovery of the coordinator, ids start again at a far higher number; a request with an older id gets the problem gone. Comments every 15 s show that the stream lives.")
	register(h, op, h.follow)
}

// follow starts at the present unless the client says where to start.
func (h *handlers) follow(ctx context.Context, in *struct {
	After  string `query:"after" pattern:"^[0-9]{1,19}$" doc:"Start behind the event with this id; 0 is the beginning"`
	LastID string `header:"Last-Event-ID" pattern:"^[0-9]{1,19}$" doc:"As after, and stronger"`
}) (*huma.StreamResponse, error) {
	last, err := h.c.Journal().LastEvent(ctx)
	if err != nil {
		return nil, err
	}
	after := last
	if from := in.After; from != "" || in.LastID != "" {
		if in.LastID != "" {
			from = in.LastID
		}
		if after, err = strconv.ParseUint(from, 10, 63); err != nil {
			return nil, fmt.Errorf("%w: event id: %w", core.ErrInvalid, err)
		}
		if after == 0 {
			after = core.EventsBegin(last)
		}
		if err := h.there(ctx, after, last); err != nil {
			return nil, err
		}
	}
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		r, w := humago.Unwrap(hc)
		h.stream(w, r, after)
	}}, nil
}

// there checks that every event behind an id can still be told.
func (h *handlers) there(ctx context.Context, after, last uint64) error {
	if after == last {
		return nil
	}
	first, err := h.c.Journal().Events(ctx, after, 1)
	if err != nil {
		return err
	}
	if len(first) == 0 || first[0].ID != after+1 {
		return fmt.Errorf("%w: the events behind %d are not kept; list what you watch anew, then follow from now on", core.ErrGone, after)
	}
	return nil
}

// stream writes events until the reader goes, is too slow, or the server shuts
// down.
func (h *handlers) stream(w http.ResponseWriter, r *http.Request, after uint64) {
	h.feed.readers.Add(1)
	defer h.feed.readers.Add(-1)
	ctx, stop := untilDrained(r.Context())
	defer stop()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // proxies must not hold events back
	w.WriteHeader(http.StatusOK)
	conn := http.NewResponseController(w)
	write := func(b []byte) bool {
		err := deliver(w, conn, b, eventPatience)
		if err != nil {
			h.log.DebugContext(ctx, "a reader of events is gone", "remote", r.RemoteAddr, "err", err)
		}
		return err == nil
	}
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	var buf []byte
	ok := write([]byte(": events follow\n\n"))
	for ok {
		chunk, next, changed, err := h.feed.read(ctx, after, buf[:0])
		if err != nil {
			if ctx.Err() == nil {
				h.log.ErrorContext(ctx, "events broke off", "err", err)
			}
			break
		}
		if len(chunk) > 0 {
			ok = write(chunk)
			after, buf = next, chunk
			continue
		}
		select {
		case <-changed:
		case <-beat.C:
			ok = write([]byte(": \n\n"))
		case <-ctx.Done():
			return
		}
	}
	if !ok {
		panic(http.ErrAbortHandler) // nothing more can be said on this connection
	}
}

// deliver writes to a reader and waits until it has taken it, for as long as
// patience says. No deadline stays behind: over HTTP/2 one that passes ends the
// stream, whether there is anything to write or not.
func deliver(w io.Writer, conn *http.ResponseController, b []byte, patience time.Duration) error {
	if err := conn.SetWriteDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	if _, err := w.Write(b); err != nil {
		return err
	}
	if err := conn.Flush(); err != nil {
		return err
	}
	return conn.SetWriteDeadline(time.Time{})
}

// feed holds the newest events, rendered once for all who follow. Each reader
// has only a position in it, so a reader that stands still costs nothing.
type feed struct {
	c       *coordinator.Coordinator
	readers atomic.Int64

	mu      sync.Mutex
	changed <-chan struct{} // closed when there may be more than the feed has; nil at first
	done    func()          // ends the interest in changed
	last    uint64          // newest event that was looked at
	kept    [][]byte        // rendered events, up to last, without a gap
	bytes   int             // in kept
}

// read appends rendered events behind an id to buf, as many as a reader is
// written at a time, and returns the id of the last one. If there are none,
// changed is closed when there may be.
func (f *feed) read(ctx context.Context, after uint64, buf []byte) (_ []byte, next uint64, changed <-chan struct{}, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.extend(ctx); err != nil {
		return nil, after, nil, err
	}
	if after >= f.last {
		return buf, after, f.changed, nil
	}
	first := f.last - uint64(len(f.kept)) + 1
	if after+1 < first {
		return f.old(ctx, after, buf)
	}
	next = after
	for _, e := range f.kept[after+1-first:] {
		if len(buf) > 0 && len(buf)+len(e) > chunkBytes {
			break
		}
		buf, next = append(buf, e...), next+1
	}
	return buf, next, f.changed, nil
}

// old reads for a follower that is further behind than what is kept. It is called
// with mu held and gives it back for the time of reading.
func (f *feed) old(ctx context.Context, after uint64, buf []byte) ([]byte, uint64, <-chan struct{}, error) {
	changed := f.changed
	f.mu.Unlock()
	defer f.mu.Lock()
	events, err := f.c.Journal().Events(ctx, after, 128)
	if err != nil {
		return nil, after, nil, err
	}
	for _, e := range events {
		if e.ID != after+1 {
			return nil, after, nil, fmt.Errorf("event %d is not kept any more", after+1)
		}
		b, err := render(e)
		if err != nil {
			return nil, after, nil, err
		}
		if len(buf) > 0 && len(buf)+len(b) > chunkBytes {
			break
		}
		buf, after = append(buf, b...), e.ID
	}
	return buf, after, changed, nil
}

// extend reads what is new, once for all readers. It is called with mu held.
func (f *feed) extend(ctx context.Context) error {
	if f.changed != nil {
		select {
		case <-f.changed:
		default:
			return nil // nothing has happened since it was read last
		}
		f.done()
		f.changed = nil
	}
	changed, done := f.c.Journal().EventsChanged()
	if err := f.load(ctx); err != nil {
		done()
		return err
	}
	f.changed, f.done = changed, done
	return nil
}

func (f *feed) load(ctx context.Context) error {
	newest, err := f.c.Journal().LastEvent(ctx)
	if err != nil {
		return err
	}
	if newest > f.last+keptEvents || f.last == 0 {
		// There was no reader for a while; what is further back is in the store.
		f.kept, f.bytes = nil, 0
		f.last = newest - min(newest-core.EventsBegin(newest), keptEvents)
	}
	for f.last < newest {
		events, err := f.c.Journal().Events(ctx, f.last, keptEvents)
		if err != nil {
			return err
		}
		if len(events) == 0 {
			return errors.New("events that were counted cannot be read")
		}
		for _, e := range events {
			b, err := render(e)
			if err != nil {
				return err
			}
			f.add(e.ID, b)
		}
	}
	return nil
}

// add keeps an event and forgets the oldest ones for it.
func (f *feed) add(id uint64, b []byte) {
	if id != f.last+1 {
		f.kept, f.bytes = nil, 0 // older ones were trimmed meanwhile
	}
	f.kept, f.bytes, f.last = append(f.kept, b), f.bytes+len(b), id
	drop := 0
	for ; len(f.kept)-drop > keptEvents || f.bytes > keptBytes && len(f.kept)-drop > 1; drop++ {
		f.bytes -= len(f.kept[drop])
		f.kept[drop] = nil
	}
	f.kept = f.kept[drop:]
}

// render writes an event as it is sent.
func render(e core.Event) ([]byte, error) {
	data, err := json.Marshal(eventOf(e))
	if err != nil {
		return nil, fmt.Errorf("render event %d: %w", e.ID, err)
	}
	return fmt.Appendf(nil, "id: %d\nevent: %s\ndata: %s\n\n", e.ID, e.Type, data), nil
}
