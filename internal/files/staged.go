package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"
	"sync"
	"syscall"

	"github.com/hostler-io/hostler/internal/failpoint"
)

// To make a small file durable takes as long as to make many that come together: the
// system of files writes down what it can with one turn of the disk. So files of an
// archive are written first, made durable together, and get their names then, in
// their order. The names of a directory become durable together as well.
const (
	maxStaged    = 64        // files that are open at a time
	maxStagedOne = 256 << 10 // larger ones do not wait
	syncers      = 16
	maxUnsynced  = 256
)

// staged is a file that is whole and has another name yet.
type staged struct {
	f          *os.File
	temp, name string
}

// stage writes a file, which gets its name with those that follow; a large one, or one
// of unknown size, at once.
func (t *Tree) stage(ctx context.Context, name string, mode fs.FileMode, o Owner, size int64, r io.Reader) error {
	if err := t.replaceable(name); err != nil {
		return err
	}
	temp := path.Join(path.Dir(name), t.Temp)
	if n := len(t.staged); n > 0 {
		temp += "." + strconv.Itoa(n)
	}
	if err := t.root.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err // left by an attempt before, or not ours
	}
	f, err := t.root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return t.named(name, err)
	}
	t.made[temp] = true
	n, err := copySparse(ctx, f, r)
	if err == nil && size >= 0 && n != size {
		err = fmt.Errorf("%w: %d bytes came, %d were promised", ErrChanged, n, size)
	}
	if err == nil && t.Chown != nil {
		err = t.Chown(f, o)
	}
	// The mode follows the owner, whose change takes bits away.
	if err == nil {
		err = f.Chmod(t.mode(mode, false))
	}
	if err != nil {
		return errors.Join(t.named(name, err), f.Close(), t.root.Remove(temp))
	}
	t.staged = append(t.staged, staged{f, temp, name})
	if size < 0 || size > maxStagedOne || len(t.staged) >= maxStaged {
		return t.show()
	}
	return nil
}

// show makes what is staged durable and gives it its names.
func (t *Tree) show() error {
	all := t.staged
	t.staged = nil
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	free := make(chan struct{}, syncers)
	for i, s := range all {
		free <- struct{}{}
		wg.Go(func() {
			errs[i] = errors.Join(s.f.Sync(), s.f.Close())
			<-free
		})
	}
	wg.Wait()
	for i, s := range all {
		if errs[i] == nil {
			failpoint.Before(failpoint.FilePushed)
			errs[i] = t.root.Rename(s.temp, s.name)
		}
		if errs[i] != nil {
			return errors.Join(t.named(s.name, errs[i]), t.root.Remove(s.temp)) // the others go with Close
		}
		delete(t.made, s.temp)
		if err := t.renamed(s.name); err != nil {
			return err
		}
	}
	return nil
}

// renamed notes that something has got its name.
func (t *Tree) renamed(name string) error {
	if t.unsynced[path.Dir(name)] = true; len(t.unsynced) < maxUnsynced {
		return nil
	}
	return t.sync()
}

// settle makes everything durable.
func (t *Tree) settle() error {
	if err := errors.Join(t.show(), t.sync()); err != nil {
		return err
	}
	failpoint.After(failpoint.FilePushed)
	return nil
}

// sync makes the names durable that were given.
func (t *Tree) sync() error {
	for dir := range t.unsynced {
		d, err := t.root.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY, 0) // it may be a pipe by now
		if err != nil {
			return err
		}
		if err := errors.Join(d.Sync(), d.Close()); err != nil {
			return err
		}
		delete(t.unsynced, dir)
	}
	return nil
}
