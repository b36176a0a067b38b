//go:build integration

package integration

import (
	"time"

	"golang.org/x/sys/unix"
)

// held is a process that is meant whatever becomes of its number: where many are
// started, another has it soon.
type held struct{ fd int }

// hold takes hold of a process, if it still is the one that was found by its number.
func hold(pid int, still func() bool) (held, bool) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return held{}, false
	}
	if !still() {
		unix.Close(fd)
		return held{}, false
	}
	return held{fd}, true
}

// end kills the process and waits until it is gone.
func (h held) end() {
	_ = unix.PidfdSendSignal(h.fd, unix.SIGKILL, nil, 0) // it may have ended
	h.await()
}

// await waits until the process is gone, whoever's child it is, and lets go of it.
func (h held) await() {
	defer unix.Close(h.fd)
	poll := []unix.PollFd{{Fd: int32(h.fd), Events: unix.POLLIN}}
	deadline := time.Now().Add(patience)
	for time.Now().Before(deadline) {
		if n, err := unix.Poll(poll, int(time.Until(deadline).Milliseconds())); n > 0 || err != nil && err != unix.EINTR {
			return
		}
	}
}

// awaitExit waits until a process is gone that was there a moment ago.
func awaitExit(pid int) {
	if h, ok := hold(pid, func() bool { return true }); ok {
		h.await()
	}
}

// endProcess kills a process that is there, and waits until it is gone.
func endProcess(pid int) {
	if h, ok := hold(pid, func() bool { return true }); ok {
		h.end()
	}
}
