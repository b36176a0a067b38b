package agent

import (
	"maps"
	"sync/atomic"

	"github.com/hostler-io/hostler/agent/wire"
	"github.com/hostler-io/hostler/container"
)

// counters are written by any goroutine and read by Metrics.
type counters struct {
	traffic *wire.Traffic
	gauges  atomic.Pointer[gauges]
}

// gauges are what the loop saw when it last turned.
type gauges struct {
	connected, degraded bool
	waiting, running    int
	unsent              uint64
	containers          map[container.State]int
}

func newCounters() *counters {
	c := &counters{traffic: wire.NewTraffic()}
	c.gauges.Store(&gauges{})
	return c
}

func (c *counters) snapshot() Metrics {
	g, t := c.gauges.Load(), c.traffic.Counts()
	return Metrics{
		Refused:    t.Refused,
		Dropped:    t.Dropped,
		Sent:       t.Sent,
		Received:   t.Received,
		Connected:  g.connected,
		Degraded:   g.degraded,
		Waiting:    g.waiting,
		Running:    g.running,
		Unsent:     g.unsent,
		Containers: maps.Clone(g.containers),
	}
}
