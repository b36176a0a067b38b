package containers

import (
	"context"

	"github.com/hostler-io/hostler/agent/actions"
	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/protocol"
)

// restart stops a container and starts it again. It is to run from now on, so an
// attempt that was cut short between the two leaves nothing stopped.
type restart struct{ verb }

// Prepare implements [actions.Handler].
func (h restart) Prepare(s *protocol.Spec) (queue.Change, *queue.Step) {
	return h.forgive(h.intend(s, queue.Running))
}

// Begin implements [actions.Handler].
func (h restart) Begin(j *actions.Job) {
	h.forget(j)
	h.one(j, func(o *operation, ctx context.Context) (c queue.Change, err error) {
		if o.seen, err = o.runtime.Stop(ctx, string(o.rec.Name), o.grace()); err != nil {
			return c, err
		}
		return c, o.start(ctx)
	})
}
