package batch

import (
	"context"
	"errors"
	"time"

	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/protocol"
)

// A line that breaks without a word is noticed by the coordinator after 45 s. Until
// then its host counts as there, and the user sees only that nothing happens. But a
// host acknowledges what it is sent within a second, so who is silent for longer is
// named, and with --no-wait-offline is soon not waited for.

// errLook ends the following for a moment, to look who is silent.
var errLook = errors.New("it is time to look who is silent")

// isSilent reports whether a part was sent to a host that should be there, and that has
// not acknowledged it.
func (p *outcome) isSilent() bool {
	waits := p.act.Waits
	return p.asked && !p.final && p.refused == nil && p.act.State == string(protocol.StatePendingSchedule) && (waits == nil || waits.For == "receipt")
}

// nextLook returns in which time a host has been silent for long enough to be named, or
// to be left; ok is false if there is none.
func (b *batchRun) nextLook() (in time.Duration, ok bool) {
	now := b.Batcher.Now()
	for _, p := range b.outcomes {
		after := b.Batcher.Silent
		switch {
		case !p.isSilent() || p.gone || p.named && !b.m.leaveOffline:
			continue
		case p.named:
			after = b.Batcher.Away
		}
		if left := max(0, after-now.Sub(p.askedAt)); !ok || left < in {
			in, ok = left, true
		}
	}
	return in, ok
}

// untilLook returns a context that ends with [errLook] when it is time to look.
func (b *batchRun) untilLook(ctx context.Context) (context.Context, func()) {
	ctx, end := context.WithCancelCause(ctx)
	in, ok := b.nextLook()
	if !ok {
		return ctx, func() { end(nil) }
	}
	t := time.AfterFunc(in, func() { end(errLook) })
	return ctx, func() { t.Stop(); end(nil) }
}

// look names the hosts that are silent. It reports whether no host is left to be waited for.
func (b *batchRun) look() (left bool) {
	for _, p := range b.outcomes {
		silent := b.Batcher.Now().Sub(p.askedAt)
		if !p.isSilent() || silent < b.Batcher.Silent {
			continue
		}
		p.gone = b.m.leaveOffline && silent >= b.Batcher.Away
		if p.named {
			continue
		}
		p.named = true
		if b.missing++; b.missing <= namedFailures {
			b.screen.say("hostler: %s: has not acknowledged its order for %v; the host may be out of reach", term.Printable(p.Label), b.Batcher.Silent)
		}
	}
	return b.leftAway()
}
