package main

import (
	"syscall"

	"github.com/hostler-io/hostler/internal/lobby"
)

// share is how the descriptors that the process may have are divided, so that strangers
// never take what members need.
type share struct {
	strangers int // connections whose other end has not said who it is
	members   int // connections of the broker whose certificate was verified
}

const (
	// ownFiles is what the process needs beside connections that are counted:
	// database, output, payloads, and the connections of people.
	ownFiles = 256
	// maxStrangers let 2,000 hosts come back at once, each with two connections.
	maxStrangers = 4096
	// maxMembers are two for each of ten thousand hosts, and viewers.
	maxMembers = 25_000
)

// shareOf divides so many descriptors: a quarter of what is free for strangers, up to
// maxStrangers, and the rest for members. With few of them each has some nevertheless.
func shareOf(files uint64) share {
	left := max(int(min(files, 1<<20))-ownFiles, 32)
	strangers := min(left/4, maxStrangers)
	return share{strangers, min(left-strangers, maxMembers)}
}

func (s share) lobby() *lobby.Lobby { return lobby.New(s.strangers) }

// openFiles is how many descriptors the process may have. The runtime has raised that
// to what the system lets it have.
func openFiles() uint64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 1024 // the usual one
	}
	return limit.Cur
}
