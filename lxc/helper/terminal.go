//go:build linux && cgo

package helper

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/runner/rundir"
	"github.com/hostler-io/hostler/runner/supervise"
)

// OpenTerminal implements supervise.Launcher: the terminal is one of the
// container's own, so that its programs find it by its name.
func (l *launcher) OpenTerminal() (master, slave *os.File, err error) {
	fd, err := openMultiplexer(fmt.Sprintf("/proc/%d/root", l.target.InitPID))
	if err != nil {
		return nil, nil, fmt.Errorf("opening the container's /dev/pts/ptmx: %w", err)
	}
	uid, err := outside(l.target.InitPID, l.user.UID)
	if err != nil {
		unix.Close(fd)
		return nil, nil, err
	}
	return supervise.Terminal(fd, uid)
}

// openMultiplexer opens the multiplexer of the pseudoterminals below root. What
// is found there under its name is the container's doing, so nothing is believed
// but that it lies in a file system of terminals.
func openMultiplexer(root string) (int, error) {
	dir, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(dir)
	const resolve = unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS
	// Looked at before it is opened: to open what is none may have effects.
	look, err := unix.Openat2(dir, "dev/pts/ptmx", &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: resolve})
	if err != nil {
		return -1, err
	}
	defer unix.Close(look)
	var fs unix.Statfs_t
	if err := unix.Fstatfs(look, &fs); err != nil {
		return -1, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(look, &st); err != nil {
		return -1, err
	}
	if fs.Type != unix.DEVPTS_SUPER_MAGIC || st.Mode&unix.S_IFMT != unix.S_IFCHR || st.Rdev != unix.Mkdev(5, 2) {
		return -1, fmt.Errorf("%w: not a terminal multiplexer", container.ErrUnsupported)
	}
	return unix.Open("/proc/self/fd/"+strconv.Itoa(look), unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
}

// outside returns which user of the machine a user of the container is.
func outside(init int, uid uint32) (uint32, error) {
	table, err := rundir.ReadCapped(fmt.Sprintf("/proc/%d/uid_map", init), 1<<20)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(table)) {
		var inside, beyond, count uint64
		if n, _ := fmt.Sscan(line, &inside, &beyond, &count); n == 3 && uint64(uid) >= inside && uint64(uid)-inside < count {
			return uint32(beyond + uint64(uid) - inside), nil
		}
	}
	return 0, supervise.Refuse(rundir.ReasonUnknownUser, errors.New("user "+strconv.FormatUint(uint64(uid), 10)+" has no place in the container's map of users"))
}
