//go:build linux && cgo

package helper

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/lxc/internal/wire"
	"github.com/hostler-io/hostler/runner/rundir"
)

// besidePrefix begins the name of the directory that holds what a container becomes, or
// was, while it is upgraded. No container can be called so.
const besidePrefix = stagingPrefix + "beside-"

// upgrading is what exchanges the image of a container. Its directory is exchanged for
// another one, with all that the new image decides: files, configuration and record.
type upgrading struct{ *host }

// beside is an installation of its own, in which the other directory of a container has
// the name of the container.
func (h upgrading) beside(id container.CTID) *host {
	other := *h.host
	other.path = filepath.Join(h.path, besidePrefix+string(id))
	return &other
}

// upgrade does one step of it.
func (h upgrading) upgrade(op string, req wire.Request) error {
	t, err := h.acquireReady(req.Name)
	if err != nil {
		return err
	}
	defer t.lock.release()
	switch {
	case t.foreign():
		return fmt.Errorf("%w: %s was not made by Hostler and must be adopted first", container.ErrUnsupported, req.Name)
	case t.record.CTID != req.CTID:
		return fmt.Errorf("%w: %s is another container now", container.ErrNotFound, req.Name)
	case t.record.Adopted:
		return fmt.Errorf("%w: %s was adopted, so nothing says how it is made anew", container.ErrUnsupported, req.Name)
	}
	switch op {
	case wire.OpExchange, wire.OpExchangeBack:
		return h.exchange(t, req.To, op == wire.OpExchange)
	case wire.OpEndUpgrade:
		return h.end(t)
	}
	if req.Create == nil || req.Image == nil {
		return errors.New(op + " without an image")
	}
	return h.prepare(t, *req.Create, req.Image, req.To)
}

// prepare makes the other directory, with the ids that the container has. Its
// configuration says where it lies now, and follows when it has its place.
func (h upgrading) prepare(t *target, spec container.CreateSpec, img *container.Image, key string) error {
	spec.Privileged = t.record.IDs.Count == 0
	if err := spec.Check(); err != nil {
		return err
	}
	for _, m := range spec.Mounts {
		if _, err := os.Stat(m.Source); err != nil {
			return fmt.Errorf("what is to be mounted at %s: %w", m.Path, err)
		}
	}
	next := h.beside(t.record.CTID)
	if err := removeTree(next.path); err != nil {
		return err
	}
	for dir, mode := range map[string]fs.FileMode{next.path: 0o700, next.dir(t.name): 0o770} {
		if err := os.MkdirAll(dir, mode); err != nil {
			return err
		}
	}
	rec := record{CTID: t.record.CTID, Template: spec.Template, Hostname: spec.Hostname, Mounts: spec.Mounts, IDs: t.record.IDs, State: recordReady, Renaming: true, Upgrade: key}
	err := sharing{next}.reserve(t.name, spec, img, &rec)
	if err == nil {
		err = next.unpack(spec, img, &rec)
	}
	if err == nil && spec.Unique {
		err = starts{next}.refuse(t.name)
	}
	if err == nil {
		err = syncFilesystem(h.path)
	}
	if err != nil {
		return errors.Join(err, removeTree(next.path), sharing(h).sweepTrees())
	}
	failpoint.Before(failpoint.UpgradePrepared)
	err = writeRecord(next.dir(t.name), rec)
	failpoint.After(failpoint.UpgradePrepared)
	return errors.Join(err, rundir.SyncDir(next.path), rundir.SyncDir(h.path))
}

// reserve notes, before anything is unpacked, what the other directory shares with other
// containers, so that it is not removed.
func (h sharing) reserve(name string, spec container.CreateSpec, img *container.Image, rec *record) error {
	if rec.Tree = h.sharable(spec, img); rec.Tree == "" {
		return nil
	}
	half := *rec
	half.State = recordCreating
	ids, err := lock(h.locks, idLock, h.patience)
	if err != nil {
		return err
	}
	defer ids.remove()
	return writeRecord(h.dir(name), half)
}

// exchange puts the directory of an upgrade in place, or the one back that was there
// before, in one step.
func (h upgrading) exchange(t *target, key string, next bool) error {
	if (t.record.Upgrade == key) == next {
		return h.settle(t.name)
	}
	if err := h.stopped(t.name); err != nil {
		return err
	}
	other := h.beside(t.record.CTID).dir(t.name)
	switch r, err := readRecord(other); {
	case err != nil:
		return fmt.Errorf("what is to take the place of %s: %w", t.name, err)
	case r.State != recordReady:
		return fmt.Errorf("what is to take the place of %s is half made", t.name)
	}
	failpoint.Before(failpoint.FilesExchanged)
	if err := sharing(h).move(other, h.dir(t.name), unix.RENAME_EXCHANGE); err != nil {
		return fmt.Errorf("exchanging %s for %s: %w", h.dir(t.name), other, err)
	}
	if err := errors.Join(rundir.SyncDir(h.path), rundir.SyncDir(filepath.Dir(other))); err != nil {
		return err
	}
	failpoint.After(failpoint.FilesExchanged)
	return h.settle(t.name)
}

// end removes the other directory.
func (h upgrading) end(t *target) error {
	failpoint.Before(failpoint.UpgradeEnded)
	err := errors.Join(removeTree(h.beside(t.record.CTID).path), sharing(h).sweepTrees())
	failpoint.After(failpoint.UpgradeEnded)
	return err
}
