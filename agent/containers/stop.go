package containers

import (
	"context"
	"errors"
	"time"

	"github.com/hostler-io/hostler/agent/actions"
	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/container"
)

// stop stops a container, which is to stay stopped.
func (o *operation) stop(ctx context.Context) (c queue.Change, err error) {
	o.seen, err = o.runtime.Stop(ctx, string(o.rec.Name), o.grace())
	return c, err
}

// preemptPatience is how long a stop that may not wait waits for the operations that
// it has ended: killing a helper process takes no time, unless the kernel is stuck
// with it.
const preemptPatience = 5 * time.Second

// stopNow stops a container as soon as the operations that it has preempted have let
// go of it, and tries all the same if that takes too long.
type stopNow struct{ verb }

// Begin implements [actions.Handler]: it ends the correction of its container, too.
func (h stopNow) Begin(j *actions.Job) {
	var victims []<-chan struct{}
	if m := h.managed[j.Spec().Target]; m != nil && m.halt != nil {
		m.halt(actions.ErrPreempted)
		victims = append(victims, m.idle)
	}
	victims = append(victims, j.Preempted()...)
	h.one(j, func(o *operation, ctx context.Context) (queue.Change, error) {
		if err := awaitAll(ctx, victims); err != nil {
			return queue.Change{}, err
		}
		var err error
		o.seen, err = o.runtime.Stop(ctx, string(o.rec.Name), o.asked())
		if errors.Is(err, container.ErrNotFound) {
			return queue.Change{}, nil // its creation or destruction was preempted: nothing of it runs
		}
		return queue.Change{}, err
	})
}

// awaitAll waits until all are closed, but no longer than preemptPatience. The error
// is that of ctx.
func awaitAll(ctx context.Context, all []<-chan struct{}) error {
	patience := time.NewTimer(preemptPatience)
	defer patience.Stop()
	for _, idle := range all {
		select {
		case <-idle:
		case <-patience.C:
			patience.Reset(0)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}
