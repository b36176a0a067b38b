package guard

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"
)

// Client speaks with a guard. Its methods may be called from any goroutine.
type Client struct {
	path string
	// start starts a guard where none answers; it returns when one listens.
	start func(ctx context.Context) error

	mu   sync.Mutex
	conn net.Conn
	in   *bufio.Reader
	asks Resort
	seen Shown // when it was tested: nothing is held without it
}

// Resort is what a guard is to have at hand, while something is held, for a kill that fails.
type Resort struct {
	Watchdog string // the path of the device; empty for none
	Reboot   bool   // it restarts the machine
}

// Shown is what a guard has of it.
type Shown struct {
	Watchdog Watchdog
	Reboot   Reboot
}

// NewClient returns a client of the guard at a socket. The guard has at hand what is asked
// for, as far as [SelfTest] has seen it.
func NewClient(path string, asks Resort, start func(ctx context.Context) error) *Client {
	return &Client{path: path, asks: asks, start: start}
}

// Held returns what the guard holds, which a former agent may have told it.
func (c *Client) Held(ctx context.Context) ([]Hold, error) {
	a, err := c.ask(ctx, []byte("\n"))
	return a.Holds, err
}

// Watchdog returns the watchdog as it is now.
func (c *Client) Watchdog(ctx context.Context) (Watchdog, error) {
	a, err := c.ask(ctx, []byte("\n"))
	return a.Watchdog, err
}

// Set replaces what the guard holds. When it returns nil the guard has it, and so has the
// process that follows it; and what was seen at the test is at hand.
func (c *Client) Set(ctx context.Context, all []Hold) error {
	_, err := c.set(ctx, all)
	return err
}

func (c *Client) set(ctx context.Context, all []Hold) (Shown, error) {
	c.mu.Lock()
	t, seen := Table{Holds: all, Watchdog: c.asks.Watchdog, Reboot: c.asks.Reboot}, c.seen
	c.mu.Unlock()
	line, err := json.Marshal(t)
	if err != nil {
		return Shown{}, err
	}
	a, err := c.ask(ctx, append(line, '\n'))
	switch {
	case err != nil:
	case a.Error != "":
		err = fmt.Errorf("the guard refuses the table: %s", a.Error)
	case !a.Follows:
		err = errors.New("the guard has no second process")
	case seen.Watchdog.Armed && len(all) > 0 && !a.Watchdog.Armed:
		err = fmt.Errorf("the watchdog %s is not armed, without which this host holds nothing: %s", t.Watchdog, a.Watchdog.Why())
	case seen.Reboot.Ready && len(all) > 0 && !a.Reboot.Ready:
		err = fmt.Errorf("this host holds nothing, because the guard can no longer restart it: %s", a.Reboot.Why())
	}
	return Shown{a.Watchdog, a.Reboot}, err
}

// judge takes what a test has shown. What was not there is not asked for any more.
func (c *Client) judge(s Shown) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen = s
	if !s.Watchdog.Armed {
		c.asks.Watchdog = ""
	}
	c.asks.Reboot = c.asks.Reboot && s.Reboot.Ready
}

// A guard that ends takes connections until it is gone, and resets them. Then it is asked
// again, at most tries times, after pauses that begin with firstPause and double.
const (
	tries      = 4
	firstPause = 50 * time.Millisecond
)

// ask sends a line and takes the answer. If the guard is gone, another one is started.
func (c *Client) ask(ctx context.Context, line []byte) (a answer, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for try := range tries {
		if errors.Is(err, os.ErrDeadlineExceeded) && try > 1 {
			break // it is there, and says nothing
		}
		if try > 1 { // the first time its connection may be of a guard before it
			select {
			case <-ctx.Done():
				return a, context.Cause(ctx)
			case <-time.After(firstPause << (try - 2)):
			}
		}
		if c.conn == nil {
			if err = c.dial(ctx); err != nil {
				return a, err
			}
		}
		if deadline, ok := ctx.Deadline(); ok {
			_ = c.conn.SetDeadline(deadline)
		} else {
			_ = c.conn.SetDeadline(time.Now().Add(5 * time.Second))
		}
		var got []byte
		if _, err = c.conn.Write(line); err == nil {
			if got, err = c.in.ReadBytes('\n'); err == nil {
				return a, json.Unmarshal(got, &a)
			}
		}
		c.conn.Close()
		c.conn = nil
	}
	return a, fmt.Errorf("the guard does not answer: %w", err)
}

func (c *Client) dial(ctx context.Context) (err error) {
	var d net.Dialer
	if c.conn, err = d.DialContext(ctx, "unix", c.path); err != nil && c.start != nil {
		if err = c.start(ctx); err == nil {
			c.conn, err = d.DialContext(ctx, "unix", c.path)
		}
	}
	if err != nil {
		c.conn = nil
		return fmt.Errorf("no guard: %w", err)
	}
	c.in = bufio.NewReaderSize(c.conn, maxLine)
	return nil
}

// Close ends the connection. The guard goes on.
func (c *Client) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn == nil {
		return nil
	}
	err := c.conn.Close()
	c.conn = nil
	return err
}
