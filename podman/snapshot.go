package podman

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/internal/layers"
	"github.com/hostler-io/hostler/snapshot"
)

// shooting is what a runtime does to snapshots.
type shooting struct{ r *Runtime }

var _ container.Historian = (*Runtime)(nil)

// snapshotTime is how long a snapshot or a rollback may take.
const snapshotTime = 30 * time.Minute

// snapshotDir is where the snapshots of a container are, in the directory of its layer:
// so they go with it.
const snapshotDir = "hostler-snapshots"

// overlay is the driver of podman's storage that keeps what a container has changed in a
// directory of its own.
const overlay = "overlay"

// storage is where podman keeps the files of a container.
type storage struct {
	Name string
	Data map[string]string
}

// snapshots returns where the snapshots of a container are. What is kept is the layer
// that holds what the container has changed; the layers of its image never change.
func (s *storage) snapshots() (snapshot.Dir, error) {
	upper := s.Data["UpperDir"]
	if s.Name != overlay || !filepath.IsAbs(upper) {
		return snapshot.Dir{}, fmt.Errorf("%w: podman's storage driver is %q, and snapshots of containers need overlay; set storage_driver in /etc/containers/storage.conf", container.ErrUnsupported, s.Name)
	}
	return snapshot.Dir{Path: filepath.Join(filepath.Dir(upper), snapshotDir), Tree: upper}, nil
}

// merged is where the files of a container are while they are mounted.
func (s *storage) merged() string {
	return cmp.Or(s.Data["MergedDir"], filepath.Join(filepath.Dir(s.Data["UpperDir"]), "merged"))
}

// mounted reports whether the files of a container are in use by a mount.
func (s *storage) mounted() (bool, error) {
	merged := s.merged()
	var at, above syscall.Stat_t
	err := syscall.Stat(merged, &at)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err := errors.Join(err, syscall.Stat(filepath.Dir(merged), &above)); err != nil {
		return false, err
	}
	return at.Dev != above.Dev, nil
}

// free is [container.ErrBusy] while the files of a container are in use by a mount.
func (s *storage) free(name string) error {
	busy, err := s.mounted()
	if err == nil && busy {
		err = fmt.Errorf("%w: its files are mounted; ask again when podman has tidied up, or type podman umount %s", container.ErrBusy, name)
	}
	return err
}

// onSnapshots does something to the snapshots of one of our containers, while no other
// operation changes it.
func (s shooting) onSnapshots(ctx context.Context, op, name string, stands bool, do func(context.Context, snapshot.Dir) error) error {
	r := s.r
	return r.change(ctx, op, name, snapshotTime, func(ctx context.Context) error {
		d, err := ours(ctx, r, name)
		if err != nil {
			return err
		}
		dir, err := d.GraphDriver.snapshots()
		if err != nil {
			return err
		}
		if stands {
			if _, err := r.stopped(ctx, name); err != nil {
				return err
			}
			if err := d.GraphDriver.free(name); err != nil {
				return err
			}
		}
		return do(ctx, dir)
	})
}

// Snapshot implements container.Snapshotter.
func (s shooting) Snapshot(ctx context.Context, name string, next container.Snapshot) error {
	return s.onSnapshots(ctx, "snapshot", name, false, func(ctx context.Context, d snapshot.Dir) error { return d.Create(ctx, next) })
}

// Rollback implements container.Snapshotter.
func (s shooting) Rollback(ctx context.Context, name, snap string) error {
	return s.onSnapshots(ctx, "rollback", name, true, func(ctx context.Context, d snapshot.Dir) error { return d.Rollback(ctx, snap) })
}

// DropSnapshot implements container.Snapshotter.
func (s shooting) DropSnapshot(ctx context.Context, name, snap string) error {
	return s.onSnapshots(ctx, "dropsnapshot", name, false, func(_ context.Context, d snapshot.Dir) error { return d.Remove(snap) })
}

// KeepsHistory implements container.Historian.
func (s shooting) KeepsHistory() bool {
	driver := s.r.driver.Load()
	return driver == nil || *driver == overlay
}

// WithSnapshot implements container.Historian.
func (s shooting) WithSnapshot(ctx context.Context, name, snap string, do func(root string) error) error {
	r := s.r
	return r.do(ctx, "snapshots", name, snapshotTime, func(ctx context.Context) error {
		d, err := ours(ctx, r, name)
		if err != nil {
			return err
		}
		dir, err := d.GraphDriver.snapshots()
		if err != nil {
			return err
		}
		past := layers.Past{Lower: filepath.SplitList(d.GraphDriver.Data["LowerDir"])}
		if past.Changes, err = dir.Files(snap); err != nil {
			return err
		}
		ids, err := d.ids()
		if err != nil {
			return err
		}
		if past.First, past.Count, err = mapped(past.Lower, ids); err != nil {
			return err
		}
		f, err := past.Open()
		if err != nil {
			return err
		}
		defer f.Close()
		return do(layers.Path(f))
	})
}

// mapped returns to which users the kernel shows the files of an image to belong, for the
// storage of podman does one of two things: it has the kernel do that, or, where the kernel
// cannot, lays a copy of them with other owners over them.
func mapped(lower []string, ids container.IDRange) (first, count uint32, err error) {
	if len(lower) == 0 {
		return 0, 0, errors.New("podman does not tell where the files of the image are")
	}
	var top syscall.Stat_t
	if err := syscall.Stat(lower[0], &top); err != nil {
		return 0, 0, &os.PathError{Op: "stat", Path: lower[0], Err: err}
	}
	if top.Uid-ids.First < ids.Count {
		return 0, 0, nil
	}
	return ids.First, ids.Count, nil
}

// Snapshots implements container.Snapshotter.
func (s shooting) Snapshots(ctx context.Context, name string) (all []container.Snapshot, err error) {
	r := s.r
	err = r.do(ctx, "snapshots", name, r.cfg.Query, func(ctx context.Context) error {
		d, err := r.inspect(ctx, name)
		if err != nil {
			return err
		}
		dir, err := d.GraphDriver.snapshots()
		if err != nil {
			return nil // then there are none
		}
		all, err = dir.List()
		return err
	})
	return all, err
}
