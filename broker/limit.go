package broker

import "time"

// Limit bounds what one connection may send, as two token buckets.
type Limit struct {
	// Messages and Bytes per second, in the long run.
	Messages, Bytes int
	// Burst is how many seconds' worth may come at once.
	Burst time.Duration
	// Flood is how many seconds' worth may come above the rate and the burst
	// before the connection is cut.
	Flood time.Duration
}

func (l Limit) valid() bool {
	return l.Messages > 0 && l.Bytes > 0 && l.Burst > 0 && l.Flood > 0
}

type verdict int

const (
	withinLimit verdict = iota
	overLimit           // more than the rate and the burst allow
	flooding            // and this has been going on
)

// meter measures one connection against a Limit. Its balance is a time: each
// message costs its part of a second's worth of messages, or of bytes, whatever
// is more, and what passes is earned. A balance below zero is a debt that only
// silence pays off, so a sender that goes on at more than its rate ends beyond
// Flood.
type meter struct {
	limit   Limit
	balance time.Duration
	last    time.Time
}

func newMeter(l Limit, now time.Time) meter {
	return meter{limit: l, balance: l.Burst, last: now}
}

// take charges one packet of size bytes.
func (m *meter) take(now time.Time, size int) verdict {
	m.balance = min(m.balance+now.Sub(m.last), m.limit.Burst)
	m.last = now
	m.balance -= max(time.Second/time.Duration(m.limit.Messages), time.Duration(size)*time.Second/time.Duration(m.limit.Bytes))
	switch {
	case m.balance < -m.limit.Flood:
		return flooding
	case m.balance < 0:
		return overLimit
	}
	return withinLimit
}
