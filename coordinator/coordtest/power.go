package coordtest

import (
	"context"
	"sync"

	"github.com/hostler-io/hostler/fence"
	"github.com/hostler-io/hostler/fence/agents"
)

// Power are fence devices that switch nothing. They do what they are asked at once, and
// remember which hosts they have switched off. It is safe for concurrent use.
type Power struct {
	mu  sync.Mutex
	off map[string]bool
}

// Run implements [fencing.Programs].
func (p *Power) Run(_ context.Context, c agents.Call) agents.Result {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch c.Verb {
	case "off":
		if p.off == nil {
			p.off = make(map[string]bool)
		}
		p.off[c.Host] = true
	case "on":
		delete(p.off, c.Host)
	case "status":
		if p.off[c.Host] {
			return agents.Result{Outcome: fence.OutcomeOff}
		}
	}
	return agents.Result{Outcome: fence.OutcomeOK}
}

// Describe implements [fencing.Programs]. fence_blind cannot be asked for a status.
func (p *Power) Describe(_ context.Context, agent string) (agents.Metadata, error) {
	return agents.Metadata{On: true, Off: true, Status: agent != "fence_blind", Params: []string{"password"}}, nil
}
