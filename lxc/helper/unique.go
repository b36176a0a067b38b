//go:build linux && cgo

package helper

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	golxc "github.com/lxc/go-lxc"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/internal/clock"
	"github.com/hostler-io/hostler/internal/permit"
)

// Files of a unique container, in its directory.
const (
	permitFile = "start.permit" // is there while a start is allowed
	epochFile  = "epoch"        // what the container has as [container.EpochFile]
)

// epochGroup begins the group of LXC that names the epoch of a container that runs: groups are
// the labels that LXC has.
const epochGroup = "hostler.epoch="

// MayStart is the operation that a unique container runs before each start, and startHook
// the setting by which it does.
const (
	MayStart  = "may-start"
	startHook = "lxc.hook.pre-start"
)

// CheckStart returns why the container that liblxc is about to start must not be started
// now. config is the path of its configuration, as liblxc tells it to what it runs.
func CheckStart(config string) error {
	if !filepath.IsAbs(config) {
		return fmt.Errorf("%w: liblxc tells no configuration", permit.ErrRefused)
	}
	_, err := permit.Epoch(filepath.Join(filepath.Dir(config), permitFile))
	return err
}

// starts are those of unique containers.
type starts struct{ *host }

// hook is what the configuration of a unique container says. A shell reads it, and liblxc
// takes away quotes that enclose all of it.
func (h starts) hook() string {
	return "'" + strings.ReplaceAll(h.program, "'", `'\''`) + "' " + MayStart
}

// refuse has every start of a stopped container refused that is not permitted. It may be
// done again, and is: the program may have another place since.
func (h starts) refuse(name string) error {
	if !filepath.IsAbs(h.program) {
		return fmt.Errorf("%w: the helper does not know its path %q", container.ErrUnsupported, h.program)
	}
	c, err := h.open(name)
	if err != nil {
		return err
	}
	defer c.Release()
	was := slices.DeleteFunc(c.ConfigItem(startHook), func(s string) bool { return s == "" })
	others := slices.DeleteFunc(slices.Clone(was), func(s string) bool { return strings.HasSuffix(s, "' "+MayStart) })
	missing := []string{h.hook()}
	switch {
	case slices.Contains(was, h.hook()):
		return nil
	case len(others) < len(was): // the one that is there has the program elsewhere
		if err := c.ClearConfigItem(startHook); err != nil {
			return fmt.Errorf("clearing %s: %w", startHook, err)
		}
		missing = append(others, missing...)
	}
	for _, s := range missing {
		if err := c.SetConfigItem(startHook, s); err != nil {
			return fmt.Errorf("setting %s = %s: %w", startHook, s, err)
		}
	}
	return h.save(c)
}

// save replaces the configuration of a container: a crash leaves the old one or the new one.
func (h starts) save(c *golxc.Container) error {
	path := c.ConfigFileName()
	if err := c.SaveConfigFile(path + ".new"); err != nil {
		return fmt.Errorf("saving the configuration: %w", err)
	}
	if err := syncFilesystem(filepath.Dir(path)); err != nil {
		return err
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("saving the configuration: %w", err)
	}
	return nil
}

// admit permits one start of a container under the epoch of its terms, and returns the
// settings by which the container learns that. The function ends the permit.
func (h starts) admit(name string, rec record, terms container.Terms) (settings []setting, end func() error, err error) {
	end = func() error { return nil }
	if terms.Epoch == "" {
		return nil, end, nil
	}
	if err := h.refuse(name); err != nil {
		return nil, end, err
	}
	m := container.Mount{Source: filepath.Join(h.dir(name), epochFile), Path: container.EpochFile, ReadOnly: true}
	if err := permit.Place(m.Source, terms.Epoch+"\n", 0o644); err != nil {
		return nil, end, err
	}
	rec.Mounts = append(slices.Clone(rec.Mounts), m)
	if err := mountpoints(h.host, name, rec); err != nil {
		return nil, end, err
	}
	path := filepath.Join(h.dir(name), permitFile)
	end = func() error { return permit.Remove(path) }
	until := min(terms.UntilMS, clock.BootMS()+int64(h.left()/time.Millisecond))
	if err := permit.Give(path, terms.Epoch, until); err != nil {
		return nil, end, errors.Join(err, end())
	}
	settings = append(variables([]string{container.EpochVariable + "=" + terms.Epoch}), mounting([]container.Mount{m})...)
	return append(settings, setting{"lxc.group", epochGroup + terms.Epoch}), end, nil
}
