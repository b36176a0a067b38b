package containers

import (
	"context"
	"errors"
	"fmt"

	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/protocol"
)

// destroy removes a container, running or not. A container that is not there any more
// is destroyed.
func (o *operation) destroy(ctx context.Context) (queue.Change, error) {
	name := string(o.rec.Name)
	if _, err := o.runtime.Stop(ctx, name, o.grace()); err != nil && !errors.Is(err, container.ErrNotFound) {
		return queue.Change{}, err
	}
	c, ok := o.runtime.(container.Creator)
	if !ok {
		return queue.Change{}, fmt.Errorf("%w: %s does not destroy containers here", container.ErrUnsupported, o.rec.Runtime)
	}
	if err := c.Destroy(ctx, name); err != nil && !errors.Is(err, container.ErrNotFound) {
		return queue.Change{}, err
	}
	alerts := mended(&o.rec, o.cfg.Loop.WallMS())
	if o.unwell {
		alerts = append(alerts, wellAgain(&o.rec, o.cfg.Loop.WallMS()))
	}
	return queue.Change{Delete: []protocol.CTID{o.rec.CTID}, Alerts: alerts}, nil
}
