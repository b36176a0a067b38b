package rundir

import (
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// What package os has in place of these knows of dates, and so brings along how they are
// written in every zone of the world: a twentieth of a program that lives beside every
// command. Contexts do so too.

// Mode returns the type of the file at a path, behind links, and who may do what with
// it: unix.S_IFMT and the lower bits.
func Mode(path string) (mode uint32, err error) {
	var st unix.Stat_t
	err = again(func() error { return unix.Stat(path, &st) })
	if err != nil {
		return 0, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	return st.Mode, nil
}

// IsDir reports whether a mode is that of a directory.
func IsDir(mode uint32) bool { return mode&unix.S_IFMT == unix.S_IFDIR }

// Rename puts a file in the place of another one, or where there is none.
func Rename(from, to string) error {
	if err := again(func() error { return unix.Rename(from, to) }); err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	return nil
}

// Names returns what is in a directory.
func Names(path string) (all []string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	buf := make([]byte, 4<<10)
	for {
		n, err := unix.ReadDirent(int(f.Fd()), buf)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return all, &fs.PathError{Op: "readdirent", Path: path, Err: err}
		case n <= 0:
			return all, nil
		default:
			_, _, all = unix.ParseDirent(buf[:n], -1, all)
		}
	}
}

// again calls do until no signal has interrupted it.
func again(do func() error) error {
	for {
		if err := do(); err != unix.EINTR {
			return err
		}
	}
}
