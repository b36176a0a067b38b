package containers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hostler-io/hostler/agent/actions"
	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/contract"
	"github.com/hostler-io/hostler/protocol/limit"
	"github.com/hostler-io/hostler/protocol/mount"
	"github.com/hostler-io/hostler/protocol/port"
)

// create makes a container and, if asked for, starts it. Its commit point is the
// container that is made: before it an interruption removes what is there, after it
// the container stays, whether or not it starts.
type create struct{ *Containers }

// Admit implements [actions.Handler].
func (h create) Admit(s *protocol.Spec) error {
	args := argsOf(s)
	r, err := h.creator(&args)
	if err != nil {
		return err
	}
	if _, can := r.(container.Holder); args.Class == contract.Unique && !can {
		return fmt.Errorf("%w: containers of %s cannot be unique on this host; ask for another runtime", actions.CodeUnsupported, r.Kind())
	}
	if len(args.Expose) > 0 {
		if err := ports(h).supported(); err != nil {
			return err
		}
	}
	if args.Network != "" && h.cfg.Network == nil {
		return ports(h).supported()
	}
	set, err := limit.Parse(args.Limits)
	if err != nil {
		return fmt.Errorf("%w: %w", protocol.ErrSpec, err)
	}
	if args.Class == contract.Unique && h.cfg.Leases == nil {
		return fmt.Errorf("%w: a unique container needs leases of a coordinator, and this host has none", actions.CodeUnsupported)
	}
	return errors.Join(volumes(h).admit(args.Volumes, args.Mounts), limitable(h.Containers, set), checkable(h.Containers, args.Health), counted(h.cfg.Coordinator, args.Offline))
}

// Prepare implements [actions.Handler]. A container that is remembered by that id and
// name was made by an earlier attempt.
func (h create) Prepare(s *protocol.Spec) (queue.Change, *queue.Step) {
	if m := h.managed[s.Target]; m != nil && m.rec.Name == s.Name {
		return queue.Change{}, nil
	}
	args := argsOf(s)
	r, err := h.creator(&args)
	offline, bad := contract.Parse(args.Offline)
	offline.ByLease = args.Class == contract.Unique && args.Offline == ""
	set, wrong := limit.Parse(args.Limits)
	err = errors.Join(err, bad, wrong)
	var opening []port.Mapping
	if err == nil {
		opening, err = port.ParseAll(args.Expose)
	}
	if err == nil {
		err = ports(h).claim(s.Target, opening)
	}
	if err == nil && args.Network != "" {
		if _, err = networks(h).find(args.Network); err == nil {
			err = networks(h).exposable(args.Network, len(opening))
		}
	}
	mounts, wrong := mount.Parse(args.Volumes, args.Mounts)
	if err = errors.Join(err, wrong); err == nil {
		err = volumes(h).claim(s.Target, mounts, args.Privileged)
	}
	switch {
	case err != nil: // the host had it when the action was accepted
		return queue.Change{}, &queue.Step{Event: protocol.EventFail, Detail: err.Error()}
	case h.managed[s.Target] != nil || h.used(s.Name):
		return queue.Change{}, &queue.Step{Event: protocol.EventFail, Detail: fmt.Sprintf("a container %q exists on this host, or its id does", s.Name)}
	}
	return keep(queue.Container{
		CTID: s.Target, Name: s.Name, Runtime: string(r.Kind()), Class: cmp.Or(args.Class, classPinned), Intended: queue.Stopped,
		Offline: offline.String(), Labels: slices.Sorted(slices.Values(args.Labels)), Template: args.Template,
		MAC: container.MAC(container.CTID(s.Target.String())),
		Settings: queue.Settings{
			Limits: limit.Limits(nil).With(set), Env: slices.Sorted(slices.Values(args.Env)), Hostname: args.Hostname, Command: args.Command, Opening: opening, Health: args.Health, Mounts: mounts, Network: args.Network,
			Schedules: contract.Schedules{}.With(args.Schedules),
		},
	}), nil
}

// Claims implements [actions.Claimer].
func (create) Claims(s *protocol.Spec) bool {
	args := argsOf(s)
	return len(args.Expose)+len(args.Volumes) > 0 || args.Network != ""
}

// Begin implements [actions.Handler].
func (h create) Begin(j *actions.Job) {
	if o := h.operation(j); o != nil {
		h.begin(j, o)
	}
}

func (h create) begin(j *actions.Job, o *operation) {
	s := actions.Saga{
		Steps: []actions.Step{{Do: func(ctx context.Context) (queue.Change, error) { return h.make(ctx, o) }, Commit: true}},
		Undo:  o.unmake,

		Committed: o.rec.Made,
	}
	if a, ok := o.spec.Args.(*protocol.DemoteArgs); ok {
		if o.rec.Made { // the image may be gone
			s.Steps = nil
		}
		if !a.Keep {
			s.Steps = append(s.Steps, actions.Step{Do: o.forget})
		}
	}
	arrival := protocol.ArgsOf[protocol.RestoreArgs](o.spec).Arrival
	if arrival.KeepIdentity && o.rec.Made { // by an action before this one
		s.Steps = nil
	}
	if argsOf(o.spec).Start {
		s.Steps = append(s.Steps, actions.Step{Do: func(ctx context.Context) (queue.Change, error) {
			err := o.start(ctx)
			if err == nil && arrival.KeepIdentity {
				err = proof{o}.well(ctx, time.Duration(arrival.WaitMS)*time.Millisecond)
			}
			if err != nil {
				return queue.Change{}, fmt.Errorf("it was created and does not start: %w", err)
			}
			return queue.Change{}, nil
		}})
	}
	h.run(j, o, s)
}

// Settle implements [actions.Settler]: a container that could never be made is removed,
// one that was made is started if that was asked for.
func (h create) Settle(j *actions.Job) { h.Begin(j) }

// make makes the container, or goes on with what an earlier attempt has made.
func (h create) make(ctx context.Context, o *operation) (queue.Change, error) {
	network, err := networks(h).attach(ctx, o)
	if err == nil {
		spec := container.CreateSpec{
			Name: string(o.rec.Name), CTID: container.CTID(o.rec.CTID.String()), Template: o.rec.Template, Network: network,
			Unique:     o.rec.Class == contract.Unique,
			Privileged: argsOf(o.spec).Privileged, Pull: argsOf(o.spec).Pull,
			Hostname: string(o.rec.Settings.Hostname), Env: o.rec.Settings.Env, Command: o.rec.Settings.Command,
		}
		from := argsOf(o.spec)
		switch o.spec.Kind {
		case protocol.KindCreate:
			if len(from.Restore) > 0 {
				spec.Env, spec.Command = nil, nil // the backup says what runs in it
				spec.Template = backupTemplate + string(o.rec.Name)
				spec.Image, err = h.latest(ctx, o, &from)
			}
		case protocol.KindRestore:
			spec.Env, spec.Command = nil, nil // the backup says what runs in it
			spec.Image, err = o.backedUp(ctx, h.Containers)
		case protocol.KindDemote:
			spec.Env, spec.Command = nil, nil // the image says it
			err = o.demoted(ctx, h.Containers)
		}
		if err == nil { // a restore has made its volumes
			spec.Mounts, err = (mounted{o}).mounts(ctx)
		}
		if err == nil {
			err = o.produce(ctx, spec)
		}
	}
	if err == nil && len(o.rec.Settings.Opening) > 0 {
		if err = o.open(ctx, ports(h)); err == nil {
			opened(&o.rec)
		}
	}
	if err != nil {
		return queue.Change{}, err
	}
	o.rec.Made = true
	if argsOf(o.spec).Start {
		o.rec.Intended = queue.Running
	}
	return keep(o.rec), nil
}

// produce has the runtime make the container.
func (o *operation) produce(ctx context.Context, spec container.CreateSpec) (err error) {
	if o.spec.Kind != protocol.KindClone {
		return o.runtime.(container.Creator).Create(ctx, spec)
	}
	c, ok := o.runtime.(container.Cloner)
	if !ok {
		return unsupported(o, "clone")
	}
	o.seen, err = c.Clone(ctx, string(o.source), spec)
	return err
}

// unmake forgets a container that could not be made, unless its user has to destroy
// what is left of it.
func (o *operation) unmake(ctx context.Context, why error) (queue.Change, error) {
	if o.rec.Made {
		return queue.Change{}, why // by an action before this one
	}
	o.seen = container.Info{} // as a clone it may have been seen
	if left := o.remove(ctx, why); left != nil {
		return queue.Change{}, fmt.Errorf("%w; what it left cannot be removed: %w", why, left)
	}
	return queue.Change{Delete: []protocol.CTID{o.rec.CTID}}, why
}

// remove removes what a creation has left that was cut short. A container of that
// name which has another id is not touched.
func (o *operation) remove(ctx context.Context, why error) error {
	if errors.Is(why, container.ErrExists) || errors.Is(why, container.ErrUnsupported) || o.first && errors.Is(why, container.ErrUnavailable) {
		return nil // nothing was made
	}
	ctx, cancel := context.WithTimeout(ctx, correctTimeout)
	defer cancel()
	name := string(o.rec.Name)
	info, err := o.runtime.Inspect(ctx, name)
	switch {
	case err == nil && string(info.CTID) != o.rec.CTID.String():
		return nil
	case err != nil && !errors.Is(err, container.ErrNotFound):
		return err
	}
	// A container that is half made is not found, and yet destroyed.
	if err = o.runtime.(container.Creator).Destroy(ctx, name); errors.Is(err, container.ErrNotFound) {
		return nil
	}
	return err
}
