package containers

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/protocol/contract"
)

// proof is how a container that was just started shows that it works.
type proof struct{ *operation }

// well waits until the container is healthy, or has run for a while if it has no check. A
// limit of 0 is none.
func (o proof) well(ctx context.Context, limit time.Duration) error {
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit, fmt.Errorf("it was not healthy within %s", contract.Words(limit)))
		defer cancel()
	}
	check, pid, began := o.rec.Settings.Health, o.seen.InitPID, o.cfg.Loop.Now()
	if check == nil || o.cfg.Probe == nil {
		if err := rest(ctx, settleTime); err != nil {
			return err
		}
		return o.lives(ctx, pid)
	}
	pause := min(firstProbe, check.Every())
	for health := (contract.Health{}); health.State != contract.Healthy; pause = check.Every() {
		if err := rest(ctx, pause); err != nil {
			return err
		}
		if err := o.lives(ctx, pid); err != nil {
			return err
		}
		err := o.probe(ctx, *check)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if errors.Is(err, ErrNotMade) {
			return err
		}
		if health = check.After(health, err == nil, o.cfg.Loop.Now()-began); health.State == contract.Unhealthy {
			return fmt.Errorf("it is unhealthy: %s fails: %w", check, err)
		}
	}
	return nil
}

// probe makes one check.
func (o proof) probe(ctx context.Context, check contract.Check) error {
	ctx, cancel := context.WithTimeout(ctx, check.Timeout())
	defer cancel()
	at := Probed{Runtime: o.runtime, Name: string(o.rec.Name), CTID: o.rec.CTID, Addresses: o.seen.Addresses}
	if p, err := netip.ParsePrefix(o.rec.Address); err == nil { // not what root in it has added
		at.Addresses = []netip.Addr{p.Addr()}
	}
	return o.cfg.Probe(ctx, at, check)
}

// lives tells why the container does not run by the first process that it was started
// with; 0 if that is not known.
func (o proof) lives(ctx context.Context, pid int) error {
	info, err := o.runtime.Inspect(ctx, string(o.rec.Name))
	switch {
	case err != nil:
		return err
	case info.State != container.StateRunning || pid != 0 && info.InitPID != pid:
		return fmt.Errorf("its first process has ended, and the container is %s", info.State)
	}
	o.seen = info
	return nil
}
