package lxc

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/internal/layers"
	"github.com/hostler-io/hostler/lxc/internal/wire"
	"github.com/hostler-io/hostler/runner/rundir"
	"github.com/hostler-io/hostler/snapshot"
)

// shared is the part of the runtime that knows of files which containers share.
type shared struct {
	r     *Runtime
	alone atomic.Pointer[string] // why containers share none
}

// Alone implements container.Sharer.
func (s *shared) Alone() string {
	if why := s.alone.Load(); why != nil {
		return *why
	}
	return "it was not looked at"
}

// files returns what a container whose directory is dir shares; nil if all files are its
// own.
func (s *shared) files(dir string) (*container.SharedFiles, error) {
	rec, err := readRecord(dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && rec.Tree == "" {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &container.SharedFiles{Lower: filepath.Join(s.r.cfg.LXCPath, wire.TreesDir, rec.Tree), Dir: dir, IDs: rec.IDs}, nil
}

// WithTree calls do with the root directory of a container, whether it runs or not, as it is
// without what is mounted in it. The path holds until do returns, in this process.
func (s *shared) WithTree(ctx context.Context, name string, do func(root string) error) error {
	if err := container.CheckReference(name); err != nil {
		return fmt.Errorf("lxc files: %w: %w", container.ErrNotFound, err)
	}
	dir := filepath.Join(s.r.cfg.LXCPath, name)
	of, err := s.files(dir)
	if err != nil {
		return fmt.Errorf("lxc files %q: its record: %w", name, err)
	}
	if of == nil {
		return do(filepath.Join(dir, "rootfs"))
	}
	info, err := s.r.Inspect(ctx, name)
	if err != nil {
		return err
	}
	f, err := openShared(of, info)
	if err != nil {
		return fmt.Errorf("lxc files %q: %w", name, err)
	}
	defer f.Close()
	return do(layers.Path(f))
}

// KeepsHistory implements container.Historian.
func (*shared) KeepsHistory() bool { return true }

// WithSnapshot implements container.Historian.
func (s *shared) WithSnapshot(_ context.Context, name, snap string, do func(root string) error) error {
	if err := container.CheckReference(name); err != nil {
		return fmt.Errorf("lxc snapshots: %w: %w", container.ErrNotFound, err)
	}
	dir := filepath.Join(s.r.cfg.LXCPath, name)
	files, err := snapshot.Dir{Path: filepath.Join(dir, wire.SnapshotDir)}.Files(snap)
	if err != nil {
		return fmt.Errorf("lxc snapshots of %q: %w", name, err)
	}
	of, err := s.files(dir)
	if err != nil {
		return fmt.Errorf("lxc files %q: its record: %w", name, err)
	}
	if of == nil {
		return do(files)
	}
	f, err := layers.Past{Changes: files, Lower: []string{of.Lower}, First: of.IDs.First, Count: of.IDs.Count}.Open()
	if err != nil {
		return fmt.Errorf("lxc snapshots of %q: %w", name, err)
	}
	defer f.Close()
	return do(layers.Path(f))
}

func openShared(s *container.SharedFiles, info container.Info) (*os.File, error) {
	tree := layers.Of(s)
	switch {
	case info.InitPID != 0:
		// Whatever the container does to its own mounts, its monitor is not in it.
		monitor, err := rundir.Parent(info.InitPID)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", container.ErrNotRunning, err)
		}
		return tree.OfRunning(monitor)
	case info.State != container.StateStopped:
		return nil, fmt.Errorf("%w: it is %s", container.ErrBusy, info.State)
	}
	return tree.Open()
}
