//go:build linux && cgo

package helper

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/container"
)

// mountEntry is the setting by which LXC mounts something in a container.
const mountEntry = "lxc.mount.entry"

// mounting are the settings of mounts, but for those that each start finds out about.
func mounting(all []container.Mount) (settings []setting) {
	for _, m := range all {
		if m.Optional {
			continue
		}
		settings = append(settings, setting{mountEntry, entryOf(m)})
	}
	return settings
}

func entryOf(m container.Mount) string {
	how := "rw"
	if m.ReadOnly {
		how = "ro"
	}
	return fmt.Sprintf("%s %s none bind,%s 0 0", m.Source, strings.TrimPrefix(m.Path, "/"), how)
}

// mountpoints makes the places in a stopped container at which something is mounted. The
// files in it are the container's own: a place that is, or lies below, a link of it is
// refused, for it could lead anywhere. What is mounted within something that is mounted
// has its place there, and is hidden by it elsewhere.
func mountpoints(h *host, name string, r record) error {
	for i, m := range r.Mounts {
		if m.Optional {
			continue
		}
		source, err := os.Stat(m.Source)
		if err == nil {
			root, at, fixed := placeOf(filepath.Join(h.dir(name), "rootfs"), r.Mounts[:i], m.Path)
			if at != m.Path { // links of the host are followed, as the mount of the source does
				if root, err = filepath.EvalSymlinks(root); err != nil {
					return fmt.Errorf("mounting %s at %s: %w", m.Source, m.Path, err)
				}
			}
			if err = mountpoint(root, at, source.IsDir(), int(r.IDs.First), fixed); errors.Is(err, errFixed) {
				err = fmt.Errorf("%w: make %s of the host before", err, filepath.Join(root, at))
			}
		}
		if err != nil {
			return fmt.Errorf("mounting %s at %s: %w", m.Source, m.Path, err)
		}
	}
	return nil
}

// optional are the settings, for this start alone, of what is mounted where the container has
// nothing of its own that forbids it.
func optional(h *host, name string, r record) (settings []setting) {
	for _, m := range r.Mounts {
		if !m.Optional {
			continue
		}
		m.Optional = false
		one := record{Mounts: []container.Mount{m}, IDs: r.IDs}
		if err := mountpoints(h, name, one); err == nil {
			settings = append(settings, mounting(one.Mounts)...)
		}
	}
	return settings
}

// errFixed: a place is missing in what is mounted read-only, in which nothing is made.
var errFixed = errors.New("its place is missing in what is mounted there read-only")

// placeOf returns the directory of the host that has the place of a path of the container, the
// path of the place in it, and whether nothing may be made there. What comes later covers what
// came before.
func placeOf(rootfs string, before []container.Mount, p string) (root, at string, fixed bool) {
	root, at = rootfs, p
	for _, m := range before {
		if rest, ok := strings.CutPrefix(p, m.Path+"/"); ok {
			root, at, fixed = m.Source, "/"+rest, m.ReadOnly
		}
	}
	return root, at, fixed
}

func mountpoint(rootfs, at string, dir bool, owner int, fixed bool) error {
	fd, err := unix.Open(rootfs, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: rootfs, Err: err}
	}
	defer func() { _ = unix.Close(fd) }() // nothing is written to it
	names := strings.Split(strings.TrimPrefix(path.Clean(at), "/"), "/")
	for i, name := range names {
		wantsDir := dir || i < len(names)-1
		next, err := enterPlace(fd, name, wantsDir, owner, fixed)
		if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("/%s in the container is no %s of its own, but a link or something else; remove it there", strings.Join(names[:i+1], "/"), map[bool]string{true: "directory", false: "file"}[wantsDir])
		}
		if err != nil {
			return err
		}
		_ = unix.Close(fd)
		fd = next
	}
	return nil
}

// enterPlace opens what has a name in a directory of a container, and makes it if nothing has.
// It makes nothing where that is fixed.
func enterPlace(at int, name string, dir bool, owner int, fixed bool) (int, error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_BENEATH}
	fd, err := unix.Openat2(at, name, &how)
	if err == unix.ENOENT && fixed {
		return -1, errFixed
	}
	if err == unix.ENOENT {
		if dir {
			err = unix.Mkdirat(at, name, 0o755)
		} else {
			err = unix.Mknodat(at, name, unix.S_IFREG|0o644, 0)
		}
		if err == nil {
			err = unix.Fchownat(at, name, owner, owner, unix.AT_SYMLINK_NOFOLLOW)
		}
		if err == nil {
			fd, err = unix.Openat2(at, name, &how)
		}
	}
	if err != nil {
		return -1, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return -1, errors.Join(err, unix.Close(fd))
	}
	if kind := st.Mode & unix.S_IFMT; dir && kind != unix.S_IFDIR || !dir && kind != unix.S_IFREG {
		_ = unix.Close(fd)
		return -1, unix.ENOTDIR
	}
	return fd, nil
}
