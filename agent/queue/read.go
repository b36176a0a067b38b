package queue

import (
	"context"

	"github.com/hostler-io/hostler/protocol"
)

// Action returns one action, or [ErrUnknown].
func (q *Queue) Action(ctx context.Context, id protocol.ActionID) (Action, error) {
	return Action{}, ErrUnknown
}

// Actions returns up to limit actions, newest first, accepted before the one of
// the given accept_seq; 0 starts with the newest.
func (q *Queue) Actions(ctx context.Context, before uint64, limit int) ([]Action, error) {
	return nil, nil
}
