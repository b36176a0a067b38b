package conn

import (
	"context"
	"errors"
	"time"

	"github.com/hostler-io/hostler/client"
	"github.com/hostler-io/hostler/internal/cli/term"
)

const (
	// patience is how long no answer may come before waiting is given up. What
	// was asked for goes on meanwhile, so this is about the user's time alone.
	patience = 2 * time.Minute
	// FirstRetry and lastRetry bound the pauses between tries, which double.
	FirstRetry = 100 * time.Millisecond
	// LastRetry is the longest pause.
	LastRetry = 3 * time.Second
)

// Retry pauses between tries, for longer each time.
type Retry struct {
	next  time.Duration
	Since time.Time // when the tries began to fail
}

// Wait pauses before another try at time now. It returns the error when
// patience is at its end, or there is no point in trying again.
func (r *Retry) Wait(ctx context.Context, now time.Time, err error) error {
	if ctx.Err() != nil {
		return term.ErrInterrupted
	}
	if !errors.Is(err, client.ErrUnreachable) || Untrusted(err) {
		return err
	}
	if r.Since.IsZero() {
		r.Since, r.next = now, FirstRetry
	}
	if now.Sub(r.Since) > patience {
		return err
	}
	d := r.next
	r.next = min(2*r.next, LastRetry)
	return term.Pause(ctx, d)
}
