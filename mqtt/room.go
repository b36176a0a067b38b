package mqtt

import (
	"context"
	"net"
	"time"
)

const (
	// slowRate is how many bytes pass a slow line in a second at most: on any other,
	// what is hidden is gone within a second.
	slowRate = hidden
	// leastAhead is the least that may be on its way before more is written: it keeps
	// the slowest line busy for 4 s.
	leastAhead = 4 << 10
	// mostAhead is the time that what is on its way may take on any other slow line.
	mostAhead = 2 * time.Second
	// lookAgain bounds how often it is looked at whether there is room.
	lookAgain = 20 * time.Millisecond
)

// onItsWay returns how many bytes were written to a connection and have not reached
// the other side; 0 if the system does not tell.
func onItsWay(conn net.Conn) int {
	for {
		switch c := conn.(type) {
		case interface{ OnItsWay() int }:
			return c.OnItsWay()
		case interface{ NetConn() net.Conn }:
			conn = c.NetConn()
		case *net.TCPConn:
			return queued(c)
		default:
			return 0
		}
	}
}

// makeRoom waits until little is on its way, if the line is slow. The system takes up
// to 64 KiB more than it was told to, which pass such a line in a minute, and whatever
// comes next waits for them: output that a client follows, and in a queue further on
// the lease of the other connection. A line that takes nothing for as long as a write
// may take is dead.
func (l *link) makeRoom() error {
	l.measured.Lock()
	rate := l.measured.gauge.rate()
	l.measured.Unlock()
	if rate >= slowRate {
		return nil
	}
	most := max(leastAhead, int(rate*mostAhead.Seconds()))
	last, moved := onItsWay(l.conn.Conn), time.Since(l.born)
	for n := last; n > most; n = onItsWay(l.conn.Conn) {
		if n < last {
			moved = time.Since(l.born)
		}
		last = n
		if time.Since(l.born)-moved > l.cfg.WriteTimeout {
			return ErrTimeout
		}
		wait := time.Duration(float64(n-most) / max(rate, 1) * float64(time.Second))
		timer := time.NewTimer(min(max(wait, lookAgain), time.Second))
		select {
		case <-timer.C:
		case <-l.ctx.Done():
			timer.Stop()
			if l.orderly() {
				return nil
			}
			return context.Cause(l.ctx)
		}
	}
	return nil
}
