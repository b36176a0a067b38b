package agent

import (
	"maps"
	"slices"
	"sync/atomic"

	"github.com/hostler-io/hostler/agent/wire"
	"github.com/hostler-io/hostler/container"
	"github.com/hostler-io/hostler/protocol"
)

// counters are written by any goroutine and read by Metrics. The maps are made
// once and only read afterwards.
type counters struct {
	traffic       *wire.Traffic
	ended         map[protocol.State]*atomic.Uint64
	accepted      atomic.Uint64
	unapproved    atomic.Uint64
	starts        atomic.Uint64
	startFailures atomic.Uint64
	gauges        atomic.Pointer[gauges]
}

// gauges are what the loop saw when it last turned.
type gauges struct {
	connected, degraded bool
	waiting, running    int
	unsent              uint64
	containers          map[container.State]int
}

func newCounters() *counters {
	c := &counters{
		traffic: wire.NewTraffic(),
		ended:   counterMap(slices.DeleteFunc(protocol.States(), func(s protocol.State) bool { return !s.Final() })),
	}
	c.gauges.Store(&gauges{})
	return c
}

func counterMap[K comparable](keys []K) map[K]*atomic.Uint64 {
	m := make(map[K]*atomic.Uint64, len(keys))
	for _, k := range keys {
		m[k] = new(atomic.Uint64)
	}
	return m
}

// count adds one under a key; what is no key is not counted, so that nothing
// from outside can make the map grow.
func count[K comparable](m map[K]*atomic.Uint64, k K) {
	if c, ok := m[k]; ok {
		c.Add(1)
	}
}

func (c *counters) snapshot() Metrics {
	read := func(v *atomic.Uint64) uint64 { return v.Load() }
	g, t := c.gauges.Load(), c.traffic.Counts()
	return Metrics{
		Refused:       t.Refused,
		Dropped:       t.Dropped,
		Sent:          t.Sent,
		Received:      t.Received,
		Accepted:      c.accepted.Load(),
		Unapproved:    c.unapproved.Load(),
		Ended:         project(c.ended, read),
		Starts:        c.starts.Load(),
		StartFailures: c.startFailures.Load(),
		Connected:     g.connected,
		Degraded:      g.degraded,
		Waiting:       g.waiting,
		Running:       g.running,
		Unsent:        g.unsent,
		Containers:    maps.Clone(g.containers),
	}
}

func project[K comparable, V, W any](m map[K]V, f func(V) W) map[K]W {
	out := make(map[K]W, len(m))
	for k, v := range m {
		out[k] = f(v)
	}
	return out
}
