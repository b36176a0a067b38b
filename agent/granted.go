package agent

import (
	"context"

	"github.com/hostler-io/hostler/agent/containers"
	"github.com/hostler-io/hostler/agent/loop"
)

// granted tells that a grant has changed what unique containers may do. It has one place.
type granted chan struct{}

// tell is called by the lease, which waits for no loop.
func (g granted) tell() {
	select {
	case g <- struct{}{}:
	default:
	}
}

// follow has containers corrected by each new grant until ctx ends.
func (g granted) follow(ctx context.Context, l *loop.Loop, c *containers.Containers) error {
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-g:
			l.Tell(c.Settled)
		}
	}
}
