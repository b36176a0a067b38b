package rootfs

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"

	"golang.org/x/sys/unix"
)

// identities are files that say which machine this is, or that make it guessable.
var identities = []string{"etc/machine-id", "var/lib/dbus/machine-id", "var/lib/systemd/random-seed"}

// The directory of the keys of an ssh server, and what they are called.
const (
	sshDir  = "etc/ssh"
	sshKeys = "ssh_host_*"
)

// isKey reports whether a path is that of a key of an ssh server.
func isKey(name string) bool {
	match, _ := path.Match(sshDir+"/"+sshKeys, name) // the pattern is well formed
	return match
}

// inode is a file whatever it is called: its device and its number.
type inode [2]uint64

func inodeOf(st *unix.Stat_t) inode { return inode{st.Dev, st.Ino} }

// unique finds the keys and the identities below a root directory as files, for each may
// have names that do not tell. Links lead where they would lead in the container.
func unique(dir string) (keys, ids map[inode]bool, err error) {
	root, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, nil, &os.PathError{Op: "open", Path: dir, Err: err}
	}
	defer unix.Close(root)
	ssh, err := namesIn(root, sshDir)
	if err != nil {
		return nil, nil, err
	}
	ssh = slices.DeleteFunc(ssh, func(name string) bool { return !isKey(name) })
	keys, err = filesOf(root, ssh)
	ids, bad := filesOf(root, identities)
	return keys, ids, errors.Join(err, bad)
}

// inRoot opens what a path leads to if the root is that of the machine; -1 if there is
// nothing.
func inRoot(root int, name string, flags uint64) (int, error) {
	how := unix.OpenHow{Flags: flags | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV}
	fd, err := unix.Openat2(root, name, &how)
	switch err {
	case nil:
		return fd, nil
	case unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.EXDEV:
		return -1, nil
	}
	return -1, &os.PathError{Op: "open", Path: name, Err: err}
}

// namesIn are the paths in a directory below a root.
func namesIn(root int, dir string) ([]string, error) {
	fd, err := inRoot(root, dir, unix.O_RDONLY|unix.O_DIRECTORY)
	if fd < 0 {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), dir)
	names, err := f.Readdirnames(-1)
	for i, name := range names {
		names[i] = path.Join(dir, name)
	}
	return names, errors.Join(err, f.Close())
}

// filesOf are the regular files that paths lead to.
func filesOf(root int, names []string) (map[inode]bool, error) {
	all := make(map[inode]bool)
	for _, name := range names {
		fd, err := inRoot(root, name, unix.O_PATH)
		if err != nil {
			return nil, err
		}
		if fd < 0 {
			continue
		}
		var st unix.Stat_t
		if err := errors.Join(unix.Fstat(fd, &st), unix.Close(fd)); err != nil {
			return nil, err
		}
		if st.Mode&unix.S_IFMT == unix.S_IFREG {
			all[inodeOf(&st)] = true
		}
	}
	return all, nil
}

// Renew takes away what a copy of a container must not have in common with it: the id of
// its machine, which its init makes anew, and the keys of its ssh server.
func Renew(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, name := range identities {
		if i, err := root.Lstat(name); err == nil && i.Mode().IsRegular() {
			if err := root.WriteFile(name, nil, 0o444); err != nil {
				return err
			}
		}
	}
	ssh, err := root.OpenRoot(sshDir)
	if err != nil {
		return nil // it has none
	}
	defer ssh.Close()
	keys, err := fs.Glob(ssh.FS(), sshKeys)
	for _, name := range keys {
		if i, bad := ssh.Lstat(name); bad == nil && i.Mode().IsRegular() {
			err = errors.Join(err, ssh.WriteFile(name, nil, 0o600)) // it may have other names
		}
		err = errors.Join(err, ssh.Remove(name))
	}
	return err
}
