package relay

import (
	"testing"
	"time"

	"github.com/hostler-io/hostler/protocol"
)

// simulate lets a stream run over a line of so many bytes a second, with chunks
// and envelopes as the coordinator cuts them, and returns for how long the line
// was queued at the most, and how many bytes arrived in the time.
func simulate(second int64, trip, lasts time.Duration) (queued time.Duration, came int64) {
	now := time.Unix(0, 0)
	var p pacer
	p.begin(second)
	var taken, next, limit, sent int64
	free := now // when the line has carried what was handed to it
	type chunk struct {
		at time.Time
		n  int64
	}
	var onItsWay []chunk
	tell := func() {
		w := max(p.window, 2*protocol.LeastChunk)
		p.told(next, limit, now)
		limit = max(limit, taken+w)
		for sent < limit {
			n := min(max(w/2, protocol.LeastChunk), protocol.ChunkSize, limit-sent)
			sent += n
			start := now.Add(trip / 2)
			if free.After(start) {
				start = free
			}
			free = start.Add(time.Duration(n+750) * time.Second / time.Duration(second))
			queued = max(queued, free.Sub(now.Add(trip/2)))
			onItsWay = append(onItsWay, chunk{free.Add(trip / 2), n})
		}
	}
	tell()
	for end := now.Add(lasts); len(onItsWay) > 0 && onItsWay[0].at.Before(end); {
		c := onItsWay[0]
		onItsWay = onItsWay[1:]
		now = c.at
		next += c.n
		taken = next
		p.arrived(next, now)
		if w := max(p.window, 2*protocol.LeastChunk); taken+w-limit >= w/4 || len(onItsWay) == 0 {
			tell()
		}
	}
	return queued, taken
}

// TestPacer fills every line, and queues no more than a few seconds of it: a
// grant that comes behind all of that is still early for a lease.
func TestPacer(t *testing.T) {
	for _, test := range []struct {
		name   string
		second int64
		trip   time.Duration
	}{
		{"9.6 kbit/s", 1200, 300 * time.Millisecond},
		{"56 kbit/s over a satellite", 7000, 1200 * time.Millisecond},
		{"1 Mbit/s", 125_000, 50 * time.Millisecond},
		{"10 Mbit/s over a satellite", 1_250_000, 600 * time.Millisecond},
		{"1 Gbit/s", 125_000_000, 2 * time.Millisecond},
	} {
		queued, came := simulate(test.second, test.trip, 2*time.Minute)
		carried := float64(came) / float64(min(test.second, int64(float64(protocol.MaxInputWindow)/test.trip.Seconds()))*120)
		t.Logf("%s: queued for %v, %.0f %% of the line used", test.name, queued, 100*carried)
		if queued > 8*time.Second {
			t.Errorf("%s: %v are queued in front of a grant", test.name, queued)
		}
		if carried < 0.4 { // at 9.6 kbit/s two fifths are envelopes
			t.Errorf("%s: %.0f %% of the line used", test.name, 100*carried)
		}
	}
}
