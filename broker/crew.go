package hostlink

import (
	"context"
	"time"
)

// crew does work that needs a deep stack, such as checking a signature, in place of the
// goroutines that read connections. There are as many of those as hosts, and each would
// grow its stack for every lease: with 10,000 hosts that took 300 MB. Work waits for
// nothing: when all of the crew are busy, one more joins.
type crew struct {
	ctx   context.Context   // that of the process
	start func(func()) bool // see [Config.Start]
	jobs  chan func()       // has no room: only a goroutine that waits takes a job
}

// crewRest is how long one of the crew waits for work before it ends.
const crewRest = 10 * time.Second

func newCrew(ctx context.Context, start func(func()) bool) *crew {
	return &crew{ctx: ctx, start: start, jobs: make(chan func())}
}

// do returns when fn has. Any number of calls may be under way.
func (c *crew) do(fn func()) {
	done := make(chan struct{})
	job := func() {
		defer close(done)
		fn()
	}
	select {
	case c.jobs <- job:
	default:
		if !c.start(func() { job(); c.wait() }) {
			job() // the process ends
		}
	}
	<-done
}

// wait does what comes until there was nothing to do for a while.
func (c *crew) wait() {
	rest := time.NewTimer(crewRest)
	defer rest.Stop()
	for {
		select {
		case job := <-c.jobs:
			job()
			rest.Reset(crewRest)
		case <-rest.C:
			return
		case <-c.ctx.Done():
			return
		}
	}
}
