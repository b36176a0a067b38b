package mqtt

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// Client keeps one connection to the broker while Run runs. Its methods may be
// called from any goroutine.
type Client struct {
	cfg     Config
	current atomic.Pointer[link]
	spread  atomic.Int64 // ns; see Spread
}

// Spread says over which time the clients of this broker come back together when it
// closes their connections, as a broker does that ends: the wait before the first attempt
// is drawn evenly from it. 0, as in the beginning, waits up to Config.BackoffBase. A line
// that breaks is another matter, and is dialled again at once.
func (c *Client) Spread(window time.Duration) { c.spread.Store(int64(max(window, 0))) }

// New returns a Client that is not yet connected.
func New(cfg Config) (*Client, error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("mqtt client: %w", err)
	}
	return &Client{cfg: cfg.withDefaults()}, nil
}

// Run connects, and connects again whenever the connection is gone, until ctx
// ends; it returns the cause of that, or the error of open. It calls open before
// each attempt with the number of that attempt in this process, from 1: an
// attempt whose outcome we never learnt may have left its will with the broker,
// so the next one must have a newer will. When Run returns, nothing is left
// running. Only one Run may be active.
func (c *Client) Run(ctx context.Context, open func(conn uint64) (Opening, error)) error {
	pace := newPacer(&c.cfg)
	pace.spread = &c.spread
	for conn := uint64(1); ; conn++ {
		session, err := open(conn)
		if err != nil {
			return fmt.Errorf("preparing connection %d: %w", conn, err)
		}
		l, err := dial(ctx, &c.cfg, c.cfg.ClientID, pace.address(), session)
		if err == nil {
			c.cfg.Logger.Info("connected to broker", slog.Uint64("conn", conn))
			up := time.Now()
			c.current.Store(l)
			err = l.serve(ctx)
			c.current.Store(nil)
			pace.ended(time.Since(up), l.conn.closed.Load())
		} else {
			pace.failed()
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		c.cfg.Logger.Warn("broker connection failed", slog.Uint64("conn", conn), slog.Any("error", err))
		if !pace.backoff.wait(ctx) {
			return context.Cause(ctx)
		}
	}
}

// Publish hands a message to the current connection, waiting for room in its
// queue until ctx ends. It returns ErrOffline when there is no connection, or
// none any more, and ErrTooLarge for a payload above Config.MaxPublish. nil does
// not mean that the broker has the message. The payload must not be changed
// afterwards. Retained messages go at QoS 1, all others at QoS 0.
func (c *Client) Publish(ctx context.Context, topic string, payload []byte, retained bool) error {
	l := c.current.Load()
	if l == nil {
		return ErrOffline
	}
	return l.publish(ctx, message{topic: topic, payload: payload, retained: retained})
}

// pacer picks the address and the wait of the next attempt.
type pacer struct {
	cfg     *Config
	backoff backoff
	index   int
	spread  *atomic.Int64 // nil: none
}

func newPacer(cfg *Config) *pacer {
	return &pacer{cfg: cfg, backoff: backoff{base: cfg.BackoffBase, limit: cfg.BackoffCap}}
}

func (p *pacer) address() string {
	return p.cfg.Addresses[p.index%len(p.cfg.Addresses)]
}

// failed notes an attempt that led to nothing: the next address is due.
func (p *pacer) failed() { p.index++ }

// ended notes a connection that had been up for the given time. closed tells that the
// broker has closed it, perhaps together with those of many others.
func (p *pacer) ended(up time.Duration, closed bool) {
	if up >= p.cfg.StableAfter {
		p.backoff.reset()
	}
	if closed && p.spread != nil {
		p.backoff.window = time.Duration(p.spread.Load())
	}
}

// backoff counts failures in a row and says how long to wait after each: a
// duration drawn evenly from zero up to base·2ⁿ, but never above limit. It is
// drawn after the bound is applied ("full jitter"); drawn before, all clients
// that are past the bound would come back at the same moment.
type backoff struct {
	base, limit time.Duration
	failures    int
	window      time.Duration // of the next wait, in place of base; 0 is none
}

// next returns the wait after one more failure. draw is in [0, 1).
func (b *backoff) next(draw float64) time.Duration {
	if w := b.window; w > 0 {
		b.window = 0
		b.failures++
		return time.Duration(draw * float64(w))
	}
	bound := b.base
	for range b.failures {
		if bound >= b.limit {
			break
		}
		bound *= 2
	}
	b.failures++
	return time.Duration(draw * float64(min(bound, b.limit)))
}

// reset makes the next failure count as the first.
func (b *backoff) reset() { b.failures = 0 }

// wait sleeps until the next attempt is due; it returns false if ctx ended
// before.
func (b *backoff) wait(ctx context.Context) bool {
	timer := time.NewTimer(b.next(rand.Float64()))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
