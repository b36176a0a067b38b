package containers

import (
	"context"

	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/container"
)

// freeze keeps a container from running for a while. What is intended stays as it is:
// after a reboot of the host, a container that was frozen runs.
func (o *operation) freeze(ctx context.Context) (c queue.Change, err error) {
	f, ok := o.runtime.(container.Freezer)
	if !ok {
		return c, unsupported(o, "freeze")
	}
	o.seen, err = f.Freeze(ctx, string(o.rec.Name))
	return c, err
}

// unfreeze lets it run again.
func (o *operation) unfreeze(ctx context.Context) (c queue.Change, err error) {
	f, ok := o.runtime.(container.Freezer)
	if !ok {
		return c, unsupported(o, "freeze")
	}
	o.seen, err = f.Unfreeze(ctx, string(o.rec.Name))
	return c, err
}
