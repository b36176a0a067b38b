package core

import (
	"context"
	"sync/atomic"
)

// Watch returns a store that also tells which hosts its Updates have put, so that what is known
// of ten thousand hosts need not be read again for each look at all of them. told is called
// when an Update has returned, on its goroutine, and for several Updates at the same time. Of two
// puts of a host the one with the higher number is newer, for Updates run one after the other.
// sure is false if the Update has failed at its commit: the store may have the host, or not.
func Watch(s Store, told func(n uint64, h Host, sure bool)) Store {
	return &watched{Store: s, told: told}
}

type watched struct {
	Store
	told func(n uint64, h Host, sure bool)
	puts atomic.Uint64
}

// putHost is a host that an Update has put.
type putHost struct {
	n    uint64
	host Host
}

// Update implements [Store].
func (w *watched) Update(ctx context.Context, fn func(Tx) error) error {
	var put []putHost
	var refused error
	err := w.Store.Update(ctx, func(tx Tx) error {
		put = nil // fn may run again
		tx.Hosts = watchedHosts{tx.Hosts, w, &put}
		refused = fn(tx)
		return refused
	})
	if refused == nil {
		for _, p := range put {
			w.told(p.n, p.host, err == nil)
		}
	}
	return err
}

// watchedHosts notes what is put.
type watchedHosts struct {
	Hosts
	of  *watched
	put *[]putHost
}

// Put implements [Hosts].
func (t watchedHosts) Put(h Host) error {
	err := t.Hosts.Put(h)
	if err == nil {
		*t.put = append(*t.put, putHost{t.of.puts.Add(1), h})
	}
	return err
}
