//go:build linux

package dev

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/hostler-io/hostler/network"
)

// Down takes the fleet down with everything that belongs to it, whatever state
// it is in: nodes, links, cgroups, the context, the owner's key, the files. The
// context that was in use before is in use again. ErrNotUp if there was nothing.
func (f *Fleet) Down(ctx context.Context) error {
	unlock, err := f.lock()
	if errors.Is(err, ErrNotUp) && f.remains() {
		// The files alone were removed.
		if err = os.MkdirAll(f.dir(), 0o700); err == nil {
			unlock, err = f.lock()
		}
	}
	if err != nil {
		return err
	}
	defer unlock()
	return f.down(ctx)
}

// remains reports whether anything of the fleet is left beside its files.
func (f *Fleet) remains() bool {
	all, err := hierarchies()
	if err != nil {
		return false
	}
	for _, h := range all {
		if _, err := os.Lstat(string(h.group(f.cfg.Name, ""))); err == nil {
			return true
		}
	}
	_, err = os.Lstat("/sys/class/net/" + f.bridge())
	return err == nil
}

func (f *Fleet) down(ctx context.Context) error {
	if err := f.killAll(ctx); err != nil {
		return err
	}
	if err := f.removeLinks(); err != nil {
		return err
	}
	if err := f.forgetOperator(ctx); err != nil {
		return err
	}
	release, err := f.lockRoot()
	if err != nil {
		return err
	}
	defer release()
	// The directory is the last to go: it holds the name.
	if err := os.RemoveAll(f.dir()); err != nil {
		return err
	}
	_ = os.Remove(f.cfg.Root) // other fleets may be in it
	return nil
}

// killAll ends every process of the fleet and removes its cgroups.
func (f *Fleet) killAll(ctx context.Context) error {
	all, err := hierarchies()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errors.New("processes do not end"))
	defer cancel()
	i := slices.IndexFunc(all, hierarchy.v2)
	if err := all[i].group(f.cfg.Name, "").End(ctx); err != nil {
		return fmt.Errorf("killing fleet %q: %w", f.cfg.Name, err)
	}
	for _, h := range all {
		if err := h.group(f.cfg.Name, "").Remove(); err != nil {
			return fmt.Errorf("the cgroups of fleet %q: %w", f.cfg.Name, err)
		}
	}
	return nil
}

func (f *Fleet) removeLinks() error {
	names, err := network.Cables(f.cables())
	if err != nil {
		return err
	}
	for _, name := range names {
		err = errors.Join(err, network.RemoveCable(name))
	}
	return errors.Join(err, network.RemoveBridge(f.bridge()))
}
