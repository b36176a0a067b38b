package rundir

import (
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// ErrNotRegular says that something that should be a file is a directory, a device, a
// pipe or a socket.
var ErrNotRegular = errors.New("not a regular file")

// OpenRegular opens a regular file below a directory, which may belong to a container:
// links stay inside. Anything else is looked at and never opened, because opening a
// device may have effects, and opening a pipe may wait for ever. What is looked at is
// what is opened, whatever the container makes of its name meanwhile.
func OpenRegular(root, name string, flags int) (*os.File, error) {
	dir, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: root, Err: err}
	}
	defer unix.Close(dir)
	look, err := unix.Openat2(dir, name, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: root + "/" + name, Err: err}
	}
	defer unix.Close(look)
	f, _, err := Reopen(look, root+"/"+name, flags)
	return f, err
}

// Reopen opens what has been looked at, through a descriptor with O_PATH: nothing that has
// come into the place of its name meanwhile. The name is for errors. [ErrNotRegular] if it
// is no regular file. The descriptor stays the caller's.
func Reopen(look int, name string, flags int) (f *os.File, st unix.Stat_t, err error) {
	fail := func(op string, err error) (*os.File, unix.Stat_t, error) {
		return nil, st, &os.PathError{Op: op, Path: name, Err: err}
	}
	if err := unix.Fstat(look, &st); err != nil {
		return fail("stat", err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return fail("open", ErrNotRegular)
	}
	fd, err := unix.Open("/proc/self/fd/"+strconv.Itoa(look), flags|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return fail("open", err)
	}
	return os.NewFile(uintptr(fd), name), st, nil
}
