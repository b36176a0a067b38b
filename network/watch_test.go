package network_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/hostler-io/hostler/network"
)

// TestWatch makes links and addresses in a namespace of its own, and is told of each; a
// burst of changes is told a few times and not hundreds of times.
func TestWatch(t *testing.T) {
	inNamespace(t, func(t *testing.T) {
		h, err := netlink.NewHandle()
		must(t, err)
		defer h.Close()
		ended := errors.New("the test has ended")
		ctx, stop := context.WithCancelCause(t.Context())
		told := make(chan struct{}, 1000)
		changes := make(chan struct{})
		next := func(what string) {
			select {
			case <-told:
			case <-time.After(30 * time.Second):
				t.Errorf("nothing was told of %s", what)
			}
		}
		link := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "watched0"}}
		address, err := netlink.ParseAddr("192.0.2.7/24")
		must(t, err)
		go func() { // waited for below
			defer close(changes)
			defer stop(ended)
			next("the beginning")
			for _, change := range []struct {
				what string
				make func() error
			}{
				{"a link", func() error { return h.LinkAdd(link) }},
				{"an address", func() error { return h.AddrAdd(link, address) }},
				{"an address that is gone", func() error { return h.AddrDel(link, address) }},
				{"a burst", func() error {
					for range 200 {
						if err := errors.Join(h.LinkSetUp(link), h.LinkSetDown(link)); err != nil {
							return err
						}
					}
					return nil
				}},
				{"a link that is gone", func() error { return h.LinkDel(link) }},
			} {
				if err := change.make(); err != nil {
					t.Errorf("%s: %v", change.what, err)
					return
				}
				next(change.what)
			}
		}()
		// Its sockets are of the namespace of this thread.
		if err := network.Watch(ctx, func() { told <- struct{}{} }); !errors.Is(err, ended) {
			t.Errorf("it ended with %v", err)
		}
		<-changes
		if n := len(told); n > 50 {
			t.Errorf("%d calls are left of 400 changes", n)
		}
	})
}
