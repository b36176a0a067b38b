//go:build linux && cgo

package helper

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/internal/tree"
	"github.com/hostler-io/hostler/runner/rundir"
)

// errMounted tells that a tree cannot be removed without what is mounted in it.
var errMounted = errors.New("something is mounted in it")

// maxMounts bounds the table of mounts, in bytes: some hundred thousand.
const maxMounts = 16 << 20

// mountsBelow returns what is mounted in a directory, or on it, the deepest first.
func mountsBelow(dir string) ([]string, error) {
	table, err := rundir.ReadCapped("/proc/self/mountinfo", maxMounts)
	if err != nil {
		return nil, err
	}
	if dir, err = filepath.EvalSymlinks(dir); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	var all []string
	for line := range strings.Lines(string(table)) {
		f := strings.Fields(line)
		if len(f) < 5 {
			continue
		}
		at := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(f[4])
		if at == dir || strings.HasPrefix(at, dir+"/") {
			all = append(all, at)
		}
	}
	slices.Reverse(all) // a later one lies in an earlier one, or over it
	return all, nil
}

// removeTree removes a tree of ours. A mount below it is not ours: then nothing is
// removed.
func removeTree(dir string) error {
	mounts, err := mountsBelow(dir)
	if err != nil {
		return err
	}
	if len(mounts) > 0 {
		return fmt.Errorf("%s is not removed: %w; type umount %s", dir, errMounted, mounts[0])
	}
	return tree.Remove(dir)
}

// survey finds what is left of killed operations, and with repair removes it.
type survey struct {
	*host
	repair bool
}

// debris returns it in the order in which it can be removed.
func (h survey) debris() ([]container.Debris, error) {
	entries, err := os.ReadDir(h.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	there := make(map[string]bool) // keys of locks that may be asked for
	for _, e := range entries {
		there[e.Name()] = true
		if r, err := readRecord(h.dir(e.Name())); err == nil {
			there[string(r.CTID)] = true
		}
	}
	all := h.staleLocks(there) // first: the removal of containers takes them along
	for _, e := range entries {
		all = append(all, h.entry(e.Name())...)
	}
	return append(all, h.unusedTrees()...), nil
}

// entry looks at what lies in the directory of the containers.
func (h survey) entry(name string) []container.Debris {
	if id, staged := strings.CutPrefix(name, stagingPrefix); staged {
		if container.CheckCTID(id) != nil || h.working(id) {
			return nil
		}
		return h.halfContainer(name, "its removal, or the beginning of its creation, was cut short", func() error { return h.unstage(container.CTID(id)) })
	}
	if container.CheckReference(name) != nil {
		return nil
	}
	r, err := readRecord(h.dir(name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil // nothing says that it is ours
	case err != nil:
		return []container.Debris{{Kind: "damaged record", Object: filepath.Join(h.dir(name), recordFile), Cause: err.Error(),
			Advice: "the container goes on, but is not managed by Hostler; restore the file from a backup"}}
	case h.working(string(r.CTID)):
		return nil
	}
	return h.examine(name, r)
}

// examine looks at a directory with a record of ours that no process works on.
func (h survey) examine(name string, r record) (all []container.Debris) {
	switch {
	case r.State == recordCreating:
		return h.halfContainer(name, "its creation was cut short, so it was never started", func() error { return h.destroy(name) })
	case r.State == recordDestroying:
		return h.halfContainer(name, "its removal was ordered and cut short", func() error { return h.destroy(name) })
	}
	all = h.halfSnapshots(name, r)
	if r.Renaming {
		d := container.Debris{Kind: "half renamed container", Object: h.dir(name), Cause: "the name in its configuration differs from its directory", Repair: "put the name of the directory into the configuration"}
		if h.repair {
			d.Mend(func() error {
				t, err := h.acquireReady(name) // which settles it
				if err == nil {
					t.lock.release()
				}
				return err
			})
		}
		all = append(all, d)
	}
	if h.stopped(name) != nil {
		return all
	}
	mounts, err := mountsBelow(h.dir(name))
	if err != nil {
		return all
	}
	for _, at := range mounts {
		all = append(all, container.Debris{Kind: "mount", Object: at, Cause: "container " + name + " is stopped, and this is mounted in it, so it cannot be removed",
			Advice: "if it is not needed: umount " + at})
	}
	for _, dir := range litter(name, time.Now()) {
		d := container.Debris{Kind: "cgroup", Object: dir, Cause: "container " + name + " is stopped, and its control group has no processes", Repair: "remove the empty control group"}
		if h.repair {
			d.Mend(func() error { removeEmpty(dir); return stillThere(dir) })
		}
		all = append(all, d)
	}
	return all
}

// halfContainer is one with what is mounted in it, which has to go first.
func (h survey) halfContainer(name, cause string, remove func() error) (all []container.Debris) {
	mounts, err := mountsBelow(filepath.Join(h.path, name))
	if err != nil {
		mounts = nil // removing it finds out
	}
	for _, at := range mounts {
		d := container.Debris{Kind: "mount", Object: at, Cause: "it is mounted in a container that is half there", Repair: "unmount it; what it shows is not touched"}
		if h.repair {
			d.Mend(func() error {
				if err := unix.Unmount(at, unix.UMOUNT_NOFOLLOW); err != nil {
					return fmt.Errorf("umount %s: %w", at, err)
				}
				return nil
			})
		}
		all = append(all, d)
	}
	d := container.Debris{Kind: "half container", Object: filepath.Join(h.path, name), Cause: cause, Repair: "remove it"}
	if h.repair {
		d.Mend(remove)
	}
	return append(all, d)
}

// unstage removes a staging directory and its lock.
func (h survey) unstage(id container.CTID) error {
	l, err := lock(h.locks, string(id), h.patience)
	if err != nil {
		return err
	}
	if err := removeTree(h.staging(id)); err != nil {
		l.release()
		return err
	}
	l.remove()
	return nil
}

// staleLocks are those of containers that are not there.
func (h survey) staleLocks(there map[string]bool) (all []container.Debris) {
	locks, err := os.ReadDir(h.locks)
	if err != nil {
		return nil // there are none
	}
	for _, e := range locks {
		key, ok := strings.CutSuffix(e.Name(), lockSuffix)
		if !ok || key == idLock || there[key] || h.working(key) {
			continue
		}
		if _, err := os.Lstat(h.staging(container.CTID(key))); err == nil {
			continue // it goes with that
		}
		path := filepath.Join(h.locks, e.Name())
		d := container.Debris{Kind: "lock", Object: path, Cause: "its container is gone", Repair: "remove the file"}
		if h.repair {
			d.Mend(func() error { h.sweepLock(key); return stillThere(path) })
		}
		all = append(all, d)
	}
	return all
}

// working reports whether a process holds the lock of a container. It makes no lock.
func (h survey) working(key string) bool {
	f, err := os.Open(filepath.Join(h.locks, key+lockSuffix))
	if err != nil {
		return false
	}
	defer f.Close()
	return errors.Is(unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB), unix.EWOULDBLOCK)
}

// stillThere is the error of something that should be gone.
func stillThere(path string) error {
	if _, err := os.Lstat(path); err == nil {
		return errors.New("it is in use again")
	}
	return nil
}
