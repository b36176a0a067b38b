package network

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/vishvananda/netlink"
)

// settle is how long changes of links are gathered: a link that comes up tells of it in
// several messages.
const settle = 200 * time.Millisecond

// Watch calls changed when it has begun to watch, and soon after a link or an address of the host has changed, as the
// kernel tells, until ctx ends; it returns the cause of that, or why it cannot watch.
// Changes that come together are one call. A change that the kernel could not tell, because
// there were too many, is a call as well.
func Watch(ctx context.Context, changed func()) error {
	for {
		err := watchOnce(ctx, changed)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if !errors.Is(err, errOverrun) {
			return err
		}
	}
}

var errOverrun = errors.New("the kernel tells of no more changes")

// watchOnce watches until the kernel's queue has overrun.
func watchOnce(ctx context.Context, changed func()) error {
	done := make(chan struct{})
	links, addrs := make(chan netlink.LinkUpdate), make(chan netlink.AddrUpdate)
	defer func() { // the library sends until its socket is closed
		close(done)
		for links != nil || addrs != nil {
			select {
			case _, ok := <-links:
				if !ok {
					links = nil
				}
			case _, ok := <-addrs:
				if !ok {
					addrs = nil
				}
			}
		}
	}()
	if err := netlink.LinkSubscribe(links, done); err != nil {
		links, addrs = nil, nil
		return fmt.Errorf("watching links: %w", err)
	}
	if err := netlink.AddrSubscribe(addrs, done); err != nil {
		addrs = nil
		return fmt.Errorf("watching addresses: %w", err)
	}
	changed() // what happened before is not told
	var soon <-chan time.Time
	for {
		select {
		case _, ok := <-links:
			if !ok {
				links = nil
				return errOverrun
			}
		case _, ok := <-addrs:
			if !ok {
				addrs = nil
				return errOverrun
			}
		case <-soon:
			soon = nil
			changed()
			continue
		case <-ctx.Done():
			return nil
		}
		if soon == nil {
			soon = time.After(settle)
		}
	}
}
