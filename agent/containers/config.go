package containers

import (
	"context"
	"fmt"

	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/setting"
)

// settings changes labels and limits of a container together: the limits are in force
// before either is remembered, and nothing is remembered of what could not be done.
type settings struct{ verb }

// Admit implements [actions.Handler]: what cannot be limited here is refused.
func (h settings) Admit(s *protocol.Spec) error {
	changes, err := changesOf(s)
	if err != nil {
		return fmt.Errorf("%w: %w", protocol.ErrSpec, err)
	}
	return limitable(h.Containers, changes.Limits)
}

// Prepare implements [actions.Handler]: what is in force is remembered at the end.
func (h settings) Prepare(s *protocol.Spec) (queue.Change, *queue.Step) {
	_, end := h.record(s)
	return queue.Change{}, end
}

func changesOf(s *protocol.Spec) (setting.Changes, error) {
	return setting.Parse(protocol.ArgsOf[protocol.ConfigArgs](s).Set)
}

// set makes the changes.
func (o *operation) set(ctx context.Context) (queue.Change, error) {
	changes, err := changesOf(o.spec)
	if err != nil {
		return queue.Change{}, err
	}
	o.rec.Labels = changes.Labelled(o.rec.Labels)
	if len(changes.Limits) == 0 {
		return keep(o.rec), nil
	}
	return o.limitTo(ctx, changes.Limits, protocol.ArgsOf[protocol.ConfigArgs](o.spec).Force)
}
