package rundir

import (
	"bytes"
	"errors"
	"io/fs"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Boot names the present boot of this machine or container: the kernel's boot
// id and the start time of PID 1 of our PID namespace. The boot id alone is the
// host's in every container, so a restarted guest would look as if it had never
// been away.
func Boot() (string, error) {
	id, err := ReadCapped("/proc/sys/kernel/random/boot_id", 64)
	if err != nil {
		return "", err
	}
	ticks, err := StartTicks(1)
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(id)) + "-" + strconv.FormatInt(ticks, 10), nil
}

// StartTicks returns when the process started, in clock ticks since the boot of
// the machine (field 22 of /proc/PID/stat). Together with the pid it names a
// process for ever. A process that is gone gives fs.ErrNotExist.
func StartTicks(pid int) (int64, error) {
	fields, err := Stat(pid)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(string(fields[19]), 10, 64)
}

// Parent returns the pid of the parent of a process. A process that is gone gives
// fs.ErrNotExist.
func Parent(pid int) (int, error) {
	fields, err := Stat(pid)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(string(fields[1]))
}

// Stat returns what /proc/PID/stat tells of a process behind its name: its state, its
// parent, and so on. A process that is gone gives fs.ErrNotExist.
func Stat(pid int) (fields [][]byte, err error) {
	path := "/proc/" + strconv.Itoa(pid) + "/stat"
	b, err := ReadCapped(path, 4096)
	if errors.Is(err, unix.ESRCH) {
		err = fs.ErrNotExist
	}
	if err != nil {
		return nil, err
	}
	// The name of the program stands in parentheses and may hold anything.
	if fields = bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:]); len(fields) < 20 {
		return nil, &fs.PathError{Op: "read", Path: path, Err: ErrFormat}
	}
	return fields, nil
}
