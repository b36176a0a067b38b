//go:build linux && cgo

package helper

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/internal/layers"
	"github.com/hostler-io/hostler/internal/tree"
	"github.com/hostler-io/hostler/runner/rundir"
)

// Containers of one image share its files: they are unpacked once, in a tree below TreesDir
// that is called by the digests of its layers, and what a container changes lies above them
// in its own directory. The record of a container names its tree before there is one, and
// a tree is removed, under its lock, when no record names it. So the records are the
// references, and no crash loses or keeps one.

// treeName is what trees are called.
var treeName = regexp.MustCompile(`^[0-9a-f]{64}$`)

const (
	// treeLock begins the keys of the locks of trees. No container can be called so.
	treeLock = ".tree-"
	// halfTree begins the name of a tree that is being made or removed.
	halfTree = "."
	// probe ends the name of the directory in which it is found out whether there can be any.
	probe = "probe"
)

// sharing is what is done to the files that containers share.
type sharing struct{ *host }

// own is the directory, in that of a container, with all files that are its own.
func (r record) own() string {
	if r.Tree != "" {
		return layers.Upper
	}
	return layers.Merged
}

// tree is the root directory of a container that shares files and lies in dir.
func (h sharing) tree(dir string, r record) layers.Tree {
	return layers.Tree{Lower: filepath.Join(h.trees, r.Tree), Dir: dir, First: r.IDs.First, Count: r.IDs.Count}
}

// alone is why containers here cannot share files; empty if they can.
func (h sharing) alone() string {
	if !h.share {
		return "lxc.rootfs is copy"
	}
	if tree.Subvolumes(h.path) {
		return h.path + " lies on btrfs, where the files of each container are a subvolume"
	}
	l, err := lock(h.locks, treeLock+probe, h.patience)
	if err != nil {
		return err.Error()
	}
	defer l.remove()
	if err := os.MkdirAll(h.path, 0o711); err != nil {
		return err.Error()
	}
	if err := layers.Probe(filepath.Join(h.path, stagingPrefix+probe)); err != nil {
		return err.Error()
	}
	return ""
}

// sharable returns the name of the tree that a new container of an image shares; empty if it
// has all files for itself. A privileged one has, for its files may belong to any user, and
// so has what is made from a backup, whose files no other container has: what it changes or
// removes of a tree would take room twice.
func (h sharing) sharable(spec container.CreateSpec, img *container.Image) string {
	if !h.share || spec.Privileged || img.Copy || len(img.Layers) == 0 {
		return ""
	}
	sum := sha256.New()
	for _, l := range img.Layers {
		if l.DiffID == "" || l.Plain {
			return ""
		}
		fmt.Fprintln(sum, l.DiffID)
	}
	if h.alone() != "" {
		return ""
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// stack makes the root directory of a new container of an image, and mounts it.
func (h sharing) stack(dir string, r record, img *container.Image) (end func() error, err error) {
	if err := h.unpackTree(r.Tree, img); err != nil {
		return nil, err
	}
	if err := h.tree(dir, r).Make(); err != nil {
		return nil, err
	}
	return h.merge(dir, r)
}

// unpackTree unpacks the files of an image, unless they are there. A record names them.
func (h sharing) unpackTree(name string, img *container.Image) error {
	l, err := lock(h.locks, treeLock+name, h.left())
	if err != nil {
		return err
	}
	defer l.remove()
	if err := os.MkdirAll(h.trees, 0o700); err != nil {
		return err
	}
	at, half := filepath.Join(h.trees, name), filepath.Join(h.trees, halfTree+name)
	if _, err := os.Lstat(at); err == nil {
		return nil
	}
	if err := removeTree(half); err != nil {
		return err
	}
	if err := lay(half, img.Layers, container.IDRange{Count: idsEach}); err != nil {
		return errors.Join(err, os.RemoveAll(half))
	}
	if err := syncFilesystem(h.trees); err != nil {
		return err
	}
	if err := os.Rename(half, at); err != nil {
		return err
	}
	return rundir.SyncDir(h.trees)
}

// merge mounts the root directory of a container that lies in dir, for this thread and what
// it forks. If all files are its own, there is nothing to do.
func (h sharing) merge(dir string, r record) (end func() error, err error) {
	if r.Tree == "" {
		return func() error { return nil }, nil
	}
	if !h.parted {
		runtime.LockOSThread() // for good: it ends with this operation
		if err := layers.Part(); err != nil {
			return nil, err
		}
		h.parted = true
	}
	t := h.tree(dir, r)
	if _, err := os.Stat(t.Lower); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("the files of its image, %s, are missing, and only a backup of the host has them", t.Lower)
	}
	if end, err = t.Mount(); err != nil {
		return nil, fmt.Errorf("putting the files of %s over those of its image: %w", dir, err)
	}
	return end, nil
}

// named are the trees that records name; known is false if a record cannot be read.
func (h sharing) named() (trees map[string]bool, known bool, err error) {
	trees = make(map[string]bool)
	dirs := []string{h.path}
	for len(dirs) > 0 {
		entries, err := os.ReadDir(dirs[0])
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, false, err
		}
		for _, e := range entries {
			dir := filepath.Join(dirs[0], e.Name())
			if dirs[0] == h.path && strings.HasPrefix(e.Name(), besidePrefix) {
				dirs = append(dirs, dir)
			}
			r, err := readRecord(dir)
			if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTDIR) {
				return nil, false, nil
			}
			if r.Tree != "" {
				trees[r.Tree] = true
			}
		}
		dirs = dirs[1:]
	}
	return trees, true, nil
}

// move gives the directory of a container another place. The lock keeps other processes from
// reading the names of trees in the records meanwhile.
func (h sharing) move(from, to string, how uint) error {
	ids, err := lock(h.locks, idLock, h.patience)
	if err != nil {
		return err
	}
	defer ids.remove()
	return unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, how)
}

// idleTrees are the trees that no record names, and the remains of trees that were half made.
// While a record cannot be read, the list is empty.
func (h sharing) idleTrees() (names []string, err error) {
	entries, err := os.ReadDir(h.trees)
	if errors.Is(err, fs.ErrNotExist) || len(entries) == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	trees, known, err := h.named()
	if err != nil || !known {
		return nil, err
	}
	for _, e := range entries {
		name := strings.TrimPrefix(e.Name(), halfTree)
		if treeName.MatchString(name) && (name != e.Name() || !trees[name]) {
			names = append(names, name)
		}
	}
	return names, nil
}

// sweepTrees removes the trees that no record names and no process works on.
func (h sharing) sweepTrees() error {
	names, err := h.idleTrees()
	for _, name := range names {
		err = errors.Join(err, h.sweepTree(name))
	}
	return errors.Join(err, h.fell())
}

// fell removes the directory of the trees when there are none, and no record says that there
// will be.
func (h sharing) fell() error {
	if left, err := os.ReadDir(h.trees); err != nil || len(left) > 0 {
		return nil
	}
	ids, err := lock(h.locks, idLock, h.patience)
	if err != nil {
		return err
	}
	defer ids.remove()
	trees, known, err := h.named()
	if err != nil || !known || len(trees) > 0 {
		return err
	}
	if err := os.Remove(h.trees); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTEMPTY) {
		return err
	}
	return nil
}

func (h sharing) sweepTree(name string) error {
	if err := os.MkdirAll(h.locks, 0o700); err != nil {
		return err
	}
	l := tryLock(filepath.Join(h.locks, treeLock+name+lockSuffix))
	if l == nil {
		return nil
	}
	defer l.remove()
	half := filepath.Join(h.trees, halfTree+name)
	if err := removeTree(half); err != nil {
		return err
	}
	ids, err := lock(h.locks, idLock, h.patience) // so that no container changes its name
	if err != nil {
		return err
	}
	defer ids.remove()
	trees, known, err := h.named() // a record may name it since
	if err != nil || !known || trees[name] {
		return err
	}
	// It must not be taken for a whole one if its removal is cut short.
	if err := os.Rename(filepath.Join(h.trees, name), half); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	if err := rundir.SyncDir(h.trees); err != nil {
		return err
	}
	return removeTree(half)
}

// unusedTrees are those that no container has any more.
func (h survey) unusedTrees() (all []container.Debris) {
	names, err := sharing{h.host}.idleTrees()
	if err != nil {
		return nil
	}
	for _, name := range names {
		if h.working(treeLock + name) {
			continue
		}
		d := container.Debris{Kind: "unused image", Object: filepath.Join(h.trees, name), Cause: "no container shares these files of an image any more", Repair: "remove them"}
		if h.repair {
			d.Mend(func() error { return sharing{h.host}.sweepTree(name) })
		}
		all = append(all, d)
	}
	return all
}
