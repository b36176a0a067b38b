package main

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// Collecting garbage costs by its frequency, and a small heap is collected
// often: of a coordinator with few hosts it takes a tenth of all it does. So the
// heap may grow by spareHeap between two collections, or by itself if it is
// larger than that.
const (
	spareHeap  = 64 << 20
	minPercent = 100 // the runtime's default
	maxPercent = 400
	paceEvery  = 10 * time.Second
)

// percent is the pace for a heap of which so many bytes live.
func percent(live uint64) int {
	return int(min(maxPercent, max(minPercent, spareHeap*100/max(live, 1))))
}

// pace sets the pace of collections as the heap grows and shrinks, and gives it
// back to what it was in the end. Whoever set GOGC knows better.
func pace(ctx context.Context) error {
	if os.Getenv("GOGC") != "" {
		return nil
	}
	defer debug.SetGCPercent(debug.SetGCPercent(maxPercent))
	t := time.NewTicker(paceEvery)
	defer t.Stop()
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	for {
		metrics.Read(live)
		debug.SetGCPercent(percent(live[0].Value.Uint64()))
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
	}
}
