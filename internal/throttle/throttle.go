// Package throttle keeps a flood of messages from filling a log.
package throttle

import (
	"sync"
	"time"
)

// every is how far two lines are apart at least.
const every = time.Second

// Lines lets one line a second into a log and counts the others. The zero value is
// ready. It is safe for concurrent use.
type Lines struct {
	mu      sync.Mutex
	next    time.Duration // before it no line passes
	skipped int
}

// Pass reports whether a line may be written now, and how many lines were left out
// since the one before it. now is a duration since any fixed point of one
// monotonic clock.
func (l *Lines) Pass(now time.Duration) (skipped int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now < l.next {
		l.skipped++
		return 0, false
	}
	skipped, l.skipped, l.next = l.skipped, 0, now+every
	return skipped, true
}
