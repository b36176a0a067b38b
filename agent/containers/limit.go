package containers

import (
	"context"
	"fmt"
	"slices"

	"github.com/hostler-io/hostler/agent/actions"
	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/contract"
	"github.com/hostler-io/hostler/protocol/limit"
)

// limits changes what a container may use: at once, and with the end of the action from
// now on.
type limits struct{ verb }

// Admit implements [actions.Handler]: what cannot be limited here is refused, and not
// ignored.
func (h limits) Admit(s *protocol.Spec) error {
	args := protocol.ArgsOf[protocol.LimitArgs](s)
	set, err := limit.Parse(args.Set)
	if err != nil {
		return fmt.Errorf("%w: %w", protocol.ErrSpec, err)
	}
	return limitable(h.Containers, set)
}

// limitable refuses limits of what this host cannot limit.
func limitable(c *Containers, set limit.Limits) error {
	var can []limit.Resource
	if c.cfg.Limiter != nil {
		can = c.cfg.Limiter.Supported()
	}
	for r := range set {
		if !slices.Contains(can, r) {
			return fmt.Errorf("%w: %s of containers cannot be limited on this host; what can be: %v", actions.CodeUnsupported, r, can)
		}
	}
	return nil
}

// limit limits a container that runs, and remembers the limits for when it is started.
func (o *operation) limit(ctx context.Context) (queue.Change, error) {
	args := protocol.ArgsOf[protocol.LimitArgs](o.spec)
	set, err := limit.Parse(args.Set)
	if err != nil {
		return queue.Change{}, err
	}
	return o.limitTo(ctx, set, args.Force)
}

// limitTo is limit, for limits that are read.
func (o *operation) limitTo(ctx context.Context, set limit.Limits, force bool) (queue.Change, error) {
	info, err := o.runtime.Inspect(ctx, string(o.rec.Name))
	if err != nil {
		return queue.Change{}, err
	}
	if info.InitPID != 0 {
		if err := o.cfg.Limiter.Limit(o.rec.Runtime, string(o.rec.Name), info.InitPID, set, force); err != nil {
			return queue.Change{}, err
		}
	}
	o.rec.Settings.Limits = o.rec.Settings.Limits.With(set)
	return keep(o.rec), nil
}

// startLimited has the runtime start the container, whose first process begins within its
// limits, as far as the runtime can do that, and under the epoch of its lease.
func (o *operation) startLimited(ctx context.Context) (container.Info, error) {
	terms, err := termsOf(o)
	if err != nil {
		return container.Info{}, err
	}
	starter, can := o.runtime.(container.Starter)
	switch {
	case !can && terms.Epoch != "":
		return container.Info{}, fmt.Errorf("%w: %s cannot start a unique container under an epoch; make it with another runtime", container.ErrUnsupported, o.rec.Runtime)
	case !can || len(terms.Groups) == 0 && terms.Epoch == "":
		return o.runtime.Start(ctx, string(o.rec.Name))
	}
	return starter.StartOn(ctx, string(o.rec.Name), terms)
}

// termsOf are those of a start of the container.
func termsOf(o *operation) (terms container.Terms, err error) {
	if o.rec.Class == contract.Unique {
		terms.Epoch, terms.UntilMS = o.rec.Epoch.String(), o.until
	}
	if o.cfg.Limiter == nil || len(o.rec.Settings.Limits) == 0 {
		return terms, nil
	}
	if terms.Groups, err = o.cfg.Limiter.Files(o.rec.Settings.Limits); err != nil {
		return terms, fmt.Errorf("its limits: %w", err)
	}
	return terms, nil
}

// limited has a container that runs keep its limits, whichever program has started it.
func (o *operation) limited(init int) error {
	if o.cfg.Limiter == nil || init == 0 || len(o.rec.Settings.Limits) == 0 {
		return nil
	}
	return o.cfg.Limiter.Limit(o.rec.Runtime, string(o.rec.Name), init, o.rec.Settings.Limits, true)
}
