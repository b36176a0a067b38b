package coordinator_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler-io/hostler/coordinator/coordtest"
	"github.com/hostler-io/hostler/coordinator/storetest"
	"github.com/hostler-io/hostler/protocol/stream"
)

// A disk that is full while receipts come must not keep the window shut: no host
// sends a receipt of its own accord again.
func TestWindowOpensAfterAFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var full atomic.Bool
		f := coordtest.NewOn(t, storetest.NewMem(storetest.Faults{Refuse: func() error {
			if full.Load() {
				return errors.New("disk full")
			}
			return nil
		}}))
		h := f.AddHost("edge-07")
		h.Connect()
		after(10 * time.Second)
		for range stream.Window - 1 {
			propose(t, f, h)
		}
		// The last of the window: the disk is full from when it was sent on.
		h.Auto(func(*coordtest.Host, coordtest.Order) { full.Store(true) })
		for len(h.Orders()) > 0 {
			<-h.Orders()
		}
		propose(t, f, h)
		after(10 * time.Second)
		full.Store(false)
		h.Auto(nil)
		for range 3 {
			propose(t, f, h)
		}
		after(10 * time.Second)
		if n := len(h.Orders()); n != 3 {
			t.Errorf("%d orders came after the disk had room again, want 3", n)
		}
	})
}

// What did not fit into the window follows as receipts come, without anybody
// asking for anything more.
func TestMoreThanAWindowWaits(t *testing.T) {
	inBubble(t, func(t *testing.T, f *coordtest.Fleet, h *coordtest.Host) {
		h.Silence()
		after(2 * time.Minute)
		const all = 3*stream.Window + 5
		for range all {
			propose(t, f, h)
		}
		h.Reboot()
		after(10 * time.Second)
		if n := len(h.Orders()); n != all {
			t.Errorf("%d orders came, want %d", n, all)
		}
		believed(t, h)
	})
}
