package batch

import (
	"context"
	"time"

	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/dispatch"
	"github.com/hostler-io/hostler/internal/cli/show"
)

// Wave does something in some of many places, and waits for the end of all. A host that
// goes away meanwhile has patience to come back; then it is left, and told as an error.
// verb is what completes "cannot …".
func (a *Batcher) Wave(ctx context.Context, r *conn.Remote, v *show.View, verb string, patience time.Duration, targets []dispatch.Target) error {
	d := *a.Dispatcher
	d.Away = patience
	return New(&d, a.files).DoMany(ctx, r, &many{View: v, Verb: verb, leaveOffline: true}, targets)
}

// Turns asks many hosts for something and waits for none. The coordinator lets so many
// at once begin as their hosts come, and ends the rest when one fails.
func (a *Batcher) Turns(ctx context.Context, r *conn.Remote, v *show.View, verb string, atOnce int, targets []dispatch.Target) error {
	return a.DoMany(ctx, r, &many{View: v, Verb: verb, NoWait: true, atOnce: min(atOnce, hostsAtOnce)}, targets)
}
