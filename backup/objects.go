package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hostler-io/hostler/backup/bucket"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/internal/durable"
	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/runner/rundir"
)

// objects is files of a bucket. A backup is made in the host's own directory, and then sent:
// the container is read at the speed of the disk, what is sent can be sent again, and nothing of
// a backup that fails is in the bucket. What this host has to remember is in its own directory:
// reading a bucket writes nothing to it.
type objects struct {
	target string
	in     *bucket.Bucket
	own    directory
}

// here is the name in the host's own directory of what is about a backup in the bucket. No
// backup of the host has such a name.
func (o objects) here(name string) string { return o.target + ":" + name }

func (o objects) note(name string) string { return o.own.note(o.here(name)) }

// fail names the target.
func (o objects) fail(name string, err error) error {
	switch {
	case errors.Is(err, container.ErrNotFound):
		return noBackup(name)
	case errors.Is(err, container.ErrExists):
		return exists(name)
	case errors.Is(err, container.ErrUnavailable):
		return fmt.Errorf("target %s: %w", o.target, err)
	}
	return err
}

func (o objects) names(ctx context.Context) (all []string, err error) {
	found, err := o.in.Names(ctx)
	for _, name := range found {
		if name, ok := strings.CutSuffix(name, suffix); ok {
			all = append(all, name)
		}
	}
	return all, o.fail("", err)
}

// object is a backup in a bucket that is read.
type object struct {
	*bucket.Object
	of   objects
	name string
}

func (o object) stat() stat {
	return stat{size: o.Size, changed: o.Modified.UnixNano(), etag: o.ETag}
}

// ReadAt implements [io.ReaderAt].
func (o object) ReadAt(p []byte, off int64) (int, error) {
	n, err := o.Object.ReadAt(p, off)
	if err == io.EOF {
		return n, err
	}
	return n, o.of.fail(o.name, err)
}

func (o objects) open(ctx context.Context, name string) (file, error) {
	f, err := o.in.Open(ctx, name+suffix)
	if err != nil {
		return nil, o.fail(name, err)
	}
	return object{f, o, name}, nil
}

func (o objects) put(ctx context.Context, name string, write func(to io.Writer) error) (int64, error) {
	if f, err := o.open(ctx, name); err == nil {
		return 0, errors.Join(exists(name), f.Close())
	} else if !errors.Is(err, container.ErrNotFound) {
		return 0, err // before the container is read
	}
	if _, err := o.debris(ctx, true, time.Time{}); err != nil {
		return 0, err
	}
	f, err := o.own.stage(ctx, o.here(name), write)
	if err != nil {
		return 0, err
	}
	i, err := f.Stat()
	if err == nil {
		failpoint.Before(failpoint.BackupKept)
		err = o.in.Put(ctx, name+suffix, f, i.Size(), func(id string) error { return o.begun(name, id) })
	}
	if err != nil {
		bad := o.abort(context.WithoutCancel(ctx), name)
		if errors.Is(bad, container.ErrUnavailable) {
			bad = nil // it is debris for the next backup
		}
		return 0, errors.Join(o.fail(name, err), f.Close(), os.Remove(f.Name()), bad)
	}
	failpoint.After(failpoint.BackupKept)
	if err := errors.Join(f.Close(), os.Remove(f.Name())); err != nil {
		return 0, err
	}
	return i.Size(), o.forget(name)
}

func (o objects) remove(ctx context.Context, name string) error {
	return o.fail(name, o.in.Remove(ctx, name+suffix))
}

// upload is what the host notes of one that it begins: its parts take room in the bucket, and
// no list of backups has them.
type upload struct {
	ID string `json:"id"`
}

const (
	uploadPrefix = ".upload-"
	maxUpload    = 4 << 10
)

func (o objects) upload(name string) string {
	return filepath.Join(o.own.path, uploadPrefix+o.here(name))
}

func (o objects) begun(name, id string) error {
	raw, err := json.Marshal(upload{id})
	if err != nil {
		return err
	}
	return durable.WriteFile(o.upload(name), raw, 0o600, maxUpload)
}

func (o objects) forget(name string) error {
	if err := os.Remove(o.upload(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// abort frees the parts of an upload that is noted, if one is.
func (o objects) abort(ctx context.Context, name string) error {
	raw, err := rundir.ReadCapped(o.upload(name), maxUpload)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var u upload
	if err == nil && json.Unmarshal(raw, &u) == nil && u.ID != "" {
		err = o.fail(name, o.in.Abort(ctx, name+suffix, u.ID))
	}
	if err != nil {
		return err
	}
	return o.forget(name)
}

// debris are uploads that were begun by a process that is gone. What that process has left in
// the host's own directory is debris of that.
func (o objects) debris(ctx context.Context, repair bool, _ time.Time) (all []container.Debris, err error) {
	noted, err := filepath.Glob(filepath.Join(o.own.path, uploadPrefix+o.here("*")))
	for _, path := range noted {
		name := strings.TrimPrefix(filepath.Base(path), uploadPrefix+o.here(""))
		staging := filepath.Join(o.own.path, unfinished+o.here(name))
		over, bad := left(staging)
		if _, none := os.Lstat(staging); bad == nil && (over || errors.Is(none, fs.ErrNotExist)) {
			all = append(all, halfBackup(o.here(name), repair, func() error { return o.abort(ctx, name) }))
		}
		err = errors.Join(err, bad)
	}
	if err == nil && repair {
		err = o.forgetGone(ctx)
	}
	return all, err
}

// forgetGone forgets when backups were verified that others have removed, as a rule of the bucket
// may.
func (o objects) forgetGone(ctx context.Context) error {
	noted, err := filepath.Glob(o.note("*"))
	if err != nil || len(noted) == 0 {
		return err
	}
	there, err := o.names(ctx)
	if err != nil {
		return err
	}
	for _, path := range noted {
		if name := strings.TrimPrefix(path, o.note("")); !slices.Contains(there, name) {
			err = errors.Join(err, os.Remove(path))
		}
	}
	return err
}
