// Package samples brings what hosts have measured, and that reach no database themselves, to
// the one that the coordinator is configured with. It says whose samples these are by the key
// that has signed them, limits what one host may send, and answers each message: taken, later
// or never.
package samples

import (
	"fmt"
	"sync"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/samples"
)

// Sink brings lines to a database. It is safe for concurrent use, and never waits. Lines
// that it has taken it keeps over the end of the process, within bounds of its own.
type Sink interface {
	// Forward hands over so many lines, which must not be changed afterwards. It reports
	// false if there is no place for them. Otherwise done is called once, by any goroutine:
	// with true when they are durable or will never be taken, with false when they are
	// not, so that the host must keep them.
	Forward(lines []byte, count int, done func(taken bool)) bool
}

// Receipts is where hosts are answered. It is safe for concurrent use, and never waits for
// the store.
type Receipts interface {
	// Credit answers with the next receipt to a host, and SendOwed sends that.
	Credit(host protocol.HostID, cr protocol.Credit)
	SendOwed(host protocol.HostID)
}

// Config is what a Room is made of. All of it is needed.
type Config struct {
	Sink     Sink
	Receipts Receipts
}

// What one host may send, in bytes of text: a host with 1,000 containers has 50 kB a second.
// A message costs perMessage, however small it is.
const (
	perSecond  = 192 << 10
	burst      = 4 << 20
	perMessage = 4 << 10
)

// Counts are what became of messages since the start.
type Counts struct {
	// Taken are those that the sink has taken, with so many lines.
	Taken, Lines uint64
	// Malformed will never be taken. Limited came faster than one host may send, Full when
	// the sink had no place, and Failed were not kept by the disk: the host has them still.
	Malformed, Limited, Full, Failed uint64
}

// Room takes samples. All methods are safe for concurrent use.
type Room struct {
	base *core.Base
	cfg  Config

	mu      sync.Mutex
	budgets map[protocol.HostID]budget
	counts  Counts
}

// New returns a room that has taken nothing yet.
func New(base *core.Base, cfg Config) *Room {
	return &Room{base: base, cfg: cfg, budgets: make(map[protocol.HostID]budget)}
}

// Counts returns what was counted since the start.
func (r *Room) Counts() Counts {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.counts
}

// Take takes a message of a host. The answer to it is a credit, now or when the sink knows.
func (r *Room) Take(host protocol.HostID, m protocol.Message) error {
	if !r.spend(host, perMessage) {
		r.later(host, m, func(c *Counts) { c.Limited++ })
		return nil
	}
	lines, n, err := samples.Unpack(m.Attachment, map[string]string{"fleet": string(r.base.FleetName), "host": string(host)})
	if err != nil {
		r.answer(host, m, 0, 0, func(c *Counts) { c.Malformed++ })
		return fmt.Errorf("%w: %w", protocol.ErrPayload, err)
	}
	if !r.spend(host, int64(len(lines))) {
		r.later(host, m, func(c *Counts) { c.Limited++ })
		return nil
	}
	done := func(taken bool) {
		if taken {
			r.answer(host, m, m.Header.Size, 0, func(c *Counts) { c.Taken++; c.Lines += uint64(n) })
		} else {
			r.later(host, m, func(c *Counts) { c.Failed++ })
		}
		r.cfg.Receipts.SendOwed(host)
	}
	if !r.cfg.Sink.Forward(lines, n, done) {
		r.later(host, m, func(c *Counts) { c.Full++ })
	}
	return nil
}

// later answers that a message is to be sent again.
func (r *Room) later(host protocol.HostID, m protocol.Message, count func(*Counts)) {
	r.answer(host, m, 0, max(m.Header.Size, 1), count)
}

func (r *Room) answer(host protocol.HostID, m protocol.Message, taken, again int64, count func(*Counts)) {
	r.mu.Lock()
	count(&r.counts)
	r.mu.Unlock()
	r.cfg.Receipts.Credit(host, protocol.Credit{Action: m.Header.Action, Attempt: m.Header.Attempt, FD: protocol.Samples, Offset: taken, Window: again})
}

// budget is what a host may send still, as of a time of the boot clock.
type budget struct{ left, atMS int64 }

// spend takes so many bytes from the budget of a host. It reports false, and takes none, if
// there are fewer.
func (r *Room) spend(host protocol.HostID, n int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.base.Boot()
	b, known := r.budgets[host]
	if !known {
		b = budget{burst, now}
	}
	b = budget{min(b.left+(now-b.atMS)*perSecond/1000, burst), now}
	enough := b.left >= n
	if enough {
		b.left -= n
	}
	r.budgets[host] = b
	return enough
}
