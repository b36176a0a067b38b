package containers

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/hostler-io/hostler/agent/actions"
	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/setting"
)

// settings changes labels, limits and the host name of a container together: what the
// runtime has to do is done before any of it is remembered, and nothing is remembered of
// what could not be done.
type settings struct{ verb }

// Admit implements [actions.Handler]: what cannot be limited here is refused.
func (h settings) Admit(s *protocol.Spec) error {
	changes, err := changesOf(s)
	if err != nil {
		return fmt.Errorf("%w: %w", protocol.ErrSpec, err)
	}
	if m := h.managed[s.Target]; m != nil && changes.Hostname != nil {
		if r := h.runtime(m.rec.Runtime); r != nil && !slices.Contains(container.Abilities(r), "hostname") {
			return fmt.Errorf("%w: %s decides the host name of a container when it is made; make it anew", actions.CodeUnsupported, m.rec.Runtime)
		}
	}
	return limitable(h.Containers, changes.Limits)
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
	if changes.Hostname != nil {
		if err := o.rehost(ctx, *changes.Hostname); err != nil {
			return queue.Change{}, err
		}
	}
	if len(changes.Limits) == 0 {
		return keep(o.rec), nil
	}
	return o.limitTo(ctx, changes.Limits, protocol.ArgsOf[protocol.ConfigArgs](o.spec).Force)
}

// rehost has a container that is stopped call itself otherwise. So no limit of the same
// change can fail after it: limits of what is stopped are only remembered.
func (o *operation) rehost(ctx context.Context, hostname string) error {
	r, ok := o.runtime.(container.Rehoster)
	if !ok {
		return unsupported(o, "rehost")
	}
	err := r.Rehost(ctx, string(o.rec.Name), hostname, container.CTID(o.rec.CTID.String()))
	if errors.Is(err, container.ErrBusy) {
		err = fmt.Errorf("%w; its host name is changed while it is stopped: hostler ct stop HOST/%s", err, o.rec.Name)
	}
	o.rec.Settings.Hostname = protocol.ContainerName(hostname)
	return err
}
