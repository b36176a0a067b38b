package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"

	"github.com/hostler-io/hostler/api"
)

// maxEvent bounds one line of the event stream, in bytes.
const maxEvent = 1 << 20

// FromNow as an id stands for the newest event: only what happens from now on.
const FromNow = math.MaxUint64

// Events hands every event after an id to handle, in order, and returns when
// the server ends the stream, handle fails, or ctx ends. A caller that wants to go on
// asks again after the last id that was handled: nothing is skipped.
func (c *Client) Events(ctx context.Context, after uint64, handle func(api.Event) error) error {
	q := url.Values{}
	if after != FromNow {
		q.Set("after", strconv.FormatUint(after, 10))
	}
	_, err := c.stream(ctx, "/v1/events", q, func(_ string, data []byte) error { return take(data, handle) })
	return err
}

// errEnd ends a stream that has said that it is whole.
var errEnd = errors.New("the stream has ended")

// stream hands the events of a stream to handle, by name. It reports whether the server
// said that the stream is whole, by an event for which handle returned errEnd.
func (c *Client) stream(ctx context.Context, path string, q url.Values, handle func(event string, data []byte) error) (whole bool, _ error) {
	resp, err := c.request(ctx, http.MethodGet, path, q, nil, http.Header{"Accept": {"text/event-stream"}})
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, maxEvent)
	event := ""
	for lines.Scan() {
		if name, ok := bytes.CutPrefix(lines.Bytes(), []byte("event: ")); ok {
			event = string(name)
		}
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data:"))
		if !ok {
			continue // ids stand in the data as well; the rest are comments
		}
		if err := handle(event, data); err != nil {
			whole = errors.Is(err, errEnd)
			if whole {
				err = nil
			}
			return whole, err
		}
	}
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	if err := lines.Err(); err != nil {
		return false, fmt.Errorf("%w: the events broke off: %w", ErrUnreachable, err)
	}
	return false, nil
}

// take decodes the data of an event for handle.
func take[T any](data []byte, handle func(T) error) error {
	if handle == nil {
		return nil
	}
	var v T
	if err := json.Unmarshal(data, &v); err != nil {
		return fmt.Errorf("this version cannot read an event: %w", err)
	}
	return handle(v)
}
