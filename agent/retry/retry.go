// Package retry decides when a container that does not stay up is started again, and when
// that has failed too often. It is pure: time and chance are arguments.
package retry

import "time"

// Numbers of the decisions about containers that do not stay up.
const (
	// maxFailures is how often a start that fails is tried before the container
	// is broken: with the delays below that gives a minute to whatever was
	// missing.
	maxFailures = 5
	// Delays after failed starts and stops: 2 s, doubling, half of it random.
	firstRetry = 2 * time.Second
	lastRetry  = 5 * time.Minute
	// Delays after a container ended that was started: 1 s, doubling to 5 min,
	// and from the beginning after 10 min of health.
	firstCrash = time.Second
	lastCrash  = 5 * time.Minute
	healthy    = 10 * time.Minute
)

// Attempts is what a container's starts came to. Times are of any one monotonic
// clock. It is a value: every decision returns a new one.
type Attempts struct {
	Failures  int           // failed starts in a row; durable with the container
	crashes   int           // ends in a row without a time of health between
	stops     int           // failed stops in a row
	NotBefore time.Duration // the next start or stop
	upSince   time.Duration // when it was first seen running; 0 is not
}

// Failed is a start that did not succeed. It tells whether that was one too
// many. jitter is random in [0, 1).
func (a Attempts) Failed(now time.Duration, jitter float64) (next Attempts, broken bool) {
	a.Failures++
	a.upSince = 0
	a.NotBefore = now + backoff(firstRetry, lastRetry, a.Failures, jitter)
	return a, a.Failures >= maxFailures
}

// Unstopped is a stop that did not succeed. There is no end to them: what should
// not run is stopped as soon as that is possible.
func (a Attempts) Unstopped(now time.Duration, jitter float64) Attempts {
	a.stops++
	a.NotBefore = now + backoff(firstRetry, lastRetry, a.stops, jitter)
	return a
}

// Up is a container that was seen running.
func (a Attempts) Up(now time.Duration) Attempts {
	a.Failures = 0
	if a.upSince == 0 {
		a.upSince = max(now, 1)
	}
	if now-a.upSince >= healthy {
		a.crashes = 0
	}
	return a
}

// Down is a container that should run and was seen stopped. It has crashed only if it
// was up before; otherwise it waits for its first start.
func (a Attempts) Down(now time.Duration, jitter float64) Attempts {
	if a.upSince == 0 {
		return a
	}
	if now-a.upSince >= healthy {
		a.crashes = 0
	}
	a.crashes++
	a.upSince = 0
	a.NotBefore = now + backoff(firstCrash, lastCrash, a.crashes, jitter)
	return a
}

// backoff is the delay after the nth failure in a row, from 1: it doubles from
// first to last, and half of it is random, so that containers that failed
// together are not tried together.
func backoff(first, last time.Duration, n int, jitter float64) time.Duration {
	d := last
	if n < 16 {
		d = min(last, first<<(n-1))
	}
	return d/2 + time.Duration(jitter*float64(d/2))
}
