//go:build !linux

package mqtt

import (
	"net"
	"syscall"
)

// tune leaves the socket as it is: hosts run Linux.
func tune(_, _ string, _ syscall.RawConn) error { return nil }

// queued is not known: hosts run Linux.
func queued(*net.TCPConn) int { return 0 }
