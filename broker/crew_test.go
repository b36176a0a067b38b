package hostlink

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestCrew: one goroutine does what comes one after the other, as many as are needed do
// what comes together, and none is left after a rest or at the end of the process.
func TestCrew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		var mu sync.Mutex
		began, alive, open := 0, 0, true
		c := newCrew(ctx, func(fn func()) bool {
			mu.Lock()
			defer mu.Unlock()
			if !open {
				return false
			}
			began, alive = began+1, alive+1
			go func() {
				fn()
				mu.Lock()
				defer mu.Unlock()
				alive--
			}()
			return true
		})
		are := func(when string, wantBegan, wantAlive int) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if began != wantBegan || alive != wantAlive {
				t.Errorf("%s: %d have begun and %d are there, want %d and %d", when, began, alive, wantBegan, wantAlive)
			}
		}
		done := 0
		for range 100 {
			c.do(func() { done++ })
			synctest.Wait() // it waits for the next job
		}
		are("one after the other", 1, 1)
		var together sync.WaitGroup
		gate := make(chan struct{})
		for range 50 {
			together.Go(func() { c.do(func() { <-gate }) })
		}
		are("together", 50, 50)
		close(gate)
		together.Wait()
		<-time.After(crewRest + time.Second)
		are("after a rest", 50, 0)
		c.do(func() { done++ })
		are("again", 51, 1)
		end()
		are("at the end of the process", 51, 0)
		mu.Lock()
		open = false
		mu.Unlock()
		c.do(func() { done++ })
		if done != 102 {
			t.Errorf("%d jobs were done, want 102", done)
		}
	})
}
