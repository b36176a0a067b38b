// Package faults makes the faults of drills: an [Outage] of connections, and a process that
// stops and is woken. Each fault ends by itself.
package faults

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/hostler-io/hostler/internal/clock"
)

// Outage is a partition: until its end there is no connection, and none is made. It is in
// memory alone, so it ends with the process too. The zero value is ready, and its methods
// may be called from any goroutine.
type Outage struct {
	mu    sync.Mutex
	until int64 // boot clock, in milliseconds
	conns map[net.Conn]struct{}
}

// Begin closes every connection, and has none made until the boot clock reads until, in milliseconds.
func (o *Outage) Begin(_ context.Context, until int64) error {
	o.mu.Lock()
	all := o.conns
	o.until, o.conns = until, nil
	o.mu.Unlock()
	for c := range all {
		_ = c.Close() // what it has not sent is lost, as in any partition
	}
	return nil
}

// left is how long the outage lasts.
func (o *Outage) left() time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	return time.Duration(o.until-clock.BootMS()) * time.Millisecond
}

// Err says that there is an outage; nil if there is none.
func (o *Outage) Err() error {
	if left := o.left(); left > 0 {
		return fmt.Errorf("a drill cuts this host off from its coordinator; it ends by itself in %s", left.Round(time.Second))
	}
	return nil
}

// Dialer has connections made outside of an outage, and closed when one begins. During
// one it waits for the end, or for that of its context.
func (o *Outage) Dialer(dial func(context.Context, string) (net.Conn, error)) func(context.Context, string) (net.Conn, error) {
	return func(ctx context.Context, address string) (net.Conn, error) {
		if err := o.await(ctx); err != nil {
			return nil, err
		}
		conn, err := dial(ctx, address)
		if err != nil {
			return nil, err
		}
		return o.hold(conn)
	}
}

func (o *Outage) await(ctx context.Context) error {
	left := o.left()
	if left <= 0 {
		return nil
	}
	over, stop, err := clock.After(left)
	if err != nil {
		return err
	}
	defer stop()
	select {
	case <-over:
		return nil
	case <-ctx.Done():
		if err := o.Err(); err != nil {
			return err
		}
		return context.Cause(ctx)
	}
}

// hold remembers a connection until it is closed, unless an outage has begun meanwhile.
func (o *Outage) hold(conn net.Conn) (net.Conn, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.until > clock.BootMS() {
		_ = conn.Close() // nothing was said on it
		return nil, fmt.Errorf("a drill has begun that cuts this host off from its coordinator")
	}
	if o.conns == nil {
		o.conns = make(map[net.Conn]struct{})
	}
	o.conns[conn] = struct{}{}
	return &heldConn{Conn: conn, outage: o}, nil
}

// heldConn is a connection that an outage closes.
type heldConn struct {
	net.Conn
	outage *Outage
}

// NetConn is what it stands before.
func (c *heldConn) NetConn() net.Conn { return c.Conn }

func (c *heldConn) Close() error {
	c.outage.mu.Lock()
	delete(c.outage.conns, c.Conn)
	c.outage.mu.Unlock()
	return c.Conn.Close()
}
