package workloads

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/protocol"
)

// maxMaintenance bounds a maintenance with an end: a longer one has none.
const maxMaintenance = 90 * 24 * time.Hour

// maxReason bounds the reason of a person, in bytes.
const maxReason = 200

// SetAvailability decides whether workloads may be placed on a host. lasts is how long a
// maintenance lasts; 0 is until a person ends it.
func (r *Room) SetAvailability(ctx context.Context, by core.Actor, id protocol.HostID, state core.AvailabilityState, reason string, lasts time.Duration) error {
	if err := r.base.Allow(by, core.RoleOperator, "decide about the availability of hosts"); err != nil {
		return err
	}
	switch {
	case len(reason) > maxReason:
		return fmt.Errorf("%w: reason: it has %d bytes; use at most %d", core.ErrInvalid, len(reason), maxReason)
	case lasts != 0 && state != core.Maintenance:
		return fmt.Errorf("%w: for: only maintenance ends by itself", core.ErrInvalid)
	case lasts < 0 || lasts > maxMaintenance:
		return fmt.Errorf("%w: for: %s is out of range; use up to %s, or leave it out and end the maintenance yourself", core.ErrInvalid, lasts, maxMaintenance)
	}
	now := core.Availability{State: state, Reason: reason}
	if state != core.Open {
		now.By, now.SinceMS = by.Name, r.base.NowMS()
	}
	if lasts > 0 {
		now.UntilMS = now.SinceMS + lasts.Milliseconds()
	}
	// What is stored and what is known change in the same order.
	r.deciding.Lock()
	defer r.deciding.Unlock()
	return r.putAvailability(ctx, by, id, now, func(core.Availability) bool { return true })
}

// putAvailability stores a decision about a host, if what it replaces allows it.
func (r *Room) putAvailability(ctx context.Context, by core.Actor, id protocol.HostID, now core.Availability, may func(old core.Availability) bool) error {
	kept := false
	err := r.base.Update(ctx, failpoint.HostDecided, func(tx core.Tx) error {
		kept = false
		h, err := tx.Hosts.Get(id)
		switch {
		case errors.Is(err, core.ErrNotFound):
			return fmt.Errorf("host %q: %w", id, core.ErrUnknownHost)
		case err != nil:
			return err
		case !may(h.Availability):
			return nil
		}
		h.Availability, kept = now, true
		word := string(cmp.Or(now.State, "open"))
		detail := map[string]any{"availability": word, "reason": now.Reason}
		return cmp.Or(tx.Hosts.Put(h), r.base.Audit(tx, by, "host.availability", string(id), detail), r.base.Event(tx, "host.availability", id, string(id), detail))
	})
	if err != nil || !kept {
		return err
	}
	r.mu.Lock()
	index{r}.avail(id, now)
	r.changed = true
	r.mu.Unlock()
	r.base.Wake.Fire(core.EventsKey{})
	return nil
}

// endMaintenance opens the hosts whose maintenance is over.
func (r *Room) endMaintenance(ctx context.Context) (failed error) {
	now := r.base.NowMS()
	over := func(a core.Availability) bool {
		return a.State == core.Maintenance && a.UntilMS != 0 && a.UntilMS <= now
	}
	var ended []protocol.HostID
	r.mu.Lock()
	for id := range r.news.closed {
		if over(r.host(id).availability) {
			ended = append(ended, id)
		}
	}
	r.mu.Unlock()
	for _, id := range ended {
		failed = errors.Join(failed, r.putAvailability(ctx, core.Self(), id, core.Availability{}, over))
	}
	return failed
}
