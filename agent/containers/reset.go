package containers

import (
	"context"

	"github.com/hostler-io/hostler/agent/actions"
	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/protocol"
)

// reset lets a broken container be started again, and starts it if it is to run.
type reset struct{ verb }

// Prepare implements [actions.Handler].
func (h reset) Prepare(s *protocol.Spec) (queue.Change, *queue.Step) {
	rec, end := h.record(s)
	return h.forgive(keep(rec), end)
}

// Begin implements [actions.Handler].
func (h reset) Begin(j *actions.Job) {
	h.forget(j)
	h.one(j, func(o *operation, ctx context.Context) (queue.Change, error) {
		if o.rec.Intended != queue.Running {
			return queue.Change{}, nil
		}
		return queue.Change{}, o.start(ctx)
	})
}
