package core

import (
	"fmt"
	"sync"
)

// Gate says whether anything may be decided here. The room of recovery closes it, and
// it opens only with another start.
type Gate struct {
	mu  sync.Mutex
	why string
	// restartable tells that the next start opens it: only terms are missing.
	restartable bool
}

// Why says why nothing may be decided, empty if it may.
func (g *Gate) Why() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.why
}

// Close closes the gate for as long as the store is used. It reports false if it was
// closed so before.
func (g *Gate) Close(why string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.why != "" && !g.restartable {
		return false
	}
	g.why, g.restartable = why, false
	return true
}

// CloseUntilRestart closes the gate until the next start. It reports false if it was
// closed before.
func (g *Gate) CloseUntilRestart(why string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.why != "" {
		return false
	}
	g.why, g.restartable = why, true
	return true
}

func (g *Gate) open() error {
	if why := g.Why(); why != "" {
		return fmt.Errorf("%w: %s", ErrRecovery, why)
	}
	return nil
}
