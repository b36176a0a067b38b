package client

import (
	"context"
	"fmt"
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
// a client that asks again is told everything again.
func (c *Client) FollowBatch(ctx context.Context, id string, h BatchHandler) error {
	q := url.Values{"output": {strconv.FormatBool(h.Output != nil)}}
	whole, err := c.stream(ctx, "/v1/batches/"+url.PathEscape(id)+"/events", q, func(event string, data []byte) error {
		switch event {
		case "action":
			return take(data, h.Action)
		case "output":
			return take(data, h.Output)
		case "end":
			return errEnd
		}
		return nil
	})
	if err == nil && !whole {
		err = fmt.Errorf("%w: the batch broke off before its end", ErrUnreachable)
	}
	return err
}
