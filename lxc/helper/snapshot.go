//go:build linux && cgo

package helper

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/lxc/internal/wire"
	"github.com/hostler-io/hostler/snapshot"
)

// shooting is what is done to snapshots.
type shooting struct{ *host }

// snapshots is where those of a container are: in its directory, so that they go with it.
func (h shooting) snapshots(name string, r record) snapshot.Dir {
	return snapshot.Dir{Path: filepath.Join(h.dir(name), wire.SnapshotDir), Tree: filepath.Join(h.dir(name), r.own())}
}

// onSnapshots does something to the snapshots of one of our containers, while nobody else
// does anything to it.
func (h shooting) onSnapshots(name string, mustStand bool, do func(context.Context, snapshot.Dir) error) error {
	t, err := h.acquireReady(name)
	if err != nil {
		return err
	}
	defer t.lock.release()
	if t.foreign() {
		return fmt.Errorf("%w: %s was not made by Hostler and must be adopted first", container.ErrUnsupported, name)
	}
	if mustStand {
		if err := h.stopped(name); err != nil {
			return err
		}
	}
	// What is mounted there belongs to others, and would be removed with what it lies in.
	if mounts, err := mountsBelow(h.dir(name)); err != nil || len(mounts) > 0 {
		if err == nil {
			err = fmt.Errorf("%w: type umount %s, and ask again", errMounted, mounts[0])
		}
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), h.left())
	defer cancel()
	err = do(ctx, h.snapshots(name, t.record))
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("%w: %w", container.ErrTimeout, err)
	}
	return err
}

// take gives a container that is being made the snapshots that come with it.
func (h shooting) take(name string, r record, img *container.Image) error {
	if img.Copy || len(img.Snapshots) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), h.left())
	defer cancel()
	return h.snapshots(name, r).Take(ctx, img.Snapshots, func(to string, files container.Layer) error {
		return lay(to, []container.Layer{files}, r.IDs)
	})
}

// shoot does what is asked for with a snapshot.
func (h shooting) shoot(op, name string, s container.Snapshot) error {
	return h.onSnapshots(name, op == wire.OpRollback, func(ctx context.Context, d snapshot.Dir) error {
		switch op {
		case wire.OpSnapshot:
			return d.Create(ctx, s)
		case wire.OpRollback:
			return d.Rollback(ctx, s.Name)
		}
		return d.Remove(s.Name)
	})
}

// halfSnapshots are what operations on the snapshots of a container have left that were
// cut short.
func (h survey) halfSnapshots(name string, r record) (all []container.Debris) {
	s := shooting{h.host}
	dir := s.snapshots(name, r)
	left, err := dir.Unfinished()
	if err != nil {
		return nil
	}
	for _, path := range left {
		d := container.Debris{Kind: "half snapshot", Object: path, Cause: "a snapshot of " + name + ", a rollback or a removal was cut short", Repair: "remove it"}
		if h.repair {
			d.Mend(func() error {
				return s.onSnapshots(name, false, func(context.Context, snapshot.Dir) error { return dir.Sweep() })
			})
		}
		all = append(all, d)
	}
	return all
}
