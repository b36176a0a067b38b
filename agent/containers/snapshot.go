package containers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hostler-io/hostler/agent/actions"
	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/data"
)

// snapshots are the kinds about snapshots of containers.
func snapshots(c *Containers) map[protocol.Kind]actions.Handler {
	return map[protocol.Kind]actions.Handler{
		protocol.KindSnapshot:       snap{needs{verb{Containers: c}, "snapshot"}},
		protocol.KindRollback:       rollback{needs{verb{Containers: c}, "snapshot"}},
		protocol.KindSnapshotRemove: needs{verb{Containers: c, do: (*operation).dropSnapshot}, "snapshot"},
		protocol.KindSnapshotPrune:  needs{verb{Containers: c, do: (*operation).pruneSnapshots}, "snapshot"},
	}
}

// snapshotter is the runtime of a container, if it makes snapshots.
func (o *operation) snapshotter() (container.Snapshotter, error) {
	if s, ok := o.runtime.(container.Snapshotter); ok {
		return s, nil
	}
	return nil, unsupported(o, "snapshot")
}

// snap makes a snapshot. Its commit point is the snapshot that has its name. The record
// of a container says that the snapshot pauses it, before it is frozen. After a crash the
// next attempt resumes such a container, and leaves those alone that a person has frozen.
type snap struct{ needs }

// Begin implements [actions.Handler].
func (h snap) Begin(j *actions.Job) {
	o := h.operation(j)
	if o == nil {
		return
	}
	key := j.Action().ID.String()
	args := protocol.ArgsOf[protocol.SnapshotArgs](o.spec)
	s := h.managed[o.rec.CTID].still(o, key, args.Pause, func(ctx context.Context, paused bool) error {
		r, err := o.snapshotter()
		if err == nil {
			err = r.Snapshot(ctx, string(o.rec.Name), container.Snapshot{Name: args.Snapshot, Key: key, MadeMS: o.cfg.Loop.WallMS(), Paused: paused, Scheduled: args.Scheduled})
		}
		return err
	})
	if args.Prunes() {
		s.Steps = append(s.Steps, actions.Step{Do: func(ctx context.Context) (queue.Change, error) { return o.prune(ctx, args.Retention, true) }})
	}
	h.run(j, o, s)
}

// still is a saga that does something with the files of a container. If pause is set, one
// that runs is frozen meanwhile, after its record says for which action that is.
func (m *managed) still(o *operation, key string, pause bool, do func(ctx context.Context, paused bool) error) (s actions.Saga) {
	paused := o.rec.Settings.Paused == key
	if !paused && pause && m.seen && m.info.State == container.StateRunning {
		paused = true
		o.rec.Settings.Paused = key
		s.Steps = append(s.Steps, actions.Step{Do: func(context.Context) (queue.Change, error) { return keep(o.rec), nil }})
	}
	s.Steps = append(s.Steps, actions.Step{Do: func(ctx context.Context) (queue.Change, error) {
		if !paused {
			return queue.Change{}, do(ctx, false)
		}
		return o.paused(ctx, key, do)
	}, Commit: true})
	s.Undo = func(ctx context.Context, why error) (queue.Change, error) { return o.unpause(ctx, key, why) }
	return s
}

// Settle implements [actions.Settler]: what was paused for it runs again.
func (h snap) Settle(j *actions.Job) { h.Begin(j) }

// paused does something with the files of a container that does not run meanwhile.
func (o *operation) paused(ctx context.Context, key string, do func(ctx context.Context, paused bool) error) (queue.Change, error) {
	f, ok := o.runtime.(container.Freezer)
	if !ok {
		return queue.Change{}, unsupported(o, "freeze")
	}
	if _, err := f.Freeze(ctx, string(o.rec.Name)); err != nil && !errors.Is(err, container.ErrNotRunning) {
		return queue.Change{}, err
	}
	if err := do(ctx, true); err != nil {
		return queue.Change{}, err
	}
	return o.unpause(ctx, key, nil)
}

// unpause lets a container run again that was paused for the action of a key, and returns
// why that was not made.
func (o *operation) unpause(ctx context.Context, key string, why error) (queue.Change, error) {
	f, ok := o.runtime.(container.Freezer)
	if !ok || o.rec.Settings.Paused != key {
		return queue.Change{}, why
	}
	seen, err := f.Unfreeze(ctx, string(o.rec.Name))
	if err != nil && !errors.Is(err, container.ErrNotRunning) {
		return queue.Change{}, errors.Join(why, fmt.Errorf("it cannot be let run again; type hostler ct unfreeze: %w", err))
	}
	o.seen, o.rec.Settings.Paused = seen, ""
	return keep(o.rec), why
}

// rollback gives a container the files of a snapshot. Its commit point is the record that
// says so: before it, an attempt does all of it again; after it, none does any of it, for
// the container may run on its new files already.
type rollback struct{ needs }

// Begin implements [actions.Handler].
func (h rollback) Begin(j *actions.Job) {
	o := h.operation(j)
	if o == nil {
		return
	}
	key := j.Action().ID.String()
	args := protocol.ArgsOf[protocol.RollbackArgs](o.spec)
	s := actions.Saga{Committed: o.rec.Settings.RolledBack == key}
	if !s.Committed {
		s.Steps = append(s.Steps, actions.Step{Do: func(ctx context.Context) (queue.Change, error) {
			if err := o.knows(ctx, args.Snapshot); err != nil {
				return queue.Change{}, err // before it is stopped for nothing
			}
			if args.Restart {
				if _, err := o.stop(ctx); err != nil {
					return queue.Change{}, err
				}
			}
			return o.rollback(ctx, args.Snapshot, key)
		}, Commit: true})
	}
	if args.Restart && o.rec.Intended == queue.Running {
		s.Steps = append(s.Steps, actions.Step{Do: func(ctx context.Context) (queue.Change, error) {
			if err := o.start(ctx); err != nil {
				return queue.Change{}, fmt.Errorf("its files are those of %s, and it does not start: %w", args.Snapshot, err)
			}
			return queue.Change{}, nil
		}})
	}
	if len(s.Steps) == 0 {
		s = actions.One(func(context.Context) (queue.Change, error) { return queue.Change{}, nil })
	}
	h.run(j, o, s)
}

// Settle implements [actions.Settler].
func (h rollback) Settle(j *actions.Job) { h.Begin(j) }

// knows refuses a snapshot that is not there.
func (o *operation) knows(ctx context.Context, snapshot string) error {
	r, err := o.snapshotter()
	if err != nil {
		return err
	}
	all, err := r.Snapshots(ctx, string(o.rec.Name))
	if err == nil && !slices.ContainsFunc(all, func(s container.Snapshot) bool { return s.Name == snapshot }) {
		err = fmt.Errorf("%w: there is no snapshot %s; see which there are: hostler snapshot ls", container.ErrNotFound, snapshot)
	}
	return err
}

func (o *operation) rollback(ctx context.Context, snapshot, key string) (queue.Change, error) {
	r, err := o.snapshotter()
	if err == nil {
		err = r.Rollback(ctx, string(o.rec.Name), snapshot)
	}
	if errors.Is(err, container.ErrBusy) {
		err = fmt.Errorf("%w; stop it first, or ask with --restart", err)
	}
	if err != nil {
		return queue.Change{}, err
	}
	o.rec.Settings.RolledBack = key
	o.seen = container.Info{}
	return keep(o.rec), nil
}

// dropSnapshot removes a snapshot. One that is gone at a later attempt was removed by an
// earlier one.
func (o *operation) dropSnapshot(ctx context.Context) (queue.Change, error) {
	r, err := o.snapshotter()
	if err == nil {
		err = r.DropSnapshot(ctx, string(o.rec.Name), protocol.ArgsOf[protocol.SnapshotRemoveArgs](o.spec).Snapshot)
	}
	if !o.first && errors.Is(err, container.ErrNotFound) {
		err = nil
	}
	return queue.Change{}, err
}

// pruneSnapshots removes the snapshots beyond the numbers that the order keeps.
func (o *operation) pruneSnapshots(ctx context.Context) (queue.Change, error) {
	return o.prune(ctx, protocol.ArgsOf[protocol.SnapshotPruneArgs](o.spec).Retention, false)
}

// prune removes snapshots; of what a schedule counts, those alone that it has made.
func (o *operation) prune(ctx context.Context, keep data.Retention, scheduled bool) (queue.Change, error) {
	r, err := o.snapshotter()
	if err != nil {
		return queue.Change{}, err
	}
	all, err := r.Snapshots(ctx, string(o.rec.Name))
	if err != nil {
		return queue.Change{}, err
	}
	if scheduled {
		all = slices.DeleteFunc(all, func(s container.Snapshot) bool { return !s.Scheduled })
	}
	for _, s := range container.Surplus(all, int(keep.KeepDaily), int(keep.KeepWeekly), time.UnixMilli(o.cfg.Loop.WallMS())) {
		if err := r.DropSnapshot(ctx, string(o.rec.Name), s.Name); err != nil {
			return queue.Change{}, err
		}
	}
	return queue.Change{}, nil
}
