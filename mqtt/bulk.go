package mqtt

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// Bulk is a second connection that exists only while there is something to
// carry. Its methods may be called from any goroutine and wait, so they are for
// senders of chunks and not for anything that keeps a promise about time.
type Bulk struct {
	cfg      Config
	clientID string

	// wanted holds a token while someone waits for a connection.
	wanted chan struct{}

	mu      sync.Mutex
	link    *link         // nil while there is none
	conn    uint64        // number of the newest
	users   int           // calls that hold link
	waiting int           // calls that wait for one
	changed chan struct{} // closed and replaced when link changes
}

// NewBulk returns a Bulk that is not connected. It presents itself to the broker
// as cfg.ClientID with [BulkSuffix].
func NewBulk(cfg Config) (*Bulk, error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("mqtt bulk client: %w", err)
	}
	cfg.MaxPublish = cmp.Or(cfg.MaxPublish, 544<<10)
	cfg.MaxReceive = cmp.Or(cfg.MaxReceive, 544<<10)
	cfg.SendQueue = cmp.Or(cfg.SendQueue, 1)
	cfg.direct = true
	// On a slow line a chunk takes minutes, and the system holds another: neither
	// is a ping that comes back late a dead line, nor is a broker to miss one in
	// the middle of a chunk. A dead line shows by its writes, or is idle; a slow
	// one whose queue has just filled stands still while TCP learns about it.
	cfg.WriteTimeout = cmp.Or(cfg.WriteTimeout, 2*time.Minute)
	cfg.KeepAlive = cmp.Or(cfg.KeepAlive, 10*time.Minute)
	cfg.PingTimeout = cmp.Or(cfg.PingTimeout, 5*time.Minute)
	return &Bulk{
		cfg:      cfg.withDefaults(),
		clientID: cfg.ClientID + BulkSuffix,
		wanted:   make(chan struct{}, 1),
		changed:  make(chan struct{}),
	}, nil
}

// Run connects when there is demand, with s as the wish for each connection, and
// hangs up after Config.Idle without a message in either direction, until ctx
// ends; it returns the cause of that. A bulk connection has no will: its end
// means nothing. When Run returns, nothing is left running.
func (b *Bulk) Run(ctx context.Context, s Opening) error {
	if s.WillTopic != "" {
		return fmt.Errorf("mqtt bulk client: a will on %q", s.WillTopic)
	}
	pace := newPacer(&b.cfg)
	for {
		select {
		case <-b.wanted:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		l, err := dial(ctx, &b.cfg, b.clientID, pace.address(), s)
		if err == nil {
			up := time.Now()
			err = b.carry(ctx, l)
			pace.ended(time.Since(up), false)
		} else {
			pace.failed()
		}
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err == errIdle:
			continue
		}
		b.cfg.Logger.Warn("bulk connection failed", slog.Any("error", err))
		if !pace.backoff.wait(ctx) {
			return context.Cause(ctx)
		}
		b.renew()
	}
}

// carry offers l to senders until it ends or was idle.
func (b *Bulk) carry(ctx context.Context, l *link) error {
	b.set(l)
	defer b.set(nil)
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { b.watchIdle(l, done) })
	defer wg.Wait()
	defer close(done)
	return l.serve(ctx)
}

// watchIdle ends l when nothing moved for Config.Idle.
func (b *Bulk) watchIdle(l *link, done <-chan struct{}) {
	timer := time.NewTimer(b.cfg.Idle)
	defer timer.Stop()
	for {
		select {
		case <-done:
			return
		case <-timer.C:
		}
		if b.retire(l) {
			l.end(errIdle)
			return
		}
		timer.Reset(max(b.cfg.Idle-l.idle(), time.Millisecond))
	}
}

// retire withdraws l from senders if nothing moved for long enough and nobody is
// about to use it.
func (b *Bulk) retire(l *link) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.users > 0 || l.unsent.Load() > 0 || l.idle() < b.cfg.Idle {
		return false
	}
	b.replace(nil)
	return true
}

func (b *Bulk) set(l *link) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.replace(l)
	if l != nil { // everyone who asked until now has been answered
		b.conn++
		select {
		case <-b.wanted:
		default:
		}
	}
}

// replace is called with mu held.
func (b *Bulk) replace(l *link) {
	if b.link == l {
		return
	}
	b.link = l
	close(b.changed)
	b.changed = make(chan struct{})
}

// want asks Run for a connection.
func (b *Bulk) want() {
	select {
	case b.wanted <- struct{}{}:
	default:
	}
}

// renew asks again for those who still wait after a failure.
func (b *Bulk) renew() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waiting > 0 {
		b.want()
	}
}

// acquire returns the current connection, asking for one and waiting until ctx
// ends if there is none. release must follow.
func (b *Bulk) acquire(ctx context.Context) (*link, error) {
	for {
		b.mu.Lock()
		if b.link != nil && b.link.ctx.Err() == nil {
			b.users++
			defer b.mu.Unlock()
			return b.link, nil
		}
		changed := b.changed
		b.waiting++
		b.mu.Unlock()
		b.want()
		select {
		case <-changed:
		case <-ctx.Done():
		}
		b.mu.Lock()
		b.waiting--
		b.mu.Unlock()
		if ctx.Err() != nil {
			return nil, fmt.Errorf("waiting for the bulk connection: %w", context.Cause(ctx))
		}
	}
}

func (b *Bulk) release() {
	b.mu.Lock()
	b.users--
	b.mu.Unlock()
}

// Connect waits until there is a connection, so that messages for its filters
// can arrive. It counts as traffic.
func (b *Bulk) Connect(ctx context.Context) error {
	l, err := b.acquire(ctx)
	if err != nil {
		return err
	}
	l.touch()
	b.release()
	return nil
}

// Pace waits for a connection and tells how it does: its number, from 1 (what
// was handed to an earlier one and has not arrived is lost); how many bytes pass
// in a second, as far as its writes have shown, so that senders can cut messages
// that take no longer; and how long what was handed over by now may be on its
// way, if each message took a second.
func (b *Bulk) Pace(ctx context.Context) (conn uint64, second int, delay time.Duration, err error) {
	l, err := b.acquire(ctx)
	if err != nil {
		return 0, 0, 0, err
	}
	b.mu.Lock()
	conn = b.conn
	b.users--
	b.mu.Unlock()
	second, delay = l.pace()
	return conn, second, delay, nil
}

// Publish hands a message to the connection, waiting for one and for room in its
// queue until ctx ends. nil does not mean that the broker has the message. The
// payload must not be changed afterwards.
func (b *Bulk) Publish(ctx context.Context, topic string, payload []byte) error {
	return b.publish(ctx, message{topic: topic, payload: payload})
}

// Lend is Publish of a payload that is used again: back is called, from any
// goroutine, when it may be changed. That is not promised when Lend fails, nor when
// the connection ends before its turn.
func (b *Bulk) Lend(ctx context.Context, topic string, payload []byte, back func()) error {
	return b.publish(ctx, message{topic: topic, payload: payload, back: back})
}

func (b *Bulk) publish(ctx context.Context, m message) error {
	for {
		l, err := b.acquire(ctx)
		if err != nil {
			return err
		}
		err = l.publish(ctx, m)
		b.release()
		if err == ErrOffline { // ended under us: the next one will do
			continue
		}
		return err
	}
}
