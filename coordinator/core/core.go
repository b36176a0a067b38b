// Package core is what all rooms of the coordinator build on: its memory across
// restarts ([Store] and the records in it), who asks ([Actor]), the clocks, and the
// wake-ups. It decides nothing and imports none of the rooms.
package core

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/protocol"
)

// PageSize is how many records one query of a walk over a table returns.
const PageSize = 500

// Update runs one step of the crash table in a transaction of its own. Effects
// follow after it has returned nil.
func Update(ctx context.Context, store Store, step failpoint.Step, fn func(Tx) error) error {
	failpoint.Before(step)
	err := store.Update(ctx, fn)
	if err == nil {
		failpoint.After(step)
	}
	return err
}

// Read returns what fn reads of one consistent state of the store.
func Read[T any](ctx context.Context, b *Base, fn func(Tx) (T, error)) (v T, err error) {
	err = b.View(ctx, func(tx Tx) (err error) {
		v, err = fn(tx)
		return err
	})
	return v, err
}

// SignMessage encodes a message and signs the bytes that are sent.
func SignMessage(s protocol.Signer, body any) ([]byte, error) {
	b, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	return protocol.Seal(s, b, nil)
}

// StreamOf is where the actions of a kind travel: those that preempt pass
// the orders that wait as controls.
func StreamOf(k protocol.Kind) protocol.Stream {
	if info, _ := protocol.KindOf(k); info.Lane == protocol.LanePreempt {
		return protocol.StreamControl
	}
	return protocol.StreamOrder
}
