package broker

import (
	"sync"
	"time"
)

// crew does work that needs a deep stack, such as carrying a message and checking its
// signature, in place of the goroutines that read connections. There are as many of those as
// hosts, and each would grow its stack for every lease: with 10,000 hosts that took 450 MB,
// and the collector lets the heap grow by as much again. Work waits for nothing: when all of
// the crew are busy, one more joins, and when there are enough of them, the caller does the
// work itself.
type crew struct {
	jobs  chan func()   // has no room: only a goroutine that waits takes a job
	seats chan struct{} // holds one for each of the crew
	over  chan struct{} // closed by end
	wg    sync.WaitGroup
}

const (
	// crewRest is how long one of the crew waits for work before it ends.
	crewRest = 10 * time.Second
	// crewSize is how many they are at most. All of them together keep a few processors busy;
	// work of more connections at a time is a storm, which has grown all stacks already.
	crewSize = 64
)

func newCrew() *crew {
	return &crew{jobs: make(chan func()), seats: make(chan struct{}, crewSize), over: make(chan struct{})}
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
		<-done
		return
	default:
	}
	select {
	case c.seats <- struct{}{}:
		c.wg.Go(func() {
			defer func() { <-c.seats }()
			job()
			c.wait()
		})
		<-done
	default:
		fn()
	}
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
		case <-c.over:
			return
		}
	}
}

// end returns when none of the crew is left. It is called once, after the last call of do
// has returned.
func (c *crew) end() {
	close(c.over)
	c.wg.Wait()
}
