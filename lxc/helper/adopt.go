//go:build linux && cgo

package helper

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	golxc "github.com/lxc/go-lxc"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/runner/rundir"
)

// adopting makes containers ours that others have made.
type adopting struct{ *host }

// autostart is the setting by which LXC's own service starts a container with the host.
const autostart = "lxc.start.auto"

// adopt writes the record of a foreign container, by which it is ours, and then keeps
// LXC's service from starting it.
func (h adopting) adopt(name string, id container.CTID) error {
	if err := errors.Join(container.CheckName(name), container.CheckCTID(string(id))); err != nil {
		return err
	}
	t, err := h.acquire(name)
	if err != nil {
		return err
	}
	defer t.lock.release()
	switch {
	case t.record.CTID == id && t.record.Adopted:
		return h.startsItself(name, false)
	case !t.foreign():
		return fmt.Errorf("%w: %s is one of Hostler's", container.ErrExists, name)
	}
	l, err := lock(h.locks, string(id), h.patience)
	if err != nil {
		return err
	}
	defer l.release()
	if at, err := h.ours(id); err != nil || at != "" {
		return cmp.Or(err, fmt.Errorf("%w: %s is the id of %s", container.ErrExists, id, at))
	}
	r := record{CTID: id, Template: container.Adopted, State: recordReady, Adopted: true}
	if r.IDs, r.Autostart, err = h.adoptable(name); err != nil {
		return err
	}
	failpoint.Before(failpoint.ContainerAdopted)
	if err := writeRecord(h.dir(name), r); err != nil {
		return err
	}
	failpoint.After(failpoint.ContainerAdopted)
	if err := h.startsItself(name, false); err != nil {
		return err
	}
	t.lock.remove() // from now on it goes by its id
	return nil
}

// adoptable returns the ids of the host that a foreign container has, and whether LXC's
// service starts it. What other operations could not work on is refused.
func (h adopting) adoptable(name string) (ids container.IDRange, auto bool, err error) {
	c, err := h.open(name)
	if err != nil {
		return ids, false, err
	}
	defer c.Release()
	refuse := func(format string, args ...any) (container.IDRange, bool, error) {
		return ids, false, fmt.Errorf("%w: %s", container.ErrUnsupported, fmt.Sprintf(format, args...))
	}
	has := item(c, "lxc.rootfs.path")
	want := filepath.Join(h.dir(name), "rootfs")
	if filepath.Clean(strings.TrimPrefix(has, "dir:")) != want {
		return refuse("its root directory is %q, and Hostler keeps containers whose root directory is %s: move it there, and set lxc.rootfs.path", has, want)
	}
	if info, err := os.Lstat(want); err != nil || !info.IsDir() {
		return refuse("%s is no directory", want)
	}
	maps := make(map[string]container.IDRange)
	lines := 0
	for _, line := range c.ConfigItem("lxc.idmap") {
		if line == "" {
			continue
		}
		var kind string
		var inside uint32
		var ids container.IDRange
		if n, _ := fmt.Sscan(line, &kind, &inside, &ids.First, &ids.Count); n != 4 || inside != 0 || ids.First == 0 {
			return refuse("it maps ids by %q, and Hostler keeps containers with one range of them, from 0 on", line)
		}
		maps[kind] = ids
		lines++
	}
	if lines > 0 && (lines != 2 || maps["u"] != maps["g"] || maps["u"].Count == 0) {
		return refuse("it maps ids by %d lines, and Hostler keeps containers with the same range for users and for groups", lines)
	}
	return maps["u"], item(c, autostart) == "1", nil
}

// item is a setting of one line.
func item(c *golxc.Container, key string) string { return strings.Join(c.ConfigItem(key), "") }

// startsItself has LXC's service start a container with the host, or not.
func (h adopting) startsItself(name string, auto bool) error {
	c, err := h.open(name)
	if err != nil {
		return err
	}
	defer c.Release()
	if (item(c, autostart) == "1") == auto {
		return nil
	}
	value := "0"
	if auto {
		value = "1"
	}
	if err := c.ClearConfigItem(autostart); err != nil {
		return fmt.Errorf("clearing %s: %w", autostart, err)
	}
	if err := apply(c, []setting{{autostart, value}}); err != nil {
		return err
	}
	return h.replaceConfig(c, name)
}

// disown takes back what adopt has done.
func (h adopting) disown(name string, id container.CTID) error {
	t, err := h.acquire(name)
	if err != nil {
		if errors.Is(err, container.ErrNotFound) {
			return nil
		}
		return err
	}
	defer t.lock.release()
	if t.record.CTID != id || !t.record.Adopted {
		return nil
	}
	if err := h.startsItself(name, t.record.Autostart); err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(h.dir(name), recordFile)); err != nil {
		return err
	}
	return rundir.SyncDir(h.dir(name))
}
