package client

import (
	"context"
	"errors"
	"net"
	"sync"
	"syscall"
	"time"
)

// Pauses between tries to reach a coordinator that refuses connections.
const (
	firstDial = 50 * time.Millisecond
	lastDial  = time.Second
	// sayAway is after how long it is said that the server does not answer.
	sayAway = 2500 * time.Millisecond
	// connectTime bounds the first try to connect; each further one has twice the time,
	// for a line on which an answer takes long. Where packets are lost, the kernel
	// repeats the first one after 1, 3, 7, 15 and 31 s: a network that is back is found
	// sooner by beginning again.
	connectTime = 4 * time.Second
	// handshakeTime bounds the handshake of TLS on a connection.
	handshakeTime = 10 * time.Second
)

// Pings on a connection that carries requests. A network that swallows packets ends
// no connection, and a stream of events has nothing to send that would find out. A
// connection is given up after pingAfter without a byte and pingTime without the
// answer to a ping, which also waits behind what a slow line still has to carry.
const (
	pingAfter = 10 * time.Second
	pingTime  = 15 * time.Second
)

// dialer makes connections to a coordinator, and waits for one that is briefly away.
type dialer struct {
	connect  func(ctx context.Context, network, address string) (net.Conn, error)
	patience time.Duration // with a coordinator that refuses connections
	bound    time.Duration // until a coordinator that does not answer is given up
	away     func(error)

	mu    sync.Mutex
	since time.Time // when it refused first, and was not reached since; zero is never
	told  bool      // that it is away
}

func (d *dialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	pause, patient, silent := firstDial, connectTime, time.Duration(0)
	for ; ; pause = min(2*pause, lastDial) {
		try, end := context.WithTimeout(ctx, min(patient, d.bound-silent))
		conn, err := d.connect(try, network, address)
		ran := err != nil && try.Err() != nil && ctx.Err() == nil
		end()
		if ran {
			if silent += patient; silent >= d.bound {
				return nil, err
			}
			patient *= 2
			continue
		}
		if !d.again(err) {
			return conn, err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, err
		}
	}
}

// again reports whether to try again after an error. It tells once that no server is
// there, until one is.
func (d *dialer) again(err error) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !errors.Is(err, syscall.ECONNREFUSED) {
		if err == nil {
			d.since, d.told = time.Time{}, false
		}
		return false
	}
	if d.since.IsZero() {
		d.since = time.Now()
	}
	gone := time.Since(d.since)
	if gone >= sayAway && !d.told && d.away != nil {
		d.told = true
		d.away(err)
	}
	return gone < d.patience
}
