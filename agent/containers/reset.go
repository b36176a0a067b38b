package containers

import (
	"context"

	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/protocol"
)

// toReset lets a broken container be started again.
func (c *Containers) toReset(s *protocol.Spec) (queue.Change, *queue.Step) {
	rec, end := c.record(s)
	return forgive(c, keep(rec), end)
}

// reset starts a container that was broken, if it is to run.
func (o *operation) reset(ctx context.Context) (queue.Change, error) {
	if o.rec.Intended != queue.Running {
		return queue.Change{}, nil
	}
	return queue.Change{}, o.start(ctx)
}
