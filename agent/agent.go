package agent

import (
	"context"
	"fmt"
)

// Agent is the engine of one host. Its exported methods may be called from any
// goroutine.
type Agent struct {
	cfg      Config
	calls    chan func()
	stopped  chan struct{}
	counters *counters
}

// New checks the configuration. Nothing happens before Run.
func New(cfg Config) (*Agent, error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("agent: %w", err)
	}
	return &Agent{cfg: cfg.withDefaults(), calls: make(chan func()), stopped: make(chan struct{}), counters: newCounters()}, nil
}

// Run serves until ctx ends and returns its cause, or the error that makes it
// impossible to go on: a queue that is damaged. It runs once.
func (a *Agent) Run(ctx context.Context) error {
	defer close(a.stopped)
	for {
		select {
		case f := <-a.calls:
			f()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
