package mqtt

import (
	"context"
	"math/rand/v2"
	"time"
)

// backoff counts failures in a row and says how long to wait after each: a
// duration drawn evenly from zero up to base·2ⁿ, but never above limit. It is
// drawn after the bound is applied ("full jitter"); drawn before, all clients
// that are past the bound would come back at the same moment.
type backoff struct {
	base, limit time.Duration
	failures    int
}

// next returns the wait after one more failure. draw is in [0, 1).
func (b *backoff) next(draw float64) time.Duration {
	bound := b.base
	for range b.failures {
		if bound >= b.limit {
			break
		}
		bound *= 2
	}
	b.failures++
	return time.Duration(draw * float64(min(bound, b.limit)))
}

// reset makes the next failure count as the first.
func (b *backoff) reset() { b.failures = 0 }

// wait sleeps until the next attempt is due; it returns false if ctx ended
// before.
func (b *backoff) wait(ctx context.Context) bool {
	timer := time.NewTimer(b.next(rand.Float64()))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
