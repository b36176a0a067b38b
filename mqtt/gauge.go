package mqtt

import "time"

const (
	// hidden is how much a write may leave in the system unseen
	// whether the line takes it: 16 KiB that wait, the segment that is being
	// filled, and the first flight.
	hidden = 64 << 10
	// evidence is how many of the newest bytes a rate is measured from: more
	// than what comes and goes in that hidden place at a time.
	evidence = 4 * hidden
	// handshake is about what a connection has carried each way when it stands.
	handshake = 4 << 10
	// pause is how long nothing is written until the line may have carried away
	// all that was hidden.
	pause = time.Second
)

// gauge measures how many bytes pass a connection in a second, from how long
// its writes take. A write that goes into the system at once proves nothing
// about the line: after each pause the first bytes count only if they had to
// wait. So a fast line is known after its handshake, or after those bytes; a
// slow one is never taken for fast because little was to be sent. Nor is a fast
// one taken for slow: where there was nothing to write most of the time, the line
// has carried what there was, and may carry more. Meanwhile it has emptied the
// hidden place, as far as its rate goes. The times of a gauge are those since any
// moment in the past, and never go back.
type gauge struct {
	samples []sample // newest last, of evidence bytes together
	bytes   int      // sum of samples
	busy    time.Duration
	ended   time.Duration // of the newest write
	free    int           // bytes that may yet vanish in the system
	total   int64         // bytes since the connection stands
}

// sample is one write, with the time since the one before it.
type sample struct {
	bytes int
	took  time.Duration
}

// newGauge returns the gauge of a connection that stands at now, after making it
// has taken that long.
func newGauge(now, took time.Duration) *gauge {
	g := &gauge{ended: now}
	g.add(sample{handshake, took})
	return g
}

// wrote takes the account of one write.
func (g *gauge) wrote(n int, began, ended time.Duration) {
	since := g.ended
	if began-since >= pause || g.total == 0 {
		since, g.free = began, hidden
	}
	rest, rate := began-since, g.rate()
	g.total, g.ended = g.total+int64(n), ended
	if rest > ended-began && (ended-since).Seconds()*rate > float64(n) {
		g.free = min(g.free+int(rest.Seconds()*rate), hidden) - n
		return
	}
	waited := (ended-began).Seconds()*rate > float64(n)
	if g.free -= n; g.free < 0 || waited {
		g.add(sample{n, ended - since})
	}
}

func (g *gauge) add(s sample) {
	g.samples = append(g.samples, s)
	g.bytes, g.busy = g.bytes+s.bytes, g.busy+s.took
	for old := g.samples[0]; g.bytes-old.bytes >= evidence; old = g.samples[0] {
		g.samples = g.samples[1:]
		g.bytes, g.busy = g.bytes-old.bytes, g.busy-old.took
	}
}

// rate returns the bytes that pass in a second.
func (g *gauge) rate() float64 {
	return float64(g.bytes) / max(g.busy, time.Microsecond).Seconds()
}

// delay returns how long what was written may take to leave the system.
func (g *gauge) delay() time.Duration {
	return time.Duration(float64(min(g.total, hidden)) / g.rate() * float64(time.Second))
}
