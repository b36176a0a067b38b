package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/hostler-io/hostler/api"
)

// BatchHandler takes what happens to a batch. An error of it ends the following.
type BatchHandler struct {
	// Action takes an action as it stands now, without its spec.
	Action func(api.Action) error
	// Output takes a piece of output; nil asks for none. Pieces of one stream come
	// in order, from the first byte on each time that the batch is followed.
	Output func(api.BatchOutput) error
}

// FollowBatch tells of all actions of a batch until they have ended, and returns
// nil when everything was told. When it breaks off, which is [ErrUnreachable],
// whoever asks again is told everything again.
func (c *Client) FollowBatch(ctx context.Context, id string, h BatchHandler) error {
	q := url.Values{"output": {strconv.FormatBool(h.Output != nil)}}
	resp, err := c.request(ctx, http.MethodGet, "/v1/batches/"+url.PathEscape(id)+"/events", q, nil, http.Header{"Accept": {"text/event-stream"}})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, maxEvent)
	event := ""
	for lines.Scan() {
		if name, ok := bytes.CutPrefix(lines.Bytes(), []byte("event: ")); ok {
			event = string(name)
			continue
		}
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data:"))
		if !ok {
			continue
		}
		switch event {
		case "action":
			err = handle(data, h.Action)
		case "output":
			err = handle(data, h.Output)
		case "end":
			return nil
		}
		if err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%w: the batch broke off: %w", ErrUnreachable, err)
	}
	return fmt.Errorf("%w: the batch broke off before its end", ErrUnreachable)
}

// handle decodes the data of an event for whoever takes it.
func handle[T any](data []byte, take func(T) error) error {
	if take == nil {
		return nil
	}
	var v T
	if err := json.Unmarshal(data, &v); err != nil {
		return fmt.Errorf("this version cannot read an event: %w", err)
	}
	return take(v)
}
