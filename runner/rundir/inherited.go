package rundir

import (
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// maxInherited is how far SealFiles looks on a kernel that cannot seal a range.
const maxInherited = 4096

// SealFiles marks every descriptor of this process beyond the standard ones
// close-on-exec. Go opens none without that mark, but a process that was started
// with open files would pass them on to every command. It is called when a program
// begins, before it starts another.
func SealFiles() error {
	err := unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC)
	if err != unix.ENOSYS && err != unix.EINVAL { // Linux before 5.11
		return os.NewSyscallError("close_range", err)
	}
	for fd := 3; fd < maxInherited; fd++ {
		unix.CloseOnExec(fd)
	}
	return nil
}
