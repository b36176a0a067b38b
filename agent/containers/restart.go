package containers

import (
	"context"

	"github.com/hostler-io/hostler/agent/queue"
)

// restart stops a container and starts it again. It is to run from now on, so an
// attempt that was cut short between the two leaves nothing stopped.
func (o *operation) restart(ctx context.Context) (c queue.Change, err error) {
	if c, err = o.stop(ctx); err != nil {
		return c, err
	}
	return c, o.start(ctx)
}
