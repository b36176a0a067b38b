// Package limiter limits what containers of this machine use: by control groups, by the
// cables of their networks, and by the quotas of the file system that their files are on.
package limiter

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/internal/cgroup"
	"github.com/hostler-io/hostler/internal/tree"
	"github.com/hostler-io/hostler/network"
	"github.com/hostler-io/hostler/protocol/limit"
)

// Limiter limits containers of any runtime. It is safe for concurrent use.
type Limiter struct {
	supported []limit.Resource
	lxcPath   string
}

// New finds out what can be limited here, where the containers of LXC lie in a
// directory. missing says what cannot, and why.
func New(lxcPath string) (l Limiter, missing []string) {
	l.supported, l.lxcPath = cgroup.Supported(), lxcPath
	missing = lacking(l.supported)
	if err := network.CanShape(); err != nil {
		missing = append(missing, "limit.net: "+err.Error())
	} else {
		l.supported = append(l.supported, limit.Net)
	}
	if tree.Subvolumes(lxcPath) {
		l.supported = append(l.supported, limit.Disk)
	}
	slices.Sort(l.supported)
	return l, missing
}

// lacking tells, of a host whose control groups limit some resources, which ones they do not.
// Few hosts have a file system that limits disk, so that is nothing that one lacks.
func lacking(supported []limit.Resource) (missing []string) {
	for _, r := range []limit.Resource{limit.CPU, limit.CPUSet, limit.IO, limit.Memory, limit.PIDs} {
		if !slices.Contains(supported, r) {
			missing = append(missing, "limit."+string(r)+": the kernel has no controller of control groups for it; see cgroup_enable and cgroup_disable on its command line, /proc/cmdline")
		}
	}
	return missing
}

// Supported are the resources that can be limited, sorted.
func (l Limiter) Supported() []limit.Resource { return l.supported }

// Files are how the control groups of a container that is about to be started are to be
// written. What they do not keep is left out.
func (Limiter) Files(limits limit.Limits) ([]container.GroupFile, error) { return cgroup.Files(limits) }

// Limit limits a container, by its runtime, its name and its first process, from now on. Unless
// force, a limit below what it uses now is an error, and then nothing is changed.
func (l Limiter) Limit(runtime, name string, init int, limits limit.Limits, force bool) error {
	disk, err := newDiskLimit(l.rootOf(runtime, name), limits, force)
	if err != nil {
		return err
	}
	groups := limits.Without(limit.Net, limit.Disk)
	if len(groups) > 0 {
		g, err := cgroup.Of(init)
		if err == nil {
			err = g.Limit(groups, force)
		}
		if err != nil {
			return err
		}
	}
	if err := disk.apply(); err != nil {
		return err
	}
	value, wanted := limits[limit.Net]
	if !wanted {
		return nil
	}
	rate := int64(0)
	if value != limit.None {
		var err error
		if rate, err = limit.Number(limit.Net, value); err != nil {
			return err
		}
	}
	err = network.Shape(init, rate)
	if errors.Is(err, network.ErrNoCable) {
		return fmt.Errorf("%w: the container has no interface on a bridge of this host, so its network cannot be limited", container.ErrUnsupported)
	}
	return err
}

// Effective are the limits that the kernel keeps for a container.
func (l Limiter) Effective(runtime, name string, init int) (limit.Limits, error) {
	g, err := cgroup.Of(init)
	if err != nil {
		return nil, err
	}
	all, err := g.Effective()
	if err != nil {
		return nil, err
	}
	if rate, err := network.Shaped(init); err == nil && rate > 0 {
		all[limit.Net] = limit.Rate(rate)
	}
	if root := l.rootOf(runtime, name); root != "" {
		if most, err := tree.Most(root); err == nil && most > 0 {
			all[limit.Disk] = limit.Bytes(most)
		}
	}
	return all, nil
}

// Disk is how many bytes the files of a container have, and how many they may have; most is 0
// if that is not limited. It waits for no disk: what was written last may not be counted yet.
func (l Limiter) Disk(runtime, name string) (used, most int64) {
	root := l.rootOf(runtime, name)
	if root == "" || !slices.Contains(l.supported, limit.Disk) {
		return 0, 0
	}
	used, most, err := tree.Counted(root)
	if err != nil {
		return 0, 0 // it has none, or it has just gone
	}
	return used, most
}

// rootOf is the root directory of a container as its host has made it; empty if it has none
// that can be limited. /proc/PID/root is another directory if the root of the container wants
// that: its first process may have entered a subvolume of the host that is mounted in it.
func (l Limiter) rootOf(runtime, name string) string {
	if runtime != string(container.KindLXC) || container.CheckReference(name) != nil {
		return ""
	}
	return filepath.Join(l.lxcPath, name, "rootfs")
}

// diskLimit is what the files of a container may have at most.
type diskLimit struct {
	root   string // "" if that stays as it is
	most   int64  // in bytes, 0 is no limit
	wanted string
}

// newDiskLimit reads the limit and holds it against what the container has.
func newDiskLimit(root string, limits limit.Limits, force bool) (d diskLimit, err error) {
	value, ok := limits[limit.Disk]
	if !ok {
		return diskLimit{}, nil
	}
	d = diskLimit{root: root, wanted: value}
	if value != limit.None {
		if d.most, err = limit.Number(limit.Disk, value); err != nil {
			return d, err
		}
	}
	if root == "" {
		err = tree.ErrNoSubvolume
	} else if d.most > 0 {
		err = tree.Count(d.root)
	}
	used := int64(0)
	if err == nil {
		used, _, err = tree.Used(d.root)
	}
	switch {
	case errors.Is(err, tree.ErrNoSubvolume) && d.most == 0:
		return diskLimit{}, nil // it has none
	case errors.Is(err, tree.ErrNoSubvolume):
		return d, fmt.Errorf("%w: disk of this container cannot be limited, since its files are no subvolume of btrfs; only a container of LXC that is made on btrfs has one", container.ErrUnsupported)
	case err == nil && d.most > 0 && used > d.most && !force:
		return d, fmt.Errorf("%w: it uses %d, and disk=%s is less; --force sets it all the same", cgroup.ErrBelowUse, used, value)
	}
	return d, err
}

func (d diskLimit) apply() error {
	if d.root == "" {
		return nil
	}
	if err := tree.Limit(d.root, d.most); err != nil {
		return fmt.Errorf("limit disk=%s: %w", d.wanted, err)
	}
	return nil
}
