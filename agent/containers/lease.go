package containers

import (
	"context"
	"fmt"
	"time"

	"github.com/hostler-io/hostler/agent/loop"
	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/protocol/contract"
)

// Leases are what lets unique containers run. All methods may be called from any
// goroutine.
type Leases interface {
	// Granted returns the epoch under which the newest grant names a container, or why
	// none that is still good does.
	Granted(id protocol.CTID) (protocol.Epoch, string)
	// Await asks for a lease at once, and waits until a grant names the container. The
	// error says why none does.
	Await(ctx context.Context, id protocol.CTID) (protocol.Epoch, error)
	// Hold has a container killed when its lease ends, by what outlives this process,
	// too, and returns when that is, by the boot clock in milliseconds. It is called before
	// the container is started, and again when it runs. An error tells that nothing would
	// kill it.
	Hold(ctx context.Context, id protocol.CTID, e protocol.Epoch, group string, keeps bool) (until int64, err error)
	// Release tells that nothing of a container runs.
	Release(id protocol.CTID)
}

// leasePatience is how long a start waits for its grant: longer than a coordinator that has
// just begun renews leases and grants nothing new.
const leasePatience = 3 * time.Minute

// leased says why no lease lets a unique container run, which is up or not; empty if one
// does. A host never runs an epoch that is lower than one it has stored: its disk may be
// older than the lease.
func leased(c *queue.Container, by Leases, up bool) string {
	if by == nil {
		return "a unique container needs a lease of a coordinator, and this host has none"
	}
	e, why := by.Granted(c.CTID)
	switch order := e.Compare(c.Epoch); {
	case why != "":
		return why
	case order < 0:
		return fmt.Sprintf("the coordinator grants epoch %s, and this host has stored epoch %s: the coordinator is older", e, c.Epoch)
	case order > 0 && up:
		return fmt.Sprintf("it runs under epoch %s, and epoch %s has begun", c.Epoch, e)
	}
	return ""
}

// lease waits until a grant names a unique container that is about to be started, makes
// its epoch durable, and has it killed when the lease ends.
func (o *operation) lease(ctx context.Context) error {
	if o.rec.Class != contract.Unique {
		return nil
	}
	if o.cfg.Leases == nil {
		return fmt.Errorf("%w: %s", errHeld, leased(&o.rec, nil, false))
	}
	limited, cancel := context.WithTimeout(ctx, leasePatience)
	defer cancel()
	e, err := o.cfg.Leases.Await(limited, o.rec.CTID)
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", errHeld, err)
	case e.Compare(o.rec.Epoch) < 0:
		return fmt.Errorf("%w: %s", errHeld, leased(&o.rec, o.cfg.Leases, false))
	case e != o.rec.Epoch:
		rec := o.rec
		rec.Epoch = e
		if _, err := loop.Ask(ctx, o.cfg.Loop, func() (struct{}, error) {
			return struct{}{}, o.cfg.Apply(keep(rec))
		}); err != nil {
			return err
		}
		o.rec.Epoch = e
	}
	holder, can := o.runtime.(container.Holder)
	if !can {
		return fmt.Errorf("%w: containers of %s cannot be unique; make it with another runtime", container.ErrUnsupported, o.rec.Runtime)
	}
	if o.group, err = holder.Group(ctx, string(o.rec.Name)); err != nil {
		return err
	}
	if o.until, err = o.cfg.Leases.Hold(ctx, o.rec.CTID, e, o.group, o.rec.Offline == contract.Keep); err != nil {
		return fmt.Errorf("%w: %w", errHeld, err)
	}
	return nil
}

// holdAsItRuns has a unique container that was started killed by the control group that it
// is in: the runtime gives it another one than it has said if that name is taken.
func (o *operation) holdAsItRuns(ctx context.Context) error {
	if o.rec.Class != contract.Unique || o.cfg.Group == nil {
		return nil
	}
	group, err := o.cfg.Group(o.seen.InitPID)
	if err != nil || group == o.group {
		return err
	}
	_, err = o.cfg.Leases.Hold(ctx, o.rec.CTID, o.rec.Epoch, group, o.rec.Offline == contract.Keep)
	return err
}

// holding has unique containers that run killed at the end of their lease.
type holding struct{ *Containers }

// follow has killed at the end of its lease what runs, whatever has started it, and
// releases what does not. What is left of one whose first process has ended is held already.
func (c holding) follow(m *managed) {
	ended := m.info.State == container.StateStopping && m.life != nil && m.life.dead
	if m.rec.Class != contract.Unique || c.cfg.Leases == nil || ended {
		return
	}
	if m.info.State == container.StateStopped {
		c.cfg.Leases.Release(m.rec.CTID)
		return
	}
	id, e, keeps, init := m.rec.CTID, m.rec.Epoch, m.rec.Offline == contract.Keep, m.info.InitPID
	c.cfg.Loop.Beside(func(ctx context.Context) func() {
		group, err := c.cfg.Group(init)
		if err == nil {
			_, err = c.cfg.Leases.Hold(ctx, id, e, group, keeps)
		}
		return func() {
			if err != nil {
				c.cfg.Log.Error("nothing would kill a unique container at the end of its lease", "container", id.String(), "error", err)
			}
		}
	})
}
