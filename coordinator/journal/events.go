package journal

import (
	"context"

	"github.com/hostler-io/hostler/coordinator/core"
)

// Events returns up to limit events after an id.
func (r *Room) Events(ctx context.Context, after uint64, limit int) ([]core.Event, error) {
	return core.Read(ctx, r.base, func(tx core.Tx) ([]core.Event, error) { return tx.Events.List(after, limit) })
}

// LastEvent returns the newest event id.
func (r *Room) LastEvent(ctx context.Context) (uint64, error) {
	return core.Read(ctx, r.base, func(tx core.Tx) (uint64, error) { return tx.Events.Last() })
}

// EventsChanged returns a channel that is closed when there are new events,
// and a function to call when it is not read any more.
func (r *Room) EventsChanged() (<-chan struct{}, func()) {
	return r.base.Wake.On(core.EventsKey{})
}

// Events are for those who watch. Who was away for longer lists anew; what was
// done is in the audit log, which is kept.
const (
	keptEvents = 100_000
	trimStep   = 10_000 // in one transaction, so that no other waits for long
)

// TrimEvents forgets the oldest events beyond keptEvents.
func (r *Room) TrimEvents(ctx context.Context) error {
	var upTo uint64
	err := r.base.View(ctx, func(tx core.Tx) error {
		upTo = 0
		newest, err := tx.Events.Last()
		if err != nil || newest <= keptEvents {
			return err
		}
		oldest, err := tx.Events.List(0, 1)
		if err == nil && len(oldest) > 0 && oldest[0].ID <= newest-keptEvents {
			upTo = min(newest-keptEvents, oldest[0].ID+trimStep-1)
		}
		return err
	})
	if err != nil || upTo == 0 {
		return err
	}
	return r.base.Store.Update(ctx, func(tx core.Tx) error { return tx.Events.Trim(upTo) })
}
