package containers

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/hostler-io/hostler/agent/actions"
	"github.com/hostler-io/hostler/agent/loop"
	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/mount"
)

// Volumes are directories of a host with names, which containers mount. It is safe for
// concurrent use.
type Volumes interface {
	// Ensure makes the volume of a name if there is none, and returns the directory that
	// is mounted.
	Ensure(name string, nowMS int64) (path string, err error)
	// Fill makes a volume with the files of an archive. One that is there is
	// container.ErrExists, unless it was made so and no container has had it since.
	Fill(name string, nowMS int64, from container.Layer) error
	// Own gives the files of a volume to the container that has these ids of the host, or
	// none. Nothing must run that has it mounted. It goes on where an interruption ended it.
	Own(ctx context.Context, name string, ids container.IDRange) error
	// Remove removes a volume. One that is not there is an error that names it.
	Remove(name string) error
}

// volumes is what a host does about volumes. The loop calls its methods but where
// something else is said.
type volumes struct{ *Containers }

// admit refuses volumes on a host that has none.
func (h volumes) admit(asked, hosts []string) error {
	all, err := mount.Parse(asked, hosts)
	if err != nil {
		return fmt.Errorf("%w: %w", protocol.ErrSpec, err)
	}
	if h.cfg.Volumes == nil && slices.ContainsFunc(all, func(m mount.Mount) bool { return m.Volume != "" }) {
		return fmt.Errorf("%w: this host has no volumes", actions.CodeUnsupported)
	}
	return nil
}

// users are the containers that have a volume, by name.
func (h volumes) users(volume string) (all []*managed) {
	for _, m := range h.sorted() {
		if slices.ContainsFunc(m.rec.Settings.Mounts, func(o mount.Mount) bool { return o.Volume == volume }) {
			all = append(all, m)
		}
	}
	return all
}

// claim refuses volumes that a new container cannot have. The files of a volume belong to
// one container, as its users are nobody else's; only those of the host can be shared.
func (h volumes) claim(id protocol.CTID, all []mount.Mount, privileged bool) error {
	for _, m := range all {
		if h.removing[m.Volume] {
			return fmt.Errorf("volume %s is being removed; ask again when it is gone, and it is made anew", m.Volume)
		}
		if m.Volume == "" {
			continue
		}
		for _, o := range h.users(m.Volume) {
			if o.rec.CTID != id && (!privileged || !h.privileged(o)) {
				return fmt.Errorf("container %s has volume %s; two containers share a volume only if both are privileged: remove %s first, or name another volume", o.rec.Name, m.Volume, o.rec.Name)
			}
		}
	}
	return nil
}

// privileged reports whether a container is, or is being made, privileged.
func (h volumes) privileged(m *managed) bool {
	if m.rec.Made {
		return m.seen && m.info.Privileged
	}
	s := actions.Running(h.cfg.Actions, m.rec.CTID)
	if s == nil {
		return false
	}
	return argsOf(s).Privileged
}

// mounted is what a worker does about the volumes and mounts of a container.
type mounted struct{ *operation }

// mounts are those of a container as its runtime is told of them, the volumes made that
// were not there. A worker calls it.
func (o mounted) mounts(ctx context.Context) (all []container.Mount, err error) {
	if all, err = (networks{o.contact.Containers}).resolver(ctx, &o.rec); err != nil {
		return nil, fmt.Errorf("telling the container where names are: %w", err)
	}
	for _, m := range o.rec.Settings.Mounts {
		source := m.Source
		if m.Volume != "" {
			if source, err = o.cfg.Volumes.Ensure(m.Volume, o.cfg.Loop.WallMS()); err != nil {
				return nil, err
			}
		}
		all = append(all, container.Mount{Source: source, Path: m.Path, ReadOnly: m.ReadOnly})
	}
	return all, nil
}

// own gives the files of its volumes to a container that is about to start. A worker calls
// it.
func (o mounted) own(ctx context.Context) error {
	if o.cfg.Volumes == nil || !slices.ContainsFunc(o.rec.Settings.Mounts, func(m mount.Mount) bool { return m.Volume != "" }) {
		return nil
	}
	info, err := o.runtime.Inspect(ctx, string(o.rec.Name))
	if err != nil || info.State != container.StateStopped {
		return err
	}
	for _, m := range o.rec.Settings.Mounts {
		if m.Volume == "" {
			continue
		}
		if _, err := o.cfg.Volumes.Ensure(m.Volume, o.cfg.Loop.WallMS()); err != nil {
			return err
		}
		if err := o.cfg.Volumes.Own(ctx, m.Volume, info.IDs); err != nil {
			return err
		}
	}
	return nil
}

// removeVolume removes a volume that no container has.
type removeVolume struct{ *Containers }

// Admit implements [actions.Handler].
func (h removeVolume) Admit(*protocol.Spec) error {
	if h.cfg.Volumes == nil {
		return fmt.Errorf("%w: this host has no volumes", actions.CodeUnsupported)
	}
	return nil
}

// Prepare implements [actions.Handler].
func (h removeVolume) Prepare(s *protocol.Spec) (queue.Change, *queue.Step) {
	name := protocol.ArgsOf[protocol.VolumeArgs](s).Volume
	if users := volumes(h).users(name); len(users) > 0 {
		return queue.Change{}, &queue.Step{Event: protocol.EventFail, Detail: fmt.Sprintf("container %s has volume %s; remove the container first", users[0].rec.Name, name)}
	}
	return queue.Change{}, nil
}

// Begin implements [actions.Handler].
func (h removeVolume) Begin(j *actions.Job) {
	name := protocol.ArgsOf[protocol.VolumeArgs](j.Spec()).Volume
	again := j.Action().Attempt > 1 || j.Recovered()
	s := actions.One(func(ctx context.Context) (queue.Change, error) {
		// A creation may have claimed it since.
		_, err := loop.Ask(ctx, h.cfg.Loop, func() (struct{}, error) {
			if users := volumes(h).users(name); len(users) > 0 {
				return struct{}{}, fmt.Errorf("container %s has volume %s; remove the container first", users[0].rec.Name, name)
			}
			h.removing[name] = true
			return struct{}{}, nil
		})
		if err == nil {
			err = h.cfg.Volumes.Remove(name)
		}
		if again && errors.Is(err, container.ErrNotFound) {
			err = nil // by the attempt before
		}
		return queue.Change{}, err
	})
	s.Ended = func(context.Context) func(*queue.Step) {
		return func(*queue.Step) { delete(h.removing, name) }
	}
	j.Run(s)
}
