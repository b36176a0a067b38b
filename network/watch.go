package network

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// settle is how long changes of links are gathered: a link that comes up tells of it in
// several messages.
const settle = 200 * time.Millisecond

// Watch calls changed when it has begun to watch, and soon after a link or an address of the host has changed, as the
// kernel tells, until ctx ends; it returns the cause of that, or why it cannot watch.
// Changes that come together are one call. A change that the kernel could not tell, because
// there were too many, is a call as well.
func Watch(ctx context.Context, changed func()) error {
	messages, err := subscribe()
	if err != nil {
		return fmt.Errorf("watching links and addresses: %w", err)
	}
	defer messages.Close()
	undo := context.AfterFunc(ctx, func() { _ = messages.Close() }) // it ends the read
	defer undo()
	changed() // what happened before is not told
	for {
		err := next(messages, time.Time{})
		for end := time.Now().Add(settle); err == nil; {
			err = next(messages, end)
		}
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return fmt.Errorf("watching links and addresses: %w", err)
		}
		changed()
	}
}

// subscribe returns a socket on which the kernel tells of links and addresses.
func subscribe() (*os.File, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, err
	}
	groups := uint32(unix.RTMGRP_LINK | unix.RTMGRP_IPV4_IFADDR | unix.RTMGRP_IPV6_IFADDR)
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: groups}); err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), "netlink"), nil
}

// next waits for a message, or for word that messages went before they were read, until a
// time if it is not zero. What the message says is not read: the look that follows finds it.
func next(messages *os.File, until time.Time) error {
	if err := messages.SetReadDeadline(until); err != nil {
		return err
	}
	var start [unix.SizeofNlMsghdr]byte
	if _, err := messages.Read(start[:]); !errors.Is(err, unix.ENOBUFS) {
		return err
	}
	return nil
}
