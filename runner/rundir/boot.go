package rundir

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"strconv"
	"strings"
	"time"

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

// tick is the unit of StartTicks: USER_HZ is 100 on every architecture that Go runs on.
const tick = 10 * time.Millisecond

// StartedBefore returns StartTicks of a process that had its number already at a time since
// boot. It reports false for a process that is younger, or gone: the number that another
// program has told since then may be that of a process which had it before.
func StartedBefore(pid int, sinceBoot time.Duration) (ticks int64, ok bool) {
	ticks, err := StartTicks(pid)
	return ticks, err == nil && time.Duration(ticks+1)*tick <= sinceBoot
}

// ErrUnsettled means that a process was younger than each question for its number.
var ErrUnsettled = errors.New("its first process has ended, or another process has its number by now")

// settleTries is how often Settled asks, with a tick between two questions: a container that
// was just started is older than the second one.
const settleTries = 5

// Settled asks another program for the number of a process, and returns the StartTicks of the
// process that the program has meant. A process that is younger than the question may have
// got the number after the answer, so Settled asks again. now is the time since boot. The
// number 0 is no process and ends it.
func Settled(ctx context.Context, now func() time.Duration, ask func() (pid int, err error)) (ticks int64, err error) {
	for try := range settleTries {
		if try > 0 {
			select {
			case <-time.After(tick):
			case <-ctx.Done():
				return 0, context.Cause(ctx)
			}
		}
		asked := now()
		pid, err := ask()
		if err != nil || pid == 0 {
			return 0, err
		}
		if ticks, ok := StartedBefore(pid, asked); ok {
			return ticks, nil
		}
	}
	return 0, ErrUnsettled
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
