package core

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/protocol"
)

// Base is what every room of a coordinator works with. The root makes one for all of
// them; its fields do not change afterwards.
type Base struct {
	Fleet     protocol.FleetID
	FleetName protocol.FleetName
	Store     Store
	Keys      Keys
	Broker    Broker
	// Now is the wall clock, and Boot one that no one can set, in milliseconds.
	Now  func() time.Time
	Boot func() int64
	// Rand is the source of challenges, secrets and ids.
	Rand io.Reader
	Log  *slog.Logger
	// Ctx ends with the process: for work that outlasts its request.
	Ctx context.Context

	Gate Gate
	Wake Hub
	News News

	lives   lives
	written func() // is called after each Update
}

// OnWritten has fn called after each successful Update, on the goroutine that made it. It is
// called once, before the first of them.
func (b *Base) OnWritten(fn func()) { b.written = fn }

// Update runs one step of the crash table in a transaction of its own. Effects
// follow after it has returned nil.
func (b *Base) Update(ctx context.Context, step failpoint.Step, fn func(Tx) error) error {
	err := Update(ctx, b.Store, step, fn)
	if err == nil && b.written != nil {
		b.written()
	}
	return err
}

// View reads one consistent state of the store.
func (b *Base) View(ctx context.Context, fn func(Tx) error) error { return b.Store.View(ctx, fn) }

// NowMS is the date, Unix milliseconds.
func (b *Base) NowMS() int64 { return b.Now().UnixMilli() }

// LifeMS is the clock of what ends by itself.
func (b *Base) LifeMS() int64 { return b.lives.now(b.NowMS(), b.Boot()) }

// MayDecide refuses what must wait until the coordinator has recovered.
func (b *Base) MayDecide() error { return b.Gate.open() }

// Allow refuses what the role of an actor does not cover, and what must wait until the
// coordinator has recovered.
func (b *Base) Allow(by Actor, need TokenRole, what string) error {
	if err := by.May(need, what); err != nil {
		return err
	}
	return b.MayDecide()
}

// Recovery says why the coordinator decides nothing, empty if it does.
func (b *Base) Recovery() string { return b.Gate.Why() }

// NewActionID makes the id of an action that is asked for at a time.
func (b *Base) NewActionID(now int64) protocol.ActionID {
	var r [10]byte
	b.Random(r[:])
	return protocol.NewActionID(now, r)
}

// Nonce draws a challenge.
func (b *Base) Nonce() (n protocol.Nonce) {
	b.Random(n[:])
	return n
}

// Random fills buf. A machine without randomness cannot go on.
func (b *Base) Random(buf []byte) {
	if _, err := io.ReadFull(b.Rand, buf); err != nil {
		panic(fmt.Sprintf("no randomness: %v", err))
	}
}
