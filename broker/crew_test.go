package broker

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestCrew: one goroutine does what comes one after the other, as many as are needed do
// what comes together, callers do what is more than that themselves, and none is left after
// a rest or at the end.
func TestCrew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrew()
		are := func(when string, want int) {
			t.Helper()
			synctest.Wait()
			if got := len(c.seats); got != want {
				t.Errorf("%s: %d are there, want %d", when, got, want)
			}
		}
		done := 0
		for range 100 {
			c.do(func() { done++ })
			synctest.Wait() // it waits for the next job
		}
		are("one after the other", 1)
		var mu sync.Mutex
		together := func(n int) {
			t.Helper()
			var all sync.WaitGroup
			gate := make(chan struct{})
			began := 0
			for range n {
				all.Go(func() {
					c.do(func() {
						mu.Lock()
						began++
						mu.Unlock()
						<-gate
					})
				})
			}
			are("together", min(n, crewSize))
			if began != n {
				t.Errorf("%d of %d jobs have begun", began, n)
			}
			close(gate)
			all.Wait()
		}
		together(50)
		together(2 * crewSize)
		<-time.After(crewRest + time.Second)
		are("after a rest", 0)
		c.do(func() { done++ })
		are("again", 1)
		c.end()
		if done != 101 || len(c.seats) != 0 {
			t.Errorf("%d jobs were done and %d are there at the end, want 101 and 0", done, len(c.seats))
		}
	})
}
