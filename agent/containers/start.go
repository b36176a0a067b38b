package containers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hostler-io/hostler/agent/queue"
	"github.com/hostler-io/hostler/protocol/contract"
)

// classPinned is the class of a container whose order names no class.
const classPinned = "pinned"

// errHeld is that a container must not run now, though its user wants it to.
var errHeld = errors.New("it must not run now")

// mayRun is asked on every path that starts a container, with the time for which the host
// is cut off. It returns why the container must not run; empty if it may.
func mayRun(c *queue.Container, by Leases, away time.Duration) (why string) {
	return workload(c, by, false).MayStart(away)
}

// workload is a container as its contract sees it. up tells that it runs.
func workload(c *queue.Container, by Leases, up bool) contract.Workload {
	w := contract.Workload{Name: string(c.Name), Intended: c.Intended, Class: c.Class, Broken: c.Broken, Offline: c.Offline, Up: up}
	if c.Class == contract.Unique {
		w.Lease = leased(c, by, up)
	}
	return w
}

// start is the one way in which a container is started.
func (o *operation) start(ctx context.Context) (err error) {
	if err := o.lease(ctx); err != nil {
		return err
	}
	if why := mayRun(&o.rec, o.cfg.Leases, o.contact.Away()); why != "" {
		return fmt.Errorf("%w: %s", errHeld, why)
	}
	if err := (mounted{o}).own(ctx); err != nil {
		return err
	}
	if err := o.prepared(ctx); err != nil {
		return err
	}
	o.contact.starting.Store(string(o.rec.Name), nil)
	o.seen, err = o.startLimited(ctx)
	o.contact.starting.Delete(string(o.rec.Name))
	if err != nil {
		return err
	}
	if err := o.holdAsItRuns(ctx); err != nil {
		return fmt.Errorf("it runs, and nothing would kill it at the end of its lease: %w", err)
	}
	if err := o.limited(o.seen.InitPID); err != nil {
		return fmt.Errorf("it runs, and its limits are not in force: %w", err)
	}
	return nil
}

// startNow starts a container, which is to run from now on.
func (o *operation) startNow(ctx context.Context) (queue.Change, error) {
	return queue.Change{}, o.start(ctx)
}

// restart stops a container and starts it again. It is to run from now on, so an
// attempt that was cut short between the two leaves nothing stopped.
func (o *operation) restart(ctx context.Context) (c queue.Change, err error) {
	if c, err = o.stop(ctx); err != nil {
		return c, err
	}
	return c, o.start(ctx)
}
