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
)

// dialer makes connections to a coordinator, and waits for one that is briefly away.
type dialer struct {
	net.Dialer
	patience time.Duration
	away     func(error)

	mu    sync.Mutex
	since time.Time // when it refused first, and was not reached since; zero is never
	told  bool      // that it is away
}

func (d *dialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	for pause := firstDial; ; pause = min(2*pause, lastDial) {
		conn, err := d.DialContext(ctx, network, address)
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
