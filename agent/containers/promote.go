package containers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/hostler-io/hostler/agent/actions"
	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/contract"
	"github.com/hostler-io/hostler/protocol/setting"
)

// promote makes an image of a container. Its commit point is the image that has its name.
// One that runs is frozen meanwhile, as for a snapshot.
type promote struct{ needs }

// Begin implements [actions.Handler].
func (h promote) Begin(j *actions.Job) {
	o := h.operation(j)
	if o == nil {
		return
	}
	key := j.Action().ID.String()
	kept, bad := json.Marshal(keptAs(&o.rec))
	h.run(j, o, h.managed[o.rec.CTID].still(o, key, true, func(ctx context.Context, _ bool) error {
		p, ok := o.runtime.(container.Promoter)
		if !ok {
			return unsupported(o, "promote")
		}
		if bad != nil {
			return bad
		}
		args := protocol.ArgsOf[protocol.PromoteArgs](o.spec)
		return p.Promote(ctx, string(o.rec.Name), container.Promotion{Reference: args.Reference(), Key: key, Kept: kept})
	}))
}

// Settle implements [actions.Settler]: what was paused for it runs again.
func (h promote) Settle(j *actions.Job) { h.Begin(j) }

// keptAs says how a container is kept, in the words of who asks for one. A unique one is
// unique by what its fleet knows of it, which no image holds.
func keptAs(rec *queue.Container) setting.New {
	n := setting.New{
		Template: rec.Template, Class: rec.Class, Offline: rec.Offline, Labels: rec.Labels,
		Env: rec.Settings.Env, Command: rec.Settings.Command, Limits: rec.Settings.Limits.Strings(), Health: rec.Settings.Health,
	}
	if rec.Class == contract.Unique {
		n.Class, n.Offline = "", ""
	}
	for _, p := range rec.Settings.Ports {
		n.Expose = append(n.Expose, p.String())
	}
	return n
}

// demoted has a container kept as the one was that its image was made of; the runtime has
// the image.
func (o *operation) demoted(ctx context.Context, c *Containers) error {
	p, ok := o.runtime.(container.Promoter)
	if !ok {
		return unsupported(o, "promote")
	}
	raw, err := p.Kept(ctx, o.rec.Template)
	if err != nil {
		return err
	}
	var kept setting.New
	if err := json.Unmarshal(raw, &kept); err != nil {
		return fmt.Errorf("%w: how the container of the image was kept cannot be read: %w", container.ErrUnsupported, err)
	}
	return o.keepAs(ctx, c, kept)
}

// forget takes its name from the image that has become a container. One that is gone at a
// later attempt was taken by an earlier one.
func (o *operation) forget(ctx context.Context) (queue.Change, error) {
	err := o.runtime.(container.Promoter).Forget(ctx, o.rec.Template)
	if errors.Is(err, container.ErrNotFound) {
		err = nil
	}
	if err != nil {
		err = fmt.Errorf("the container is there, and the image keeps its name: %w; remove it: hostler image rm", err)
	}
	return queue.Change{}, err
}
