package daemon

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

// TestMemoryIsGivenBack: after the start, after work, and now and then when work never
// ends; not while nothing was needed, nor while all of it is.
func TestMemoryIsGivenBack(t *testing.T) {
	const mb = 1 << 20
	for name, c := range map[string]struct {
		looks []memory
		want  int // times, that after the start included
	}{
		"quiet from the start": {looks(30, memory{}, memory{allocated: mb / 10}), 1},
		"after work":           {append(looks(10, memory{}, memory{allocated: 50 * mb}), looks(10, memory{allocated: 450 * mb}, memory{allocated: mb / 10})...), 2},
		"little work":          {looks(10, memory{}, memory{allocated: mb / 4}), 1},
		"leases without end":   {looks(81, memory{free: 100 * mb, live: 60 * mb}, memory{allocated: 40 * mb}), 5},
		"all of it in use":     {looks(81, memory{free: 40 * mb, live: 60 * mb}, memory{allocated: 40 * mb}), 1},
	} {
		var d tidying
		n := 0
		for _, m := range c.looks {
			if d.due(m) {
				n++
			}
		}
		if n != c.want {
			t.Errorf("%s: %d times, want %d", name, n, c.want)
		}
	}
}

// looks are so many looks, each of which finds more allocated than that before it.
func looks(n int, first, each memory) []memory {
	all := make([]memory, n)
	for i := range all {
		all[i] = first
		first.allocated += each.allocated
	}
	return all
}

// TestTidyGivesBack: what was needed once goes back to the system soon after.
func TestTidyGivesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const much = 128 << 20
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- Tidy(ctx) }()
		time.Sleep(lookEvery + time.Millisecond) // what the start took
		b := make([]byte, much)
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}
		runtime.KeepAlive(b)
		before := held()
		b = nil
		time.Sleep(3 * lookEvery) // of the bubble
		if after := held(); after+much/2 > before {
			t.Errorf("%d bytes are held, %d were", after, before)
		}
		stop()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("it ended with %v", err)
		}
	})
}

// held is how much memory of the system's the heap has.
func held() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapSys - m.HeapReleased
}
