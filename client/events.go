package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
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
// the server ends the stream, handle fails, or ctx ends. Whoever wants to go on
// asks again after the last id that was handled: nothing is skipped.
func (c *Client) Events(ctx context.Context, after uint64, handle func(api.Event) error) error {
	h := http.Header{"Accept": {"text/event-stream"}}
	q := url.Values{}
	if after != FromNow {
		q.Set("after", strconv.FormatUint(after, 10))
	}
	resp, err := c.request(ctx, http.MethodGet, "/v1/events", q, nil, h)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, maxEvent)
	for lines.Scan() {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data:"))
		if !ok {
			continue // id and event stand in the data as well; the rest are comments
		}
		var e api.Event
		if err := json.Unmarshal(data, &e); err != nil {
			return fmt.Errorf("this version cannot read an event: %w", err)
		}
		if err := handle(e); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%w: the events broke off: %w", ErrUnreachable, err)
	}
	return nil
}
