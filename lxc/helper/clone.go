//go:build linux && cgo

package helper

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	golxc "github.com/lxc/go-lxc"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/image/rootfs"
	"github.com/hostler-io/hostler/internal/tree"
)

// cloneReserve is how many bytes of the file system no clone takes.
const cloneReserve = 256 << 20

// cloning is what makes a copy of a container.
type cloning struct{ *host }

// clone makes a container of the files and the configuration of another one of ours, in
// the steps of a creation. Both are locked meanwhile.
func (h cloning) clone(from string, spec container.CreateSpec) error {
	t, err := h.acquireReady(from)
	if err != nil {
		return err
	}
	defer t.lock.release()
	if t.foreign() {
		return fmt.Errorf("%w: %s was not made by Hostler and must be adopted first", container.ErrUnsupported, from)
	}
	spec.Template, spec.Privileged = t.record.Template, t.record.IDs.Count == 0
	if err := spec.Check(); err != nil {
		return err
	}
	rec := record{CTID: spec.CTID, Template: t.record.Template, Digest: t.record.Digest, Argv: t.record.Argv, Hostname: spec.Hostname, Mounts: spec.Mounts, State: recordCreating, Tree: t.record.Tree}
	return h.produce(spec, &rec, func() error { return h.duplicate(t, spec, rec) })
}

// duplicate copies the files of a container, and its configuration but for what is its
// own.
func (h cloning) duplicate(from *target, spec container.CreateSpec, rec record) (err error) {
	ids := rec.IDs
	source, err := h.open(from.name)
	if err != nil {
		return err
	}
	defer source.Release()
	ctx, cancel := context.WithTimeout(context.Background(), h.left())
	defer cancel()
	to := filepath.Join(h.dir(spec.Name), "rootfs")
	shift := tree.Shift{From: from.record.IDs.First, To: ids.First, Count: ids.Count}
	own := from.record.own()
	if _, err := tree.Copy(ctx, filepath.Join(h.dir(from.name), own), filepath.Join(h.dir(spec.Name), own), cloneReserve, shift); err != nil {
		return fmt.Errorf("copying the files of %s: %w", from.name, err)
	}
	if rec.Tree != "" {
		if err := sharing(h).tree(h.dir(spec.Name), rec).MakePlaces(); err != nil {
			return err
		}
	}
	end, err := sharing(h).merge(h.dir(spec.Name), rec)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	if err := errors.Join(rootfs.Renew(to), signpost(to, strings.Join(source.ConfigItem("lxc.uts.name"), ""), spec.Called())); err != nil {
		return err
	}
	c, err := h.open(spec.Name)
	if err != nil {
		return err
	}
	defer c.Release()
	if err := inherit(c, source.ConfigFileName(), from.record.Mounts); err != nil {
		return err
	}
	settings := append(networkSettings(spec.Network), setting{"lxc.rootfs.path", "dir:" + to}, setting{"lxc.uts.name", spec.Called()})
	if err := apply(c, slices.Concat(settings, unprivileged(c, ids), mounting(spec.Mounts))); err != nil {
		return err
	}
	if err := c.SaveConfigFile(c.ConfigFileName()); err != nil {
		return fmt.Errorf("saving the configuration: %w", err)
	}
	if ids.Count == 0 {
		return nil
	}
	return errors.Join(os.Chown(h.dir(spec.Name), 0, int(ids.First)), os.Chmod(h.dir(spec.Name), 0o710))
}

// inherit takes over a configuration, but for what each container has of its own, and for
// what is mounted by us.
func inherit(c *golxc.Container, config string, mounts []container.Mount) error {
	if err := c.LoadConfigFile(config); err != nil {
		return fmt.Errorf("loading %s: %w", config, err)
	}
	for _, key := range []string{"lxc.net", "lxc.rootfs.path", "lxc.uts.name", "lxc.idmap"} {
		if err := c.ClearConfigItem(key); err != nil {
			return fmt.Errorf("clearing %s: %w", key, err)
		}
	}
	var kept []setting
	for _, entry := range c.ConfigItem(mountEntry) {
		if entry != "" && !slices.ContainsFunc(mounts, func(m container.Mount) bool { return entryOf(m) == entry }) {
			kept = append(kept, setting{mountEntry, entry})
		}
	}
	if err := c.ClearConfigItem(mountEntry); err != nil {
		return fmt.Errorf("clearing %s: %w", mountEntry, err)
	}
	return apply(c, kept)
}
