// Package figures are the figures of a host that always move, and when they have moved
// far enough to be told again.
package figures

import "time"

// Figures are what a heartbeat tells of a host besides what it is.
type Figures struct {
	UptimeMS   int64 `json:"uptime_ms"`
	ClockMS    int64 `json:"clock_ms"` // the host's wall clock, Unix milliseconds
	MemoryFree int64 `json:"memory_free_bytes"`
	DiskFree   int64 `json:"disk_free_bytes"`
	Load1000   int64 `json:"load1_milli"` // one-minute load average × 1000
	QueueDepth int   `json:"queue_depth"` // accepted actions that have not ended
}

// Steps that are told. A step is small enough for people to act upon and large enough
// that a host at rest makes none.
const (
	part      = 20 // a twentieth of a memory or a disk
	loadStep  = 500
	clockStep = time.Second // between the wall clock and the time since the boot
	upStep    = time.Hour
)

// Moved reports whether f differs by a step from what was told, on a host with so many
// bytes of memory and disk.
func (f Figures) Moved(told Figures, memory, disk int64) bool {
	far := func(a, b, step int64) bool { return a-b >= step || b-a >= step }
	return far(f.MemoryFree, told.MemoryFree, max(1, memory/part)) || far(f.DiskFree, told.DiskFree, max(1, disk/part)) ||
		far(f.Load1000, told.Load1000, max(loadStep, told.Load1000/4)) ||
		far(f.ClockMS-f.UptimeMS, told.ClockMS-told.UptimeMS, clockStep.Milliseconds()) ||
		far(f.UptimeMS, told.UptimeMS, upStep.Milliseconds())
}

// Negative reports whether a figure that counts something is below zero.
func (f Figures) Negative() bool {
	return min(f.UptimeMS, f.MemoryFree, f.DiskFree, f.Load1000, int64(f.QueueDepth)) < 0
}
