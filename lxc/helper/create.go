//go:build linux && cgo

package helper

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	golxc "github.com/lxc/go-lxc"
	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/internal/tree"
	"github.com/hostler-io/hostler/runner/rundir"
)

// templateDir is where liblxc's packages install templates.
const templateDir = "/usr/share/lxc/templates"

// create makes a container; see the package comment for the order of its steps.
func (h *host) create(spec container.CreateSpec, img *container.Image) error {
	if err := spec.Check(); err != nil {
		return err
	}
	rec := record{CTID: spec.CTID, Template: spec.Template, Hostname: spec.Hostname, Mounts: spec.Mounts, State: recordCreating}
	for _, m := range spec.Mounts {
		if _, err := os.Stat(m.Source); err != nil {
			return fmt.Errorf("what is to be mounted at %s: %w", m.Path, err)
		}
	}
	make := func() error { return h.unpack(spec, img, &rec) }
	if img == nil {
		template := filepath.Join(templateDir, "lxc-"+spec.Template)
		if !container.IsWord(spec.Template) || unix.Access(template, unix.X_OK) != nil {
			return fmt.Errorf("%w: template %s is not installed on this host; install it, or name an image such as registry.example/debian:12", container.ErrUnsupported, template)
		}
		if len(spec.Command) > 0 {
			return fmt.Errorf("%w: a container of the template %s runs its own init; leave the command out, or name an image", container.ErrUnsupported, spec.Template)
		}
		make = func() error { return h.build(spec, rec.IDs, template) }
	}
	if img != nil {
		rec.Tree = sharing{h}.sharable(spec, img)
	}
	return h.produce(spec, &rec, make)
}

// produce makes a container by make, which is given its ids in the record, and may add
// to that.
func (h *host) produce(spec container.CreateSpec, rec *record, make func() error) error {
	if err := h.sweepDebris(); err != nil {
		return err
	}
	l, err := lock(h.locks, string(spec.CTID), h.patience)
	if err != nil {
		return err
	}
	defer l.release()
	if err := os.MkdirAll(h.path, 0o711); err != nil {
		return err
	}
	if done, err := h.clearWay(spec); done || err != nil {
		return err
	}
	if rec.IDs, err = h.claim(spec, *rec); err != nil {
		return err
	}
	if err := make(); err != nil {
		return errors.Join(err, h.erase(spec.Name), sharing{h}.sweepTrees())
	}
	if spec.Unique {
		if err := (starts{h}).refuse(spec.Name); err != nil {
			return errors.Join(err, h.erase(spec.Name))
		}
	}
	if err := syncFilesystem(h.path); err != nil {
		return err
	}
	rec.State = recordReady
	failpoint.Before(failpoint.ContainerReady)
	err = writeRecord(h.dir(spec.Name), *rec)
	failpoint.After(failpoint.ContainerReady)
	return err
}

// clearWay removes what an interrupted creation or destruction of the same
// container left. done means that the container is there.
func (h *host) clearWay(spec container.CreateSpec) (done bool, err error) {
	if err := removeTree(h.staging(spec.CTID)); err != nil {
		return false, err
	}
	name, err := h.ours(spec.CTID)
	if err != nil || name == "" {
		return false, err
	}
	r, err := readRecord(h.dir(name))
	if err != nil {
		return false, err
	}
	if r.State != recordReady {
		return false, h.erase(name)
	}
	if name != spec.Name {
		return false, fmt.Errorf("%w: %s is called %s", container.ErrExists, spec.CTID, name)
	}
	return true, nil
}

// staging is where the directory of a container is prepared. No container can
// be called so.
func (h *host) staging(id container.CTID) string {
	return filepath.Join(h.path, stagingPrefix+string(id))
}

// claim makes the directory of the container, record included, appear at once, and
// returns the ids of the container, none of a privileged one.
func (h *host) claim(spec container.CreateSpec, rec record) (ids container.IDRange, err error) {
	if !spec.Privileged {
		if err := passable(h.path); err != nil {
			return ids, err
		}
		l, err := lock(h.locks, idLock, h.patience)
		if err != nil {
			return ids, err
		}
		defer l.release()
		if ids, err = h.freeIDs(); err != nil {
			return ids, err
		}
	}
	staging := h.staging(spec.CTID)
	if err := os.Mkdir(staging, 0o770); err != nil {
		return ids, err
	}
	rec.IDs = ids
	if err := writeRecord(staging, rec); err != nil {
		return ids, err
	}
	failpoint.Before(failpoint.ContainerClaimed)
	err = unix.Renameat2(unix.AT_FDCWD, staging, unix.AT_FDCWD, h.dir(spec.Name), unix.RENAME_NOREPLACE)
	if errors.Is(err, fs.ErrExist) {
		return ids, errors.Join(fmt.Errorf("%w: the name %s is taken", container.ErrExists, spec.Name), os.RemoveAll(staging))
	}
	if err != nil {
		return ids, fmt.Errorf("claiming %s: %w", h.dir(spec.Name), err)
	}
	if err := rundir.SyncDir(h.path); err != nil {
		return ids, err
	}
	failpoint.After(failpoint.ContainerClaimed)
	return ids, nil
}

// build runs the template and writes the configuration.
func (h *host) build(spec container.CreateSpec, ids container.IDRange, template string) error {
	c, err := h.open(spec.Name)
	if err != nil {
		return err
	}
	defer c.Release()
	if err := configure(c, spec); err != nil {
		return err
	}
	if root := filepath.Join(h.dir(spec.Name), "rootfs"); tree.Subvolumes(h.path) {
		if err := tree.Make(root, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	c.SetVerbosity(golxc.Verbose) // the template's words end in our standard error
	if err := c.Create(golxc.TemplateOptions{Template: template, Backend: golxc.Directory}); err != nil {
		return fmt.Errorf("template %s: %w", spec.Template, err)
	}
	if err := h.amend(spec, ids, variables(spec.Env)...); err != nil {
		return err
	}
	if spec.Template == "busybox" && !spec.Network.IsZero() {
		if err := keepAddress(filepath.Join(h.dir(spec.Name), "rootfs")); err != nil {
			return err
		}
	}
	return shift(h.dir(spec.Name), ids)
}

// setting is one line of a container's configuration.
type setting struct{ key, value string }

// configure sets, before the template runs, what we know better than the
// installation's defaults, which stay in force for everything else (such as the
// security profile).
func configure(c *golxc.Container, spec container.CreateSpec) error {
	defaults := golxc.GlobalConfigItem("lxc.default_config")
	if _, err := os.Stat(defaults); err == nil {
		if err := c.LoadConfigFile(defaults); err != nil {
			return fmt.Errorf("loading %s: %w", defaults, err)
		}
		if err := c.ClearConfigItem("lxc.net"); err != nil {
			return fmt.Errorf("clearing lxc.net: %w", err)
		}
	}
	return apply(c, append(networkSettings(spec.Network), setting{"lxc.uts.name", spec.Called()}))
}

func apply(c *golxc.Container, settings []setting) error {
	for _, s := range settings {
		if err := c.SetConfigItem(s.key, s.value); err != nil {
			return fmt.Errorf("setting %s = %s: %w", s.key, s.value, err)
		}
	}
	return nil
}

// variables are those of the first process of a container.
func variables(env []string) (settings []setting) {
	for _, e := range env {
		settings = append(settings, setting{"lxc.environment", e})
	}
	return settings
}

func networkSettings(n container.Network) []setting {
	if n.IsZero() {
		return []setting{{"lxc.net.0.type", "empty"}}
	}
	out := []setting{
		{"lxc.net.0.type", "veth"},
		{"lxc.net.0.link", n.Bridge},
		{"lxc.net.0.flags", "up"},
		{"lxc.net.0.name", "eth0"},
		{"lxc.net.0.hwaddr", n.MAC},
	}
	for _, a := range []struct {
		address netip.Prefix
		gateway netip.Addr
	}{{n.Address, n.Gateway}, {n.Address6, n.Gateway6}} {
		if !a.address.IsValid() {
			continue
		}
		family := "lxc.net.0.ipv4."
		if a.address.Addr().Is6() {
			family = "lxc.net.0.ipv6."
		}
		out = append(out, setting{family + "address", a.address.String()})
		if a.gateway.IsValid() {
			out = append(out, setting{family + "gateway", a.gateway.String()})
		}
	}
	return out
}

// amend corrects what a template has written to the configuration.
func (h *host) amend(spec container.CreateSpec, ids container.IDRange, more ...setting) error {
	c, err := h.open(spec.Name) // afresh: the template wrote to the file
	if err != nil {
		return err
	}
	defer c.Release()
	for _, key := range []string{"lxc.uts.name", autostart} { // a template writes its own
		if err := c.ClearConfigItem(key); err != nil {
			return fmt.Errorf("clearing %s: %w", key, err)
		}
	}
	settings := slices.Concat(confinement(c), terminals(c), profiles(c), unprivileged(c, ids), mounting(spec.Mounts), more, []setting{{"lxc.uts.name", spec.Called()}, {autostart, "0"}}) // the agent starts it, and nothing else
	if err := apply(c, settings); err != nil {
		return err
	}
	if err := c.SaveConfigFile(c.ConfigFileName()); err != nil {
		return fmt.Errorf("saving the configuration: %w", err)
	}
	return nil
}

// confinement gives a container whose template says nothing about devices the
// rules that liblxc's common configuration has, in both cgroup families: without
// them its root could make a node for the host's disk and read it.
func confinement(c *golxc.Container) (settings []setting) {
	if rules := c.ConfigItem("lxc.cgroup.devices.deny"); len(rules) > 0 && rules[0] != "" {
		return nil
	}
	// mknod of anything; read and write of null, zero, full, tty, console,
	// ptmx, random, urandom and pseudo terminals.
	allowed := []string{"c *:* m", "b *:* m", "c 1:3 rwm", "c 1:5 rwm", "c 1:7 rwm", "c 5:0 rwm", "c 5:1 rwm", "c 5:2 rwm", "c 1:8 rwm", "c 1:9 rwm", "c 136:* rwm"}
	for _, family := range []string{"lxc.cgroup.devices.", "lxc.cgroup2.devices."} {
		settings = append(settings, setting{family + "deny", "a"})
		for _, rule := range allowed {
			settings = append(settings, setting{family + "allow", rule})
		}
	}
	return settings
}

// Pseudo terminals of a container: one for each session and each program that
// makes its own. The busybox template gives it a single one.
const (
	leastTerminals = 64
	maxTerminals   = "1024" // as liblxc's common configuration has it
)

// terminals gives a container whose template leaves it too few more of them.
func terminals(c *golxc.Container) []setting {
	if max := c.ConfigItem("lxc.pty.max"); len(max) > 0 {
		if n, err := strconv.Atoi(max[0]); err == nil && n >= leastTerminals {
			return nil
		}
	}
	return []setting{{"lxc.pty.max", maxTerminals}}
}

// keepAddress takes the DHCP client out of the busybox template's start script:
// it would flush the address that the container was given.
func keepAddress(rootfs string) error {
	root, err := os.OpenRoot(rootfs)
	if err != nil {
		return err
	}
	defer root.Close()
	const script = "etc/init.d/rcS"
	raw, err := root.ReadFile(script)
	if err != nil {
		return err
	}
	var kept []string
	for line := range strings.Lines(string(raw)) {
		if !strings.Contains(line, "udhcpc") {
			kept = append(kept, line)
		}
	}
	return root.WriteFile(script, []byte(strings.Join(kept, "")), 0o744)
}

// syncFilesystem makes what the template wrote durable, all of it at once.
func syncFilesystem(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := unix.Syncfs(int(d.Fd())); err != nil {
		return fmt.Errorf("syncing %s: %w", path, err)
	}
	return nil
}

// destroy removes a stopped container, or what is left of a half-made one.
func (h *host) destroy(name string) error {
	if err := h.sweepDebris(); err != nil {
		return err
	}
	t, err := h.acquire(name)
	if err != nil {
		return err
	}
	defer t.lock.release()
	if t.foreign() {
		return fmt.Errorf("%w: %s was not made by Hostler and must be adopted first", container.ErrUnsupported, name)
	}
	if t.record.State == recordReady {
		if err := h.stopped(name); err != nil {
			return err
		}
	}
	// What an upgrade has left that did not end.
	if err := removeTree((upgrading{h}).beside(t.record.CTID).path); err != nil {
		return err
	}
	if err := h.erase(name); err != nil {
		return err
	}
	if err := (sharing{h}).sweepTrees(); err != nil {
		return err
	}
	failpoint.Before(failpoint.ContainerLockFreed)
	t.lock.remove()
	failpoint.After(failpoint.ContainerLockFreed)
	return nil
}

// stopped refuses a container that is not.
func (h *host) stopped(name string) error {
	c, err := h.open(name)
	if err != nil {
		return err
	}
	defer c.Release()
	if state := stateOf(c.State()); state != container.StateStopped {
		return fmt.Errorf("%w: it is %s; stop it first", container.ErrBusy, state)
	}
	return nil
}

// erase removes one of our containers, however far it was made. The caller
// holds its lock.
func (h *host) erase(name string) error {
	r, err := readRecord(h.dir(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // liblxc clears up after a template that failed
	}
	if err != nil {
		return err
	}
	if mounts, err := mountsBelow(h.dir(name)); err == nil && len(mounts) > 0 {
		return fmt.Errorf("%w: type umount %s, and ask again", errMounted, mounts[0])
	}
	r.State = recordDestroying
	failpoint.Before(failpoint.ContainerDoomed)
	if err := writeRecord(h.dir(name), r); err != nil {
		return err
	}
	failpoint.After(failpoint.ContainerDoomed)
	if err := h.dismantle(name); err != nil {
		return err
	}
	// The record must go last: a directory without it would be foreign. So it
	// leaves its name first.
	staging := h.staging(r.CTID)
	failpoint.Before(failpoint.ContainerUnnamed)
	if err := os.Rename(h.dir(name), staging); err != nil {
		return err
	}
	if err := rundir.SyncDir(h.path); err != nil {
		return err
	}
	failpoint.After(failpoint.ContainerUnnamed)
	return removeTree(staging)
}

// dismantle ends what runs of a half-made or doomed container. Its storage is a
// plain directory, which erase removes.
func (h *host) dismantle(name string) error {
	c, err := h.open(name)
	if err != nil {
		return err
	}
	defer c.Release()
	if !c.Defined() {
		return nil
	}
	if err := h.halt(c, 0); err != nil {
		return err
	}
	sweep(name, time.Now())
	return nil
}
