package sim

import (
	"time"

	"github.com/hostler-io/hostler/placement"
	"github.com/hostler-io/hostler/unique"
)

// alive is the observer of whether everything runs in time. Without it, a coordinator that
// starts nothing would break no rule.
type alive struct {
	*play
	// bound is for how long a workload may run nowhere after the newest fault has begun or
	// ended; 0 where nothing is promised.
	bound time.Duration
	since int64  // when a fault began or ended last
	told  []bool // of each workload: it was told of
}

// promised is for how long a workload of a world may run nowhere: until its lease has ended for
// certain, and then the time in which another host starts it. That is promised if one
// thing goes wrong at most, and what has gone can run elsewhere: each host proves that it
// has ended what it held, and each one has room for everything. 0: nothing is promised.
func promised(w *World) time.Duration {
	var size placement.Size
	for _, x := range w.Workloads {
		if size = size.Plus(x.Size); x.Keeps || x.Data != "" && x.Data != unique.DataNone || len(x.After) > 0 {
			return 0
		}
	}
	latency := w.Latency
	for _, h := range w.Hosts {
		if !h.Fence.AtLeast(w.Min) || h.Pausable || h.Has.CPU < size.CPU || h.Has.Memory < size.Memory || h.Has.Disk < size.Disk {
			return 0
		}
		latency = max(latency, h.Latency)
	}
	// Of fewer hosts one is half of them.
	if len(w.Hosts) < 3 || len(w.Faults) > 1 || w.Loss > 0 {
		return 0
	}
	for _, f := range w.Faults {
		switch f.Kind {
		case Cut, PowerOff, StopAgent, KillAgent, CutAll:
		case Restart:
			if f.For == 0 {
				return 0 // it never decides again
			}
		default:
			return 0
		}
		if f.Kind == CutAll && f.For == 0 {
			return 0
		}
	}
	return w.Timing.Takeover() + w.Timing.TTL/3 + 3*tick*time.Millisecond + 4*latency
}

func newAlive(p *play) *alive {
	a := &alive{play: p, bound: promised(&p.World), told: make([]bool, len(p.names))}
	if a.bound > 0 {
		a.look()
	}
	return a
}

// changed notes that a fault has begun or ended.
func (a *alive) changed() { a.since = a.now }

// look is made every second of real time.
func (a *alive) look() {
	a.in(tick, a.look)
	if !a.head.on || a.head.cut {
		a.since = a.now // no host can be told to start anything
	}
	for i := range a.really {
		since := max(a.really[i].ended, a.since)
		late := len(a.really[i].on) == 0 && time.Duration(a.now-since)*time.Millisecond > a.bound
		if late && !a.told[i] {
			a.violated("%s runs nowhere for longer than %s after one fault", a.names[i], a.bound)
		}
		a.told[i] = late
	}
}
