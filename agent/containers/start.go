package containers

import (
	"context"
	"errors"
	"fmt"

	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/protocol"
)

// The classes of containers.
const (
	classPinned = "pinned"
	classUnique = "unique"
)

// mayRun is asked on every path that starts a container. It returns the epoch under
// which the container runs, or why it must not run. A unique container needs a lease,
// and leases are not granted yet.
func mayRun(c *queue.Container) (e protocol.Epoch, why string) {
	if c.Class == classUnique {
		return e, "a unique container needs a lease, which this version does not support"
	}
	return c.Epoch, ""
}

// start is the one way in which a container is started.
func (o *operation) start(ctx context.Context) (err error) {
	if _, why := mayRun(&o.rec); why != "" {
		return errors.New(why)
	}
	if o.rec.Address != "" && o.cfg.Network != nil {
		if _, _, err := o.cfg.Network.Ensure(ctx); err != nil {
			return fmt.Errorf("preparing the network: %w", err)
		}
	}
	if o.seen, err = o.runtime.Start(ctx, string(o.rec.Name)); err != nil {
		return err
	}
	if err := o.limited(o.seen.InitPID); err != nil {
		return fmt.Errorf("it runs, and its limits are not in force: %w", err)
	}
	return nil
}

// startNow starts a container, which is to run from now on.
func (o *operation) startNow(ctx context.Context) (queue.Change, error) {
	return queue.Change{}, o.start(ctx)
}
