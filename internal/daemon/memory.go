package daemon

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// Memory that was needed once is given back when the program is quiet. The runtime
// itself keeps it for minutes, and what it frees it frees by and by. A program that is
// never quiet gives back what is much, now and then.
const (
	lookEvery  = 3 * time.Second
	quietBytes = 1 << 20  // allocated between two looks by a program that is quiet
	worthBytes = 4 << 20  // allocated since memory was given back the last time
	muchBytes  = 32 << 20 // free, and more than what is in use
	muchAfter  = 20       // looks since memory was given back the last time
)

// memory is what one look finds, in bytes.
type memory struct {
	allocated  uint64 // since the start of the program
	free, live uint64 // of the heap
}

// tidying decides when memory is given back.
type tidying struct {
	before, tidied uint64 // allocated at the last look, and when memory was given back
	looks          int    // since then
	started        bool
}

// due reports whether memory is to be given back now: what the start took at once.
func (t *tidying) due(m memory) bool {
	t.looks++
	quiet := m.allocated-t.before < quietBytes && m.allocated-t.tidied > worthBytes
	much := m.free > max(muchBytes, m.live) && t.looks >= muchAfter
	due := !t.started || quiet || much
	t.before, t.started = m.allocated, true
	if due {
		t.tidied, t.looks = m.allocated, 0
	}
	return due
}

// Tidy gives memory back, until ctx ends.
func Tidy(ctx context.Context) error {
	samples := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}, {Name: "/memory/classes/heap/free:bytes"}, {Name: "/gc/heap/live:bytes"}}
	var t tidying
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-look.C:
		}
		metrics.Read(samples)
		if t.due(memory{allocated: samples[0].Value.Uint64(), free: samples[1].Value.Uint64(), live: samples[2].Value.Uint64()}) {
			debug.FreeOSMemory()
		}
	}
}
