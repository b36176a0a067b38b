//go:build linux && cgo

package helper

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	golxc "github.com/lxc/go-lxc"
	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/runner/rundir"
)

// naming is what is done to the names of a container.
type naming struct{ *host }

// rename gives one of our stopped containers another name. liblxc would copy all
// of it and destroy what was there; here its directory is renamed.
func (h naming) rename(name, to string, id container.CTID) error {
	if err := container.CheckName(to); err != nil {
		return err
	}
	return h.byID(id, func(at string, r record) error {
		switch {
		case at == to:
			return h.settle(to)
		case at != name:
			return h.notThere(name)
		}
		return h.renameTo(name, to, r)
	})
}

// byID does something to the container of an id, under its lock.
func (h naming) byID(id container.CTID, do func(at string, r record) error) error {
	if err := container.CheckCTID(string(id)); err != nil {
		return err
	}
	l, err := lock(h.locks, string(id), h.patience)
	if err != nil {
		return err
	}
	defer l.release()
	at, err := h.ours(id)
	switch {
	case err != nil:
		return err
	case at == "":
		return do(at, record{})
	}
	r, err := readRecord(h.dir(at))
	switch {
	case err != nil:
		return err
	case r.State != recordReady:
		return fmt.Errorf("%w: %s was interrupted while %s", container.ErrNotFound, at, r.State)
	}
	return do(at, r)
}

// rehost has one of our stopped containers call itself hostname, or by its name if that
// is empty: first its record says so, and the configuration follows.
func (h naming) rehost(name, hostname string, id container.CTID) error {
	if hostname != "" {
		if err := container.CheckName(hostname); err != nil {
			return fmt.Errorf("host name: %w", err)
		}
	}
	return h.byID(id, func(at string, r record) error {
		if at != name {
			return h.notThere(name)
		}
		if err := h.stopped(name); err != nil {
			return err
		}
		r.Hostname, r.Renaming = hostname, true
		if err := writeRecord(h.dir(name), r); err != nil {
			return err
		}
		return h.settle(name)
	})
}

// renameTo renames a container whose lock is held.
func (h naming) renameTo(name, to string, r record) error {
	if err := h.stopped(name); err != nil {
		return err
	}
	r.Renaming = true
	if err := writeRecord(h.dir(name), r); err != nil {
		return err
	}
	failpoint.Before(failpoint.ContainerRenamed)
	err := sharing(h).move(h.dir(name), h.dir(to), unix.RENAME_NOREPLACE)
	if errors.Is(err, fs.ErrExist) {
		r.Renaming = false
		return errors.Join(fmt.Errorf("%w: the name %s is taken", container.ErrExists, to), writeRecord(h.dir(name), r))
	}
	if err != nil {
		return fmt.Errorf("renaming %s: %w", h.dir(name), err)
	}
	if err := rundir.SyncDir(h.path); err != nil {
		return err
	}
	failpoint.After(failpoint.ContainerRenamed)
	return h.settle(to)
}

// notThere tells an unused name from one of another container.
func (h naming) notThere(name string) error {
	r, err := h.look(name)
	if err == nil && r.CTID == "" {
		return fmt.Errorf("%w: %s was not made by Hostler and must be adopted first", container.ErrUnsupported, name)
	}
	return fmt.Errorf("%w: no such container is called %s", container.ErrNotFound, name)
}

// settle has the configuration of a container follow the name of its directory.
// The caller holds its lock.
func (h *host) settle(name string) error {
	dir := h.dir(name)
	r, err := readRecord(dir)
	if err != nil || !r.Renaming {
		return err
	}
	if err := h.reconfigure(name, r); err != nil {
		return err
	}
	r.Renaming = false
	failpoint.Before(failpoint.ContainerSettled)
	err = writeRecord(dir, r)
	failpoint.After(failpoint.ContainerSettled)
	return err
}

// reconfigure writes the name of a container and that of its host into its
// configuration, and the latter into its own file of it if that said the one before.
func (h *host) reconfigure(name string, r record) (err error) {
	called := cmp.Or(r.Hostname, name)
	c, err := h.open(name)
	if err != nil {
		return err
	}
	defer c.Release()
	before := strings.Join(c.ConfigItem("lxc.uts.name"), "")
	rootfs := filepath.Join(h.dir(name), "rootfs")
	settings := []setting{{"lxc.rootfs.path", "dir:" + rootfs}, {"lxc.uts.name", called}}
	for _, s := range settings { // or the file keeps the lines of all names before
		if err := c.ClearConfigItem(s.key); err != nil {
			return fmt.Errorf("clearing %s: %w", s.key, err)
		}
	}
	if err := apply(c, settings); err != nil {
		return err
	}
	if err := h.replaceConfig(c, name); err != nil {
		return err
	}
	end, err := sharing{h}.merge(h.dir(name), r)
	if err != nil {
		return err
	}
	return errors.Join(signpost(rootfs, before, called), end())
}

// replaceConfig writes the configuration of a container in place of the one that it has.
func (h *host) replaceConfig(c *golxc.Container, name string) error {
	config := filepath.Join(h.dir(name), "config")
	if err := c.SaveConfigFile(config + ".new"); err != nil {
		return fmt.Errorf("saving the configuration: %w", err)
	}
	if err := syncFile(config + ".new"); err != nil {
		return err
	}
	if err := os.Rename(config+".new", config); err != nil {
		return err
	}
	return rundir.SyncDir(h.dir(name))
}

func syncFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// maxHostname bounds the file with the name of a container, in bytes.
const maxHostname = 256

// signpost replaces the name of the host in a container that goes by its old one. The
// file is the container's own: what is no short file that says the old name, or cannot
// be opened, is left as it is.
func signpost(rootfs, before, name string) error {
	f, err := rundir.OpenRegular(rootfs, "etc/hostname", unix.O_RDWR)
	if err != nil {
		return nil
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxHostname+1))
	if err != nil || len(raw) > maxHostname || before == "" || strings.TrimSpace(string(raw)) != before {
		return nil // it is none of ours
	}
	if _, err := f.WriteAt([]byte(name+"\n"), 0); err != nil {
		return err
	}
	return f.Truncate(int64(len(name) + 1))
}
