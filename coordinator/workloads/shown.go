package workloads

import (
	"context"
	"maps"

	"github.com/hostler-io/hostler/coordinator/core"
	"github.com/hostler-io/hostler/internal/failpoint"
	"github.com/hostler-io/hostler/protocol"
	"github.com/hostler-io/hostler/unique"
)

// shown is what a host has shown of itself, by which the end of its lease is judged. It is
// stored, because a host may be lost while the coordinator is restarted.
type shown struct {
	Fence    unique.SelfFence `json:"fence,omitempty"`
	Pausable bool             `json:"pausable,omitempty"` // it may be stopped as a whole
	// Ring is the newest ring that it has confirmed: it has taken a grant of ours while it
	// held that.
	Ring uint64 `json:"ring,omitzero"`
}

const shownValue = "workloads.shown"

// loadShown reads what hosts have shown.
func (r *Room) loadShown(tx core.Tx) error {
	_, err := core.GetJSON(tx, shownValue, &r.stored)
	for id, s := range r.stored {
		r.host(id).shown = s
	}
	return err
}

// keepShown stores what the hosts have shown that hold, or held, a workload. They are few,
// and show something else when they are set up otherwise or when a ring is new.
func (r *Room) keepShown(ctx context.Context) error {
	next := make(map[protocol.HostID]shown)
	r.mu.Lock()
	if !r.news.shown {
		r.mu.Unlock()
		return nil
	}
	r.news.shown = false // what is shown from here on is news again
	for _, w := range r.all {
		if h := r.hosts[w.Host]; h != nil && h.shown != (shown{}) {
			next[w.Host] = h.shown
		}
	}
	r.mu.Unlock()
	if maps.Equal(next, r.stored) {
		return nil
	}
	err := r.base.Update(ctx, failpoint.WorkloadDecided, func(tx core.Tx) error { return core.PutJSON(tx, shownValue, next) })
	if err == nil {
		r.stored = next
		return nil
	}
	r.mu.Lock()
	r.news.shown = true
	r.mu.Unlock()
	return err
}
