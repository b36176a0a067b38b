package mqtt

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// unsentBytes is how much may wait in the system for its turn on the line. More
// of it would be written at once and then be out of sight: the system lets
// nobody write until a third of all that it holds has gone, which takes minutes
// on a slow line, and looks like a dead one.
const unsentBytes = 16 << 10

// tcpNotsentLowat is TCP_NOTSENT_LOWAT, which package syscall does not have.
const tcpNotsentLowat = 25

// tune sets that bound on a socket that is about to connect. A kernel that
// knows no such bound (before 3.12) is as good on every faster line.
func tune(_, _ string, c syscall.RawConn) error {
	return c.Control(func(fd uintptr) {
		_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpNotsentLowat, unsentBytes)
	})
}

// queued returns how many bytes the system holds for the other side: those that were
// never sent, and those that were not confirmed.
func queued(c *net.TCPConn) int {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0
	}
	n := 0
	err = raw.Control(func(fd uintptr) { n, err = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ) })
	if err != nil {
		return 0
	}
	return n
}
