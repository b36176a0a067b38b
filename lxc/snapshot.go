package lxc

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/internal/tree"
	"github.com/hostler-io/hostler/lxc/internal/wire"
	"github.com/hostler-io/hostler/snapshot"
)

var _ container.Historian = (*Runtime)(nil)

// Snapshot implements container.Snapshotter.
func (r *Runtime) Snapshot(ctx context.Context, name string, s container.Snapshot) error {
	return r.shoot(ctx, wire.OpSnapshot, name, s)
}

// Rollback implements container.Snapshotter.
func (r *Runtime) Rollback(ctx context.Context, name, snapshot string) error {
	return r.shoot(ctx, wire.OpRollback, name, container.Snapshot{Name: snapshot})
}

// DropSnapshot implements container.Snapshotter.
func (r *Runtime) DropSnapshot(ctx context.Context, name, snapshot string) error {
	return r.shoot(ctx, wire.OpDropSnapshot, name, container.Snapshot{Name: snapshot})
}

func (r *Runtime) shoot(ctx context.Context, op, name string, s container.Snapshot) error {
	if err := container.CheckSnapshot(s.Name); err != nil {
		return fmt.Errorf("lxc %s %q: %w", op, name, err)
	}
	_, err := r.call(ctx, op, r.cfg.Deadlines.Create, wire.Request{Name: name, Snapshot: &s})
	return err
}

// Snapshots implements container.Snapshotter. Each of them appears and goes in one step,
// so no helper is needed to read them.
func (r *Runtime) Snapshots(_ context.Context, name string) ([]container.Snapshot, error) {
	if err := container.CheckReference(name); err != nil {
		return nil, fmt.Errorf("lxc snapshots: %w: %w", container.ErrNotFound, err)
	}
	if _, err := os.Stat(filepath.Join(r.cfg.LXCPath, name)); err != nil {
		return nil, fmt.Errorf("lxc snapshots %q: %w", name, container.ErrNotFound)
	}
	return snapshot.Dir{Path: filepath.Join(r.cfg.LXCPath, name, wire.SnapshotDir)}.List()
}

// ground is the directory of the containers.
type ground string

// Subvolumes reports whether the files of containers that are made now are subvolumes of
// btrfs. Their snapshots and clones are made at once, and have the files as they are at one moment.
func (g ground) Subvolumes() bool { return tree.Subvolumes(string(g)) }
