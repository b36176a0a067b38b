package podman

import (
	"context"
	"time"

	"golang.org/x/sys/unix"
)

// monitor is the process of podman that watches the first one of a container. When that has
// ended it has podman tidy up after the container, waits for that, and ends itself. Podman's
// answer to a stop may come before.
type monitor struct{ pidfd int }

// monitor returns that of a container that runs; of another one it has ended.
func (d details) monitor() monitor {
	if d.State.ConmonPID == 0 {
		return monitor{-1}
	}
	fd, err := unix.PidfdOpen(d.State.ConmonPID, 0)
	if err != nil {
		return monitor{-1}
	}
	return monitor{fd}
}

func (m monitor) close() {
	if m.pidfd >= 0 {
		_ = unix.Close(m.pidfd) // nothing was written to it
	}
}

const (
	// tidyTime is how long a monitor is waited for. One that hangs holds up nothing for ever.
	tidyTime = 5 * time.Second
	// tidyLook is after how long it is looked whether the operation is to end.
	tidyLook = 100 * time.Millisecond
)

// wait waits until the monitor has ended: what would be prepared before for the next start,
// podman could tidy away.
func (m monitor) wait(ctx context.Context) {
	for end := time.Now().Add(tidyTime); m.pidfd >= 0 && ctx.Err() == nil && time.Now().Before(end); {
		t := unix.NsecToTimespec(tidyLook.Nanoseconds()) // the kernel changes it
		if n, err := unix.Ppoll([]unix.PollFd{{Fd: int32(m.pidfd), Events: unix.POLLIN}}, &t, nil); n > 0 || err != nil && err != unix.EINTR {
			return
		}
	}
}
