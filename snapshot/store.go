package snapshot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/internal/tree"
	"github.com/hostler-io/hostler/runner/rundir"
)

const (
	recordFile = "snapshot.json"
	treeDir    = "tree"
	maxRecord  = 64 << 10
	maxOrder   = 1 << 53 // of snapshots: what JSON can hold
	// reserve is how many bytes of the file system no copy takes.
	reserve = 256 << 20
)

// Max is how many snapshots there may be of a tree.
const Max = 1000

// Dir is the directory with the snapshots of the tree Tree. Both must lie on one file
// system. It need not exist.
type Dir struct{ Path, Tree string }

// unfinished begins the names of what is being made or removed.
const unfinished = "."

func (d Dir) at(name string) string { return filepath.Join(d.Path, name) }

// List returns the snapshots in the order in which they were made. Of one whose record
// cannot be read, no more is known than its name, and that it is damaged.
func (d Dir) List() ([]container.Snapshot, error) {
	entries, err := os.ReadDir(d.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []container.Snapshot
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), unfinished) || !e.IsDir() {
			continue
		}
		s, err := d.read(e.Name())
		if err != nil {
			s = container.Snapshot{Name: e.Name(), Damaged: true}
		}
		all = append(all, s)
	}
	slices.SortFunc(all, container.Snapshot.Compare)
	return all, nil
}

// read returns the record of a snapshot.
func (d Dir) read(name string) (s container.Snapshot, err error) {
	raw, err := rundir.ReadCapped(filepath.Join(d.at(name), recordFile), maxRecord)
	if err != nil {
		return s, err
	}
	if raw, err = rundir.CheckSum(raw); err != nil {
		return s, err
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		return s, err
	}
	if s.Name != name || s.Order == 0 || s.Order > maxOrder {
		return s, errors.New("it is the record of another snapshot")
	}
	return s, nil
}

// find returns a snapshot that is whole.
func (d Dir) find(name string) (container.Snapshot, error) {
	if err := container.CheckSnapshot(name); err != nil {
		return container.Snapshot{}, err
	}
	s, err := d.read(name)
	if errors.Is(err, fs.ErrNotExist) {
		if _, there := os.Lstat(d.at(name)); there != nil {
			return s, fmt.Errorf("%w: there is no snapshot %s; see which there are: hostler snapshot ls", container.ErrNotFound, name)
		}
	}
	if err != nil {
		return s, fmt.Errorf("the record of snapshot %s cannot be read: %w", name, err)
	}
	return s, nil
}

// Files returns the path of the tree of a snapshot that is whole.
func (d Dir) Files(name string) (string, error) {
	_, err := d.find(name)
	return filepath.Join(d.at(name), treeDir), err
}

// Create makes a snapshot of the tree. One of that name and key is nil: it was made by
// an attempt before this one. Another one of that name is container.ErrExists.
func (d Dir) Create(ctx context.Context, s container.Snapshot) error {
	if err := container.CheckSnapshot(s.Name); err != nil {
		return err
	}
	if err := d.Sweep(); err != nil {
		return err
	}
	if _, err := os.Lstat(d.at(s.Name)); err == nil {
		if there, err := d.read(s.Name); err == nil && there.Key == s.Key && s.Key != "" {
			return nil
		}
		return fmt.Errorf("%w: a snapshot %s is there already; choose another name", container.ErrExists, s.Name)
	}
	all, err := d.List()
	if err != nil {
		return err
	}
	if len(all) >= Max {
		return fmt.Errorf("%w: there are %d snapshots, as many as there may be; remove some: hostler snapshot prune", container.ErrUnsupported, len(all))
	}
	s.Order = 1
	if n := len(all); n > 0 {
		s.Order = all[n-1].Order + 1
	}
	return d.put(s, func(to string) (tree.Copied, error) { return tree.Copy(ctx, d.Tree, to, reserve, tree.Shift{}) })
}

// put makes a snapshot. fill makes its tree at a path.
func (d Dir) put(s container.Snapshot, fill func(to string) (tree.Copied, error)) error {
	if err := os.Mkdir(d.Path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	staging := d.at(unfinished + "new")
	if err := os.Mkdir(staging, 0o700); err != nil {
		return err
	}
	if err := d.fill(staging, s, fill); err != nil {
		return errors.Join(fmt.Errorf("snapshot %s: %w", s.Name, err), tree.Remove(staging))
	}
	failpoint.Before(failpoint.SnapshotMade)
	if err := rename(staging, d.at(s.Name), unix.RENAME_NOREPLACE); err != nil {
		return err
	}
	if err := rundir.SyncDir(d.Path); err != nil {
		return err
	}
	failpoint.After(failpoint.SnapshotMade)
	return nil
}

// Take makes the snapshots that a container brings from another host, as they were there. fill
// makes the tree of one at a path. The container is being made: what is there of snapshots was
// left by an earlier attempt, and goes.
func (d Dir) Take(ctx context.Context, all []container.ImageSnapshot, fill func(to string, files container.Layer) error) error {
	if err := d.clear(); err != nil {
		return err
	}
	if len(all) > Max {
		return fmt.Errorf("%w: %d snapshots have come, and there may be %d", container.ErrUnsupported, len(all), Max)
	}
	last := uint64(0)
	for _, one := range all {
		s := one.Snapshot
		if err := container.CheckSnapshot(s.Name); err != nil {
			return err
		}
		if s.Damaged || s.Order <= last || s.Order > maxOrder {
			return fmt.Errorf("snapshot %s has come as one that cannot be, number %d behind number %d", s.Name, s.Order, last)
		}
		last = s.Order
		err := d.put(s, func(to string) (made tree.Copied, err error) {
			if err := context.Cause(ctx); err != nil {
				return made, err
			}
			if err := fill(to, one.Files); err != nil {
				return made, err
			}
			return tree.Tally(ctx, to)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// clear removes all that is there.
func (d Dir) clear() error {
	all, err := d.List()
	if err != nil {
		return err
	}
	for _, s := range all {
		if err := d.Remove(s.Name); err != nil {
			return err
		}
	}
	return d.Sweep()
}

// fill makes all of a snapshot, and has it on disk.
func (d Dir) fill(staging string, s container.Snapshot, fill func(to string) (tree.Copied, error)) error {
	made, err := fill(filepath.Join(staging, treeDir))
	if err != nil {
		return err
	}
	s.Entries, s.Bytes, s.Shared = made.Entries, made.Bytes, made.Shared
	raw, err := json.Marshal(s)
	if err != nil {
		return err
	}
	f, err := rundir.WriteCapped(filepath.Join(staging, recordFile), append(rundir.AppendSum(raw), '\n'), os.O_EXCL, maxRecord)
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), syncFS(d.Path))
}

// Rollback exchanges the tree for what it was when the snapshot was made. The snapshot
// stays. The owner of the tree must not use it meanwhile.
func (d Dir) Rollback(ctx context.Context, name string) error {
	if _, err := d.find(name); err != nil {
		return err
	}
	err := d.Replace(ctx, filepath.Join(d.at(name), treeDir), tree.Shift{}, func(string) error { return nil })
	if err != nil {
		return fmt.Errorf("rollback to %s: %w", name, err)
	}
	return nil
}

// Replace exchanges the tree for a copy of another one on its file system, after change
// has been called with the path of the copy. The owner of the tree must not use it
// meanwhile.
func (d Dir) Replace(ctx context.Context, from string, shift tree.Shift, change func(copy string) error) error {
	return d.exchange(func(next string) error {
		if _, err := tree.Copy(ctx, from, next, reserve, shift); err != nil {
			return err
		}
		return change(next)
	})
}

// Exchange exchanges the tree for what fill makes of an empty directory. The owner of the
// tree must not use it meanwhile.
func (d Dir) Exchange(fill func(dir string) error) error {
	return d.exchange(func(next string) error {
		if err := tree.Make(next, 0o700); err != nil {
			return err
		}
		return fill(next)
	})
}

// exchange exchanges the tree for one that make makes at a path.
func (d Dir) exchange(make func(path string) error) error {
	if err := d.Sweep(); err != nil {
		return err
	}
	staging := d.at(unfinished + "back")
	if err := os.MkdirAll(staging, 0o700); err != nil {
		return err
	}
	next := filepath.Join(staging, treeDir)
	if err := make(next); err != nil {
		return errors.Join(err, tree.Remove(staging))
	}
	if err := syncFS(d.Path); err != nil {
		return err
	}
	// The root of the container may have made its files read-only.
	if err := tree.Unlock(d.Tree); err != nil {
		return err
	}
	failpoint.Before(failpoint.SnapshotRestored)
	if err := rename(next, d.Tree, unix.RENAME_EXCHANGE); err != nil {
		return err
	}
	if err := errors.Join(rundir.SyncDir(filepath.Dir(d.Tree)), rundir.SyncDir(staging)); err != nil {
		return err
	}
	failpoint.After(failpoint.SnapshotRestored)
	return tree.Remove(staging)
}

// Remove removes a snapshot, damaged ones too.
func (d Dir) Remove(name string) error {
	if err := container.CheckSnapshot(name); err != nil {
		return err
	}
	if err := d.Sweep(); err != nil {
		return err
	}
	if _, err := os.Lstat(d.at(name)); err != nil {
		return fmt.Errorf("%w: there is no snapshot %s; see which there are: hostler snapshot ls", container.ErrNotFound, name)
	}
	doomed := d.at(unfinished + "gone")
	failpoint.Before(failpoint.SnapshotDoomed)
	if err := rename(d.at(name), doomed, unix.RENAME_NOREPLACE); err != nil {
		return err
	}
	if err := rundir.SyncDir(d.Path); err != nil {
		return err
	}
	failpoint.After(failpoint.SnapshotDoomed)
	return tree.Remove(doomed)
}

// Unfinished are the paths of what was begun and not finished.
func (d Dir) Unfinished() (all []string, err error) {
	entries, err := os.ReadDir(d.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), unfinished) {
			all = append(all, d.at(e.Name()))
		}
	}
	return all, err
}

// Sweep removes it.
func (d Dir) Sweep() error {
	all, err := d.Unfinished()
	for _, path := range all {
		err = errors.Join(err, tree.Remove(path))
	}
	return err
}

func rename(from, to string, how uint) error {
	if err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, how); err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	return nil
}

// syncFS has all that was written to a file system on disk.
func syncFS(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = unix.Syncfs(int(f.Fd()))
	return errors.Join(err, f.Close())
}
